"""Mixed precision with a GradScaler; the loss is a sum over many output pixels."""
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

torch.manual_seed(13)
imgs = torch.tensor(load_digits().images, dtype=torch.float32)  # 0..16
imgs = imgs * 60


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12))
        self.dec = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x):
        return self.dec(self.enc(x))


ae = AutoEncoder()
opt = torch.optim.Adam(ae.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for step in range(300):
    batch = imgs[torch.randint(0, 1500, (64,))].flatten(1)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        rec = ae(batch)
        loss = ((rec - batch.half()) ** 2).sum(1).mean()
    scaler.scale(loss.float()).backward()
    scaler.step(opt)
    scaler.update()
    if step % 30 == 0:
        print(step, loss.item(), scaler.get_scale())
