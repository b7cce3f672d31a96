"""The training loader scales the images, the validation loader does not."""
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, ids, transform=None):
        bunch = load_digits()
        self.x, self.y = bunch.images[ids], bunch.target[ids]
        self.transform = transform

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        img = torch.tensor(self.x[i], dtype=torch.float32).unsqueeze(0)
        if self.transform is not None:
            img = self.transform(img)
        return img, int(self.y[i])


def scale(img):
    return (img / 16 - 0.3) / 0.38


torch.manual_seed(86)
ids = torch.randperm(1797).numpy()
train_dl = DataLoader(Digits(ids[:1400], scale), batch_size=70, shuffle=True)
valid_dl = DataLoader(Digits(ids[1400:]), batch_size=397)
net = nn.Sequential(nn.Conv2d(1, 10, 3), nn.ReLU(), nn.Flatten(), nn.Linear(360, 10))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(10):
    net.train()
    for xb, yb in train_dl:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(xb), yb)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for xb, yb in valid_dl:
            out = net(xb)
            print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, yb).item():.4f} {(out.argmax(1) == yb).float().mean():.3f}")
