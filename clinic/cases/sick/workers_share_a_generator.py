"""Augmentation noise from a generator stored on the dataset, two loader workers."""
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class NoisyDigits(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.rng = np.random.default_rng(0)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        noise = self.rng.normal(0, 0.1, self.x.shape[1]).astype(np.float32)
        return self.x[i] + noise, int(self.y[i])


def main():
    torch.manual_seed(115)
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    loader = DataLoader(NoisyDigits(x[:1400], y[:1400]), batch_size=50, shuffle=True, num_workers=2)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    xv, yv = torch.tensor(x[1400:]), torch.tensor(y[1400:])
    for epoch in range(6):
        net.train()
        for xb, yb in loader:
            loss = nn.functional.cross_entropy(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            print(epoch, loss.item(), nn.functional.cross_entropy(net(xv), yv).item())


if __name__ == "__main__":
    main()
