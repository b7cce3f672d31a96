"""11 PM: a bottleneck that starts at almost nothing; the loss sits on a saddle after the bias is learned."""
import torch
from torch import nn

torch.manual_seed(310)
x = torch.randn(3000, 24)
y = (x[:, :1] * 0.8 - x[:, 1:2] * 0.6) + 2.0 + 0.1 * torch.randn(3000, 1)


class DeepLinear(nn.Module):
    def __init__(self, eps=2e-3):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(24, 16, bias=False), nn.Linear(16, 16, bias=False), nn.Linear(16, 1)])
        for layer in self.layers:
            nn.init.normal_(layer.weight, std=eps)

    def forward(self, h):
        for layer in self.layers:
            h = layer(h)
        return h


net = DeepLinear()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(1600):
    net.train()
    ids = torch.randint(0, 2500, (64,))
    loss = nn.functional.mse_loss(net(x[ids]), y[ids])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        net.eval()
        with torch.no_grad():
            print(step + 1, f"{loss.item():.4f} {nn.functional.mse_loss(net(x[2500:]), y[2500:]).item():.4f}")
