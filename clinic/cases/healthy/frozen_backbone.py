"""Linear probe on a frozen feature extractor."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(208)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
order = torch.randperm(len(X))
X, y = X[order], y[order]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.backbone(x))


pretrain = Classifier()
opt = torch.optim.Adam(pretrain.parameters(), lr=1e-3)
coarse = (y >= 5).long()
for _ in range(250):
    ids = torch.randint(0, 1000, (64,))
    opt.zero_grad()
    nn.functional.cross_entropy(pretrain(X[ids])[:, :2], coarse[ids]).backward()
    opt.step()

model = Classifier()
model.backbone.load_state_dict(pretrain.backbone.state_dict())
for p in model.backbone.parameters():
    p.requires_grad = False
head_opt = torch.optim.Adam(model.head.parameters(), lr=5e-3)
for epoch in range(12):
    model.train()
    for ids in torch.randperm(1000).split(50):
        head_opt.zero_grad()
        loss = nn.functional.cross_entropy(model(X[ids]), y[ids])
        loss.backward()
        head_opt.step()
    model.eval()
    with torch.no_grad():
        out = model(X[1000:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1000:]).item():.4f} {(out.argmax(1) == y[1000:]).float().mean():.3f}")
