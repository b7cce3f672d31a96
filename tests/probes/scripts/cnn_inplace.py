"""A small CNN with batch normalisation, in-place ReLU, residuals, checkpoint files and a resume."""

import io

import torch
from torch import nn

torch.manual_seed(13)


class Res(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.bn(self.conv(x)) + x)


model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1),
    nn.BatchNorm2d(8),
    nn.ReLU(inplace=True),
    Res(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(8, 3),
)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
x = torch.randn(48, 3, 8, 8)
y = x.mean((2, 3)).argmax(1)
file = io.BytesIO()
for epoch in range(3):
    for i in torch.randperm(48).split(12):
        loss = nn.functional.cross_entropy(model(x[i]), y[i], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    file.seek(0)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    print(epoch, repr(loss.item()))
file.seek(0)
state = torch.load(file)
model.load_state_dict(state["model"])
optimizer.load_state_dict(state["optimizer"])
model.eval()
print(repr(nn.functional.cross_entropy(model(x), y).item()))
