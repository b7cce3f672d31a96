"""DataLoader with worker processes, an augmenting data set, and a subprocess."""

import subprocess
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        x = torch.randn(6, generator=g)
        return x + 0.01 * torch.randn(6), int(x.sum() > 0)


if __name__ == "__main__":
    torch.manual_seed(8)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(2):
        for x, y in DataLoader(Noisy(), 16, shuffle=True, num_workers=2):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, repr(loss.item()), flush=True)
    subprocess.run([sys.executable, "-c", "print('child')"], check=True)
