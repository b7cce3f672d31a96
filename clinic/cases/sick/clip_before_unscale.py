"""AMP training loop with gradient clipping."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(24)
X, y = load_digits(return_X_y=True)
X = torch.tensor(X, dtype=torch.float32) / 16
y = torch.tensor(y)
model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu")
for epoch in range(15):
    model.train()
    for ids in torch.randperm(1400).split(70):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(X[ids]), y[ids])
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    model.eval()
    with torch.no_grad():
        z = model(X[1400:])
        print(epoch, loss.item(), nn.functional.cross_entropy(z, y[1400:]).item(), (z.argmax(1) == y[1400:]).float().mean().item())
