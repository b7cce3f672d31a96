import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn


class Config:
    lr = 1e-7
    steps = 600
    batch = 64
    seed = 52


def get_data(seed):
    g = torch.Generator().manual_seed(seed)
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
    perm = torch.randperm(len(x), generator=g)
    return (x[perm[:1500]], y[perm[:1500]]), (x[perm[1500:]], y[perm[1500:]])


def main(cfg=Config):
    torch.manual_seed(cfg.seed)
    (xt, yt), (xv, yv) = get_data(cfg.seed)
    net = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Linear(128, 64), nn.SiLU(), nn.Linear(64, 10))
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    for step in range(1, cfg.steps + 1):
        net.train()
        ids = torch.randint(0, len(xt), (cfg.batch,))
        loss = F.cross_entropy(net(xt[ids]), yt[ids])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 60 == 0:
            net.eval()
            with torch.no_grad():
                print(f"step {step} train {loss:.4f} val {F.cross_entropy(net(xv), yv):.4f}")


if __name__ == "__main__":
    main()
