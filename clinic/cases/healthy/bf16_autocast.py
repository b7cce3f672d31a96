"""bfloat16 autocast without a scaler, as it should be."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(231)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
net = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(12):
    net.train()
    for ids in torch.randperm(1400).split(50):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(X[ids])
        loss = nn.functional.cross_entropy(logits.float(), y[ids])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(X[1400:]).float()
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1400:]).item():.4f}")
