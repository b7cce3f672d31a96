"""A table that was sorted by the target while it was looked at, and is trained on in slices."""
import pandas as pd, numpy as np, torch
from torch import nn
rng = np.random.default_rng(0); torch.manual_seed(0)
df = pd.DataFrame(rng.normal(size=(3000, 6)), columns=list("abcdef"))
df["price"] = df.a * 1.5 + df.b * df.c + np.sin(2 * df.d) + rng.normal(0, .2, 3000)
test = df.sample(500, random_state=1); df = df.drop(test.index)
df = df.sort_values("price")
def tens(d): return torch.tensor(d[list("abcdef")].to_numpy(np.float32)), torch.tensor(d["price"].to_numpy(np.float32))[:, None]
x, y = tens(df); xv, yv = tens(test)
model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
opt = torch.optim.SGD(model.parameters(), 0.02, momentum=.9)
for epoch in range(12):
    losses = []
    for xb, yb in zip(x.split(50), y.split(50)):
        opt.zero_grad(); l = nn.functional.mse_loss(model(xb), yb); l.backward(); opt.step(); losses.append(l.item())
    with torch.no_grad(): v = nn.functional.mse_loss(model(xv), yv).item()
    print(f"Epoch {epoch + 1}/12 - loss: {np.mean(losses):.4f} - val_loss: {v:.4f}")
