"""Re-use a digits network for telling even from odd digits."""
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

rng = np.random.default_rng(11)
torch.manual_seed(11)
images, digits = load_digits(return_X_y=True)
images = torch.tensor(images / 8 - 1, dtype=torch.float32)
parity = torch.tensor(digits % 2)
order = torch.from_numpy(rng.permutation(len(images)))
tr, va = order[:1400], order[1400:]


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(64, 128)
        self.body = nn.Linear(128, 64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        h = torch.tanh(self.stem(x))
        h = torch.tanh(self.body(h))
        return self.head(h)


net = Backbone()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
net.head = nn.Linear(64, 2)  # two classes now

for step in range(700):
    net.train()
    idx = tr[torch.randint(len(tr), (48,))]
    loss = F.cross_entropy(net(images[idx]), parity[idx])
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    if step % 50 == 49:
        net.eval()
        with torch.inference_mode():
            out = net(images[va])
            vl = F.cross_entropy(out, parity[va])
        print(step + 1, round(loss.item(), 4), round(vl.item(), 4), (out.argmax(-1) == parity[va]).float().mean().item())
