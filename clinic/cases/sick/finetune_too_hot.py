"""Fine-tune a pretrained net on few new samples with the pre-training learning rate times ten."""
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(106)
X, y = load_digits(return_X_y=True)
X, y = torch.tensor(X, dtype=torch.float32) / 16, torch.tensor(y)
p = torch.randperm(len(X))
X, y = X[p], y[p]
rotated = X.view(-1, 8, 8).transpose(1, 2).flatten(1)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
pre = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(300):
    ids = torch.randint(0, 1000, (64,))
    loss = nn.functional.cross_entropy(net(X[ids]), y[ids])
    pre.zero_grad()
    loss.backward()
    pre.step()
weights = {k: v.clone() for k, v in net.state_dict().items()}
print("pretrained", loss.item())

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
model.load_state_dict(weights)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
small_x, small_y = rotated[1000:1200], y[1000:1200]
for epoch in range(25):
    model.train()
    for ids in torch.randperm(200).split(20):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(small_x[ids]), small_y[ids])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        out = model(rotated[1200:])
    print(epoch, f"{loss.item():.4f} {nn.functional.cross_entropy(out, y[1200:]).item():.4f} {(out.argmax(1) == y[1200:]).float().mean():.3f}")
