"""One line per rank, and whether the ranks agree; without a process group there is one rank and all is well."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def rank() -> tuple[int, int]:
    """This process's rank and how many there are; (0, 1) without a process group."""
    ready = dist.is_available() and dist.is_initialized()
    return (dist.get_rank(), dist.get_world_size()) if ready else (0, 1)


def log_per_rank(name: str, tensor: Tensor, *, log: Callable[[str], Any] = print) -> str:
    """Mean, spread and extremes of a tensor's finite entries, and how many are not, with the rank in front.

    Says it and gives it back.

    >>> _ = log_per_rank("loss", torch.tensor([1.0, 3.0, math.nan]))
    [rank 0 of 1] loss: mean 2, std 1.414, 1 … 3, 1 of 3 not finite
    """
    flat = tensor.detach().reshape(-1)
    flat = flat.double() if flat.dtype == torch.float64 or not flat.is_floating_point() else flat.float()
    kept = flat[torch.isfinite(flat)]
    lost = flat.numel() - kept.numel()
    if not kept.numel():
        said = f"all {lost} not finite" if lost else "empty"
    else:
        spread = kept.std() if kept.numel() > 1 else torch.zeros((), device=flat.device)
        mean, std, lo, hi = torch.stack([kept.mean(), spread, *kept.aminmax()]).tolist()
        said = f"mean {mean:.4g}, std {std:.4g}, {lo:.4g} … {hi:.4g}"
        said += f", {lost} of {flat.numel()} not finite" if lost else ""
    here, of = rank()
    line = f"[rank {here} of {of}] {name}: {said}"
    log(line)
    return line


def ranks_differ(value: Tensor, *, tolerance: float = 1e-3, log: Callable[[str], Any] = print) -> list[float] | None:
    """The value of every rank where they differ by more than `tolerance`, or one is not finite; None when they agree.

    Every rank must call it; it gathers one number from each. Losses of different batches differ by nature: compare what must be
    the same, such as a weight norm, or the loss of one fixed batch.

    >>> ranks_differ(torch.tensor(0.5)) is None
    True
    """
    if rank()[1] == 1:
        return None
    own = value.detach().float().mean().reshape(1)
    every = [torch.zeros_like(own) for _ in range(rank()[1])]
    dist.all_gather(every, own)
    values: list[float] = torch.cat(every).tolist()
    if all(map(math.isfinite, values)) and max(values) - min(values) <= tolerance:
        return None
    log(f"[rank {rank()[0]} of {len(values)}] the ranks differ: {', '.join(f'{v:.6g}' for v in values)}")
    return values
