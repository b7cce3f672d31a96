"""Small trainings for A/B tests: each trains for a few steps and gives everything a run leaves behind, as raw tensors."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

Traces = dict[str, Any]
WORKLOADS: dict[str, Callable[[int], Traces]] = {}


def workload(f):
    WORKLOADS[f.__name__] = f
    return f


def leftovers(losses: list[torch.Tensor], models: list[nn.Module], optimizers: list[Any]) -> Traces:
    """Losses, weights, buffers, gradients, optimizer state and random states, to be compared bit by bit."""
    return {
        "losses": [x.detach().clone() for x in losses],
        "weights": [t.detach().clone() for m in models for t in m.state_dict().values()],
        "grads": [None if p.grad is None else p.grad.clone() for m in models for p in m.parameters()],
        "state": [
            v.clone() if isinstance(v, torch.Tensor) else v
            for o in optimizers
            for s in o.state.values()
            for v in s.values()
            if isinstance(v, torch.Tensor | int | float)
        ],
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1].copy(),
        "python": random.getstate(),
    }


def same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor):
        return (
            isinstance(b, torch.Tensor)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.numpy().tobytes() == b.numpy().tobytes()
        )
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b))
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return a == b


def seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@workload
def mlp(steps: int) -> Traces:
    seed()
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        x = torch.randn(16, 12)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return leftovers(losses, [model], [optimizer])


@workload
def cnn(steps: int) -> Traces:
    seed()
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8 * 36, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    losses = []
    for step in range(steps):
        x = torch.randn(8, 3, 8, 8)
        loss = nn.CrossEntropyLoss()(model(x), torch.randint(0, 3, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                losses.append(F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.tensor([0, 1, 2, 0])))
            model.train()
    return leftovers(losses, [model], [optimizer])


@workload
def lstm(steps: int) -> Traces:
    seed()
    model = nn.ModuleDict({"rnn": nn.LSTM(6, 12, batch_first=True), "out": nn.Linear(12, 6)})
    optimizer = torch.optim.RMSprop(model.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        x = torch.randn(4, 7, 6)
        loss = F.mse_loss(model["out"](model["rnn"](x)[0]), x.roll(-1, 1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss)
    return leftovers(losses, [model], [optimizer])


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.qkv, self.out = nn.Embedding(11, 16), nn.Linear(16, 48), nn.Linear(16, 11)
        self.norm, self.mha = nn.LayerNorm(16), nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        x = self.emb(idx)
        q, k, v = self.qkv(self.norm(x)).view(*idx.shape, 3, 2, 8).permute(2, 0, 3, 1, 4)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.mha(x, x, x, need_weights=False)[0]
        return self.out(x)


@workload
def gpt(steps: int) -> Traces:
    seed()
    model = Attention()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for _ in range(steps):
        idx = torch.randint(0, 11, (4, 9))
        loss = F.cross_entropy(model(idx[:, :-1]).transpose(1, 2), idx[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss)
    return leftovers(losses, [model], [optimizer])


@workload
def gan(steps: int) -> Traces:
    seed()
    g, d = (
        nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1)),
    )
    og, od = torch.optim.Adam(g.parameters(), 1e-3), torch.optim.Adam(d.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        fake = g(torch.randn(8, 3))
        for target, x in ((1.0, torch.randn(8, 2)), (0.0, fake.detach())):
            out = d(x)
            loss = F.binary_cross_entropy_with_logits(out, torch.full_like(out, target))
            loss.backward()
            losses.append(loss)
        od.step()
        od.zero_grad()
        out = d(fake)
        loss = F.binary_cross_entropy_with_logits(out, torch.ones_like(out))
        og.zero_grad()
        loss.backward()
        og.step()
        od.zero_grad()
        losses.append(loss)
    return leftovers(losses, [g, d], [og, od])


@workload
def lbfgs(steps: int) -> Traces:
    seed()
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=3)
    x = torch.randn(20, 4)
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        return loss

    for _ in range(steps // 4):
        losses.append(optimizer.step(closure))
    return leftovers(losses, [model], [optimizer])


@workload
def autocast(steps: int) -> Traces:
    seed()
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=5)
    losses = []
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(torch.randn(8, 8)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss)
    return leftovers(losses, [model], [optimizer])


@workload
def accumulation(steps: int) -> Traces:
    seed()
    model = nn.Sequential(nn.Linear(5, 9), nn.SiLU(), nn.Linear(9, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.5)
    losses = []
    for step in range(steps):
        x = torch.randn(6, 5)
        loss = F.smooth_l1_loss(model(x), x[:, :1]) / 3
        loss.backward()
        losses.append(loss)
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
    return leftovers(losses, [model], [optimizer])


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.3)), nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(checkpoint(self.a, x, use_reentrant=False))


@workload
def checkpointing(steps: int) -> Traces:
    seed()
    model = Checkpointed()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 2, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return leftovers(losses, [model], [optimizer])


@workload
def goes_nan(steps: int) -> Traces:
    seed()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e6)
    losses = []
    for _ in range(steps):
        x = torch.randn(8, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return leftovers(losses, [model], [optimizer])
