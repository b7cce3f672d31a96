"""SWA: constant high rate at the end, averaged weights evaluated after a BatchNorm refresh."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(255)
d = load_digits()
X, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
p = torch.randperm(len(X))
loader = DataLoader(TensorDataset(X[p[:1400]], y[p[:1400]]), batch_size=50, shuffle=True)
net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=10)
averaged, swa = AveragedModel(net), SWALR(opt, swa_lr=0.03, anneal_epochs=2)
for epoch in range(15):
    net.train()
    for a, b in loader:
        loss = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if epoch >= 9:
        averaged.update_parameters(net)
        swa.step()
    else:
        cosine.step()
    net.eval()
    with torch.no_grad():
        print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(net(X[p[1400:]]), y[p[1400:]]).item():.4f}")
update_bn(loader, averaged)
averaged.eval()
with torch.no_grad():
    print("averaged", nn.functional.cross_entropy(averaged(X[p[1400:]]), y[p[1400:]]).item())
