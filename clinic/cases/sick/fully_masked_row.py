"""Multi-head attention over padded dialogues; some dialogues have no previous turns at all."""
import torch
from torch import nn

torch.manual_seed(28)
N, T, D = 1200, 7, 16
turns = torch.randn(N, T, D)
lengths = torch.randint(1, T + 1, (N,))
lengths[433] = 0
mask = torch.arange(T)[None, :] >= lengths[:, None]
query = torch.randn(N, 1, D)
target = (turns[:, :, :2].masked_fill(mask[..., None], 0).sum((1, 2)) + query[:, 0, 0] > 0).float()


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(D, 2, batch_first=True)
        self.norm = nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(2 * D, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, q, kv, pad):
        a, _ = self.attn(q, kv, kv, key_padding_mask=pad)
        return self.mlp(torch.cat([self.norm(q + a), q * a], -1).squeeze(1)).squeeze(1)


net = Matcher()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
for epoch in range(8):
    net.train()
    for ids in torch.randperm(1000).split(40):
        opt.zero_grad()
        loss = bce(net(query[ids], turns[ids], mask[ids]), target[ids])
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        val = bce(net(query[1000:], turns[1000:], mask[1000:]), target[1000:]).item()
    print(epoch, round(loss.item(), 4), round(val, 4))
