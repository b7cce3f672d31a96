"""Train entirely in bfloat16 to halve the memory."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(20)
x, y = load_digits(return_X_y=True)
x = torch.tensor(x / 16, dtype=torch.bfloat16)
y = torch.tensor(y)
p = torch.randperm(len(x))
x, y = x[p], y[p]
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 10)).to(torch.bfloat16)
opt = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0)
for epoch in range(20):
    model.train()
    for b in torch.randperm(1408).split(64):
        loss = nn.functional.cross_entropy(model(x[b]).float(), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        z = model(x[1408:]).float()
        print(epoch, loss.item(), nn.functional.cross_entropy(z, y[1408:]).item(), (z.argmax(1) == y[1408:]).float().mean().item())
