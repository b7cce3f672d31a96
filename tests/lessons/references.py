"""The arithmetic of the lessons' listings, each in a few plain lines of our own, and what a judgement there is made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Net = nn.Module


def norms(net: Net) -> dict[str, float]:
    """The length of every gradient; 0 where there is none."""
    return {n: 0.0 if p.grad is None else math.sqrt(float((p.grad.double() ** 2).sum())) for n, p in net.named_parameters()}


def status(norm: float, vanish: float = 1e-6, explode: float = 10.0) -> str:
    """A word by absolute limits."""
    if norm == 0:
        return "no gradient"
    return "vanishing" if norm < vanish else "exploding" if norm > explode else "ok"


def statistics(grad: Tensor, tiny: float = 1e-7) -> dict[str, float]:
    """Magnitudes of one gradient and the share of tiny entries."""
    size = grad.abs()
    found = {"mean_abs": size.mean(), "max_abs": size.max(), "min_abs": size.min(), "tiny": (size < tiny).double().mean()}
    return {name: float(v) for name, v in found.items()}


def rise(net: Net, loss_fn: Any, x: Tensor, y: Tensor, epsilon: float = 0.05, draws: int = 40) -> tuple[float, float, float]:
    """The loss, and mean and deviation of its relative rise when every tensor moves by a share of its own length."""
    net = copy.deepcopy(net).eval()
    start = [p.detach().clone() for p in net.parameters()]
    rng = torch.Generator().manual_seed(100)
    with torch.no_grad():
        base = float(loss_fn(net(x), y))
        rises = []
        for _ in range(draws):
            for p, s in zip(net.parameters(), start, strict=True):
                d = torch.randn(s.shape, generator=rng)
                p.copy_(s + epsilon * s.norm() * d / d.norm())
            rises.append((float(loss_fn(net(x), y)) - base) / base)
    return base, float(np.mean(rises)), float(np.std(rises))


def cosine(step: int, warmup: int, total: int, floor: float) -> float:
    """The share of the peak after warm-up, held at its end."""
    done = min((step - warmup) / (total - warmup), 1.0)
    return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2


def clipped(net: Net, limit: float) -> tuple[float, dict[str, Tensor]]:
    """The global norm, and the gradients scaled down to the limit."""
    total = math.sqrt(sum(v * v for v in norms(net).values()))
    scale = min(1.0, limit / total)
    return total, {n: p.grad * scale for n, p in net.named_parameters() if p.grad is not None}


def holding_nan(net: Net) -> set[str]:
    """Parameters with NaN or infinity and buffers with NaN."""
    bad = {n for n, p in net.named_parameters() if not bool(torch.isfinite(p).all())}
    return bad | {n for n, b in net.named_buffers() if bool(torch.isnan(b.float()).any())}


def batch_is_bad(x: Tensor, y: Tensor, largest: float = 100.0) -> bool:
    """NaN or infinity in the inputs, a magnitude above the limit, NaN in the targets."""
    return not bool(torch.isfinite(x).all()) or float(x.abs().max()) > largest or bool(torch.isnan(y).any())


def memorises(net: Net, loss_fn: Any, x: Tensor, y: Tensor, rate: float = 1e-3, steps: int = 500, goal: float = 0.01) -> bool:
    """One Adam at one rate on one batch, until the loss is below a goal."""
    net = copy.deepcopy(net).train()
    trained = [p for p in net.parameters() if p.requires_grad]
    if not trained or not loss_fn(net(x), y).requires_grad:
        return False
    optimizer = torch.optim.Adam(trained, lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        optimizer.step()
        if loss.item() < goal:
            return True
    return False


def steepest(rates: Iterable[float], losses: Iterable[float]) -> float:
    """The rate at which the loss falls fastest over the logarithm of the rate."""
    r, y = np.array(list(rates)), np.array(list(losses))
    slopes = (y[2:] - y[:-2]) / (np.log(r[2:]) - np.log(r[:-2]))
    return float(r[1 + int(np.argmin(slopes))])


def double_softmax(classes: int) -> float:
    """The lowest cross-entropy of probabilities taken for logits."""
    return math.log(math.e + classes - 1) - 1


def percentile(values: list[float]) -> float:
    """The norm below which 95 of 100 steps stay."""
    return float(np.percentile(values, 95))


def log_softmax(x: Tensor) -> Tensor:
    """Logits less the largest, less the logarithm of their summed exponentials."""
    top = x.max(-1, keepdim=True).values
    return x - top - (x - top).exp().sum(-1, keepdim=True).log()
