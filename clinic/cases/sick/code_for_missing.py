"""Missing values are coded as -99999 in the table, and go into the network as they are."""
import numpy as np, pandas as pd, torch
from torch import nn
rng = np.random.default_rng(3)
torch.manual_seed(3)
n = 3000
df = pd.DataFrame({"age": rng.normal(45, 12, n), "bmi": rng.normal(26, 4, n), "sbp": rng.normal(130, 15, n), "chol": rng.normal(5.2, 1, n)})
risk = 0.06 * (df.age - 45) + 0.15 * (df.bmi - 26) + 0.03 * (df.sbp - 130) + 0.5 * (df.chol - 5.2)
df["event"] = (rng.random(n) < 1 / (1 + np.exp(-2 * risk))).astype(int)
miss = rng.random(n) < 0.02
df.loc[miss, "chol"] = -99999
feats = ["age", "bmi", "sbp", "chol"]
ref = df[df.chol > -1000]
mu, sd = ref[feats].mean(), ref[feats].std()
X = torch.tensor(((df[feats] - mu) / sd).to_numpy(), dtype=torch.float32)
y = torch.tensor(df["event"].to_numpy(), dtype=torch.float32)
Xtr, ytr, Xva, yva = X[:2400], y[:2400], X[2400:], y[2400:]
net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
bce = nn.BCEWithLogitsLoss()
for ep in range(15):
    perm = torch.randperm(len(Xtr))
    tot = 0.0
    for i in range(0, len(perm), 48):
        b = perm[i:i + 48]
        opt.zero_grad()
        loss = bce(net(Xtr[b]).squeeze(1), ytr[b])
        loss.backward()
        opt.step()
        tot += loss.item()
    with torch.no_grad():
        lv = bce(net(Xva).squeeze(1), yva).item()
    print(f"[{ep}] train {tot / 50:.4f} valid {lv:.4f}")
