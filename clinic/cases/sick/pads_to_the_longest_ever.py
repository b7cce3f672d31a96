"""Every sequence is padded to 120 although most have about 12 tokens."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(101)
N, MAX, PAD = 700, 120, 0
lengths = torch.randint(6, 20, (N,))
tokens = torch.randint(1, 30, (N, MAX))
tokens[torch.arange(MAX)[None] >= lengths[:, None]] = PAD
label = ((tokens == 7).sum(1) > 0).long()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16, padding_idx=PAD)
        self.conv = nn.Conv1d(16, 24, 3, padding=1)
        self.out = nn.Linear(24, 2)

    def forward(self, t):
        h = torch.relu(self.conv(self.emb(t).transpose(1, 2)))
        return self.out(h.amax(-1))


loader = DataLoader(TensorDataset(tokens[:600], label[:600]), batch_size=30, shuffle=True)
net = Tagger()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(15):
    net.train()
    for t, lab in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(t), lab)
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        out = net(tokens[600:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, label[600:]).item():.4f} {(out.argmax(1) == label[600:]).float().mean():.3f}")
