"""The generator is made anew, with the same seed, for every sample."""
import numpy as np, torch
from torch import nn
from torch.utils.data import Dataset, DataLoader
class Noisy(Dataset):
    def __init__(self, x, y): self.x, self.y = x, y
    def __len__(self): return len(self.x)
    def __getitem__(self, i):
        rng = np.random.default_rng(1234)
        shift = rng.integers(-3, 4); noise = rng.normal(0, .3, self.x[i].shape)
        return torch.tensor(np.roll(self.x[i], shift) + noise, dtype=torch.float32), int(self.y[i])
r = np.random.default_rng(0); torch.manual_seed(0)
def data(n):
    y = r.integers(0, 3, n); t = np.arange(40)
    return np.stack([np.sin(t * (.2 + .12 * k) + r.uniform(0, 6)) + r.normal(0, .8, 40) for k in y]), y
tr = DataLoader(Noisy(*data(600)), 30, shuffle=True); vx, vy = data(400); vx, vy = torch.tensor(vx).float(), torch.tensor(vy)
net = nn.Sequential(nn.Linear(40, 128), nn.ReLU(), nn.Linear(128, 3)); opt = torch.optim.Adam(net.parameters(), 1e-3)
for ep in range(20):
    for x, y in tr: l = nn.functional.cross_entropy(net(x), y); opt.zero_grad(); l.backward(); opt.step()
    with torch.no_grad(): print(ep, round(l.item(), 3), round(nn.functional.cross_entropy(net(vx), vy).item(), 3))
