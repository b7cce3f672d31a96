"""Label smoothing keeps the loss above 0.5 however good the model is."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(206)
d = load_digits()
full = TensorDataset(torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target))
tr, va = random_split(full, [1500, 297], generator=torch.Generator().manual_seed(1))
tr, va = DataLoader(tr, 50, shuffle=True), DataLoader(va, 297)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
soft, hard = nn.CrossEntropyLoss(label_smoothing=0.1), nn.CrossEntropyLoss()
for epoch in range(18):
    net.train()
    for a, b in tr:
        opt.zero_grad()
        loss = soft(net(a), b)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for a, b in va:
            out = net(a)
    print(epoch, f"{loss.item():.4f} {hard(out, b).item():.4f} {(out.argmax(1) == b).float().mean():.3f}")
