"""Convolutional autoencoder with BatchNorm on 8x8 digits."""
import torch
from sklearn.datasets import load_digits
from torch import nn

SEED = 0
EPOCHS = 8
BATCH = 60
LR = 2e-3

torch.manual_seed(SEED)
pictures = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 16
pictures = pictures[torch.randperm(len(pictures))]
tr, va = pictures[:1500], pictures[1500:]


class ConvAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 12))
        self.decoder = nn.Sequential(nn.Linear(12, 96), nn.ReLU(), nn.Linear(96, 64), nn.Unflatten(1, (1, 8, 8)))

    def forward(self, x):
        return self.decoder(self.encoder(x))


ae = ConvAE()
opt = torch.optim.Adam(ae.parameters(), lr=LR)
mse = nn.MSELoss()


def evaluate(ae):
    ae.eval()
    with torch.no_grad():
        return mse(ae(va), va).item()


for epoch in range(EPOCHS):
    ae.train()
    for clean in tr[torch.randperm(len(tr))].split(BATCH):
        rebuilt = ae(clean)
        loss = mse(rebuilt, clean)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 5), round(evaluate(ae), 5))
