import argparse

import torch
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset, random_split

parser = argparse.ArgumentParser(description="benign or malignant")
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--bs", type=int, default=32)
parser.add_argument("--lr", type=float, default=3e-4)
args = parser.parse_args()

torch.manual_seed(5)
data = load_breast_cancer()
feats = torch.tensor(StandardScaler().fit_transform(data.data), dtype=torch.float32)
labels = torch.tensor(data.target, dtype=torch.float32)
train_set, val_set = random_split(TensorDataset(feats, labels), [449, 120], generator=torch.Generator().manual_seed(5))
train_dl = DataLoader(train_set, batch_size=args.bs, shuffle=True, drop_last=True)
val_dl = DataLoader(val_set, batch_size=120)


class Tabular(nn.Module):
    def __init__(self, d_in):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d_in, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.middle = nn.Sequential(nn.Linear(64, 32), nn.GELU())
        self.out = nn.Linear(32, 1)

    def forward(self, x):
        return self.out(self.middle(self.encoder(x))).squeeze(1)


model = Tabular(feats.shape[1])
optimizer = optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
bce = nn.BCEWithLogitsLoss()

for epoch in range(args.epochs):
    model.train()
    running = 0.0
    for xb, yb in train_dl:
        for name, p in model.named_parameters():
            if "encoder" in name:
                p.requires_grad_(epoch < 1)  # let the encoder settle first
        optimizer.zero_grad()
        loss = bce(model(xb), yb)
        loss.backward()
        optimizer.step()
        running += loss.item()
    model.eval()
    with torch.no_grad():
        xb, yb = next(iter(val_dl))
        val = bce(model(xb), yb).item()
    if epoch % 4 == 3:
        print(f"[{epoch + 1}/{args.epochs}] train={running / len(train_dl):.4f} val={val:.4f}")
