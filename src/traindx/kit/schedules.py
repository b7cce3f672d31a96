"""Learning-rate schedules, stepped once per update; each starts and ends where it says."""

from __future__ import annotations

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts, CyclicLR, LambdaLR, LRScheduler, OneCycleLR

from traindx.errors import UsageError


def warmup_cosine(optimizer: Optimizer, warmup: int, total: int, *, floor: float = 0.0) -> LRScheduler:
    """Linear warm-up over `warmup` steps, then a cosine down to `floor` at step `total`, where it stays.

    `floor` is a share of each group's own rate: 0.1 ends every group at a tenth of its peak. The first update is made at
    1/warmup of the rate, not at zero, where it would be wasted.

    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = warmup_cosine(optimizer, 4, 12)
    >>> optimizer.param_groups[0]["lr"]
    0.25
    """
    if not 0 <= warmup < total:
        raise UsageError(f"warm-up lies between 0 and the {total} steps there are; got {warmup}")
    if not 0 <= floor <= 1:
        raise UsageError(f"the floor is a share of the rate, between 0 and 1; got {floor:g}")

    def share(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = min((step - warmup) / (total - warmup), 1.0)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))

    return LambdaLR(optimizer, share)


def one_cycle(optimizer: Optimizer, peak: float, total: int, *, rise: float = 0.3) -> LRScheduler:
    """Up from peak/25 for the first `rise` of the steps, down to almost nothing at the end; momentum goes the other way.

    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    >>> schedule = one_cycle(optimizer, peak=1.0, total=100)
    >>> round(optimizer.param_groups[0]["lr"], 3)
    0.04
    """
    if total < 2 or not 0 < rise < 1:
        raise UsageError(f"one cycle takes at least 2 steps and rises for a share between 0 and 1; got {total} and {rise}")
    return OneCycleLR(optimizer, max_lr=peak, total_steps=total, pct_start=rise, cycle_momentum=_has_momentum(optimizer))


def cyclical(optimizer: Optimizer, low: float, high: float, half: int, *, shrink: bool = False) -> LRScheduler:
    """Up and down between `low` and `high` in `half` steps each way; with `shrink` every cycle reaches half as high.

    >>> import torch
    >>> optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    >>> schedule = cyclical(optimizer, 0.1, 0.5, half=4)
    >>> optimizer.param_groups[0]["lr"]
    0.1
    """
    if not 0 < low < high or half < 1:
        raise UsageError(f"a cycle needs 0 < low < high and at least one step each way; got {low:g}, {high:g}, {half}")
    mode = "triangular2" if shrink else "triangular"
    return CyclicLR(optimizer, low, high, step_size_up=half, mode=mode, cycle_momentum=_has_momentum(optimizer))


def warm_restarts(optimizer: Optimizer, first: int, *, longer: int = 2, floor: float = 0.0) -> LRScheduler:
    """A cosine down to `floor` in `first` steps, then from the top again, each time `longer` times as long.

    >>> import torch
    >>> optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    >>> schedule = warm_restarts(optimizer, 10)
    >>> optimizer.param_groups[0]["lr"]
    1.0
    """
    if first < 1 or longer < 1:
        raise UsageError(f"restarts need at least one step and a factor of at least 1; got {first} and {longer}")
    return CosineAnnealingWarmRestarts(optimizer, first, T_mult=longer, eta_min=floor)


def _has_momentum(optimizer: Optimizer) -> bool:
    """Whether there is a momentum to move against the rate: torch refuses to cycle what is not there."""
    return all("betas" in g or g.get("momentum", 0) > 0 for g in optimizer.param_groups)
