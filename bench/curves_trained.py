"""The figures of the shared statistics that come from real small trainings (digits, one thread)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

from traindx import stats

Row = tuple[str, float, float, float]
N = 1300


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32)
    x = (x - x.mean()) / x.std()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return x[order][:N], torch.tensor(data.target)[order][:N]


def net(width: int = 64, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def train(
    lr: float,
    bs: int,
    steps: int,
    *,
    momentum: float = 0.0,
    seed: int = 0,
    order: str = "shuffle",
    width: int = 64,
    adam: bool = False,
    wrong: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Losses and per-sample variances of one run."""
    x, y = digits()
    gen = torch.Generator().manual_seed(seed + 1)
    if wrong:
        pick = torch.rand(N, generator=gen) < wrong
        y = torch.where(pick, torch.randint(0, 10, (N,), generator=gen), y)
    model = net(width, seed)
    opt = torch.optim.Adam(model.parameters(), lr) if adam else torch.optim.SGD(model.parameters(), lr, momentum=momentum)
    fixed, by_class = torch.randperm(N, generator=gen), y.argsort()
    losses, spread = [], []
    per = N // bs
    for step in range(steps):
        if step % per == 0:
            perm = {"fixed": fixed, "sorted": by_class}.get(order, torch.randperm(N, generator=gen))
        i = perm[(step % per) * bs : (step % per + 1) * bs]
        each = F.cross_entropy(model(x[i]), y[i], reduction="none")
        opt.zero_grad()
        each.mean().backward()
        opt.step()
        losses.append(each.mean().item())
        spread.append(each.var().item())
    return np.array(losses), np.array(spread)


def trained() -> Iterator[Row]:
    torch.set_num_threads(1)
    calm = []
    for bs in (16, 128):
        for lr in (1e-3, 1e-2, 3e-2, 0.1, 0.3):
            losses, spread = train(lr, bs, 800)
            calm.append(stats.evr(losses[-400:], spread[-400:], np.full(400, bs)))
    yield "2.5 EVR of healthy runs, least", min(calm), 0.6, 1.6
    yield "2.5 EVR of healthy runs, largest", max(calm), 0.6, 1.9
    wild = [stats.evr(*(part[-400:] for part in train(lr, 128, 800)), np.full(400, 128)) for lr in (1.3, 1.5)]
    yield "2.5 EVR of runs that shake and neither settle nor collapse, least", min(wild), 3, 1e9
    for order, lo, hi in (("shuffle", -0.2, 0.2), ("fixed", 0.5, 1.0), ("sorted", 0.3, 1.0)):
        found = [stats.epoch_profile_corr(train(1e-2, 32, 320, momentum=0.9, order=order, seed=s)[0], 40).m for s in range(3)]
        yield f"2.7 profile m, {order}, least", min(found), lo, hi
        yield f"2.7 profile m, {order}, largest", max(found), lo, hi
    smooth = [stats.boundary_jump(train(1e-3, 32, 320, adam=True, seed=s)[0], 40).z for s in range(3)]
    memory = [stats.boundary_jump(train(5e-3, 32, 320, adam=True, width=512, wrong=0.9, seed=s)[0], 40).z for s in range(3)]
    yield "2.8 boundary z, clean, least", min(smooth), -3, 3
    yield "2.8 boundary z, memorising, median", float(np.median(memory)), -50, -1.5
    raw = train(1e-2, 32, 320, momentum=0.9)[0]
    means = np.concatenate([np.cumsum(e) / np.arange(1, 41) for e in raw.reshape(-1, 40)])
    yield "2.10 running mean recognised", float(stats.log_form(means, 40) == "running-mean"), 1, 1
    yield "2.10 raw left alone", float(stats.log_form(raw, 40) == "raw"), 1, 1
