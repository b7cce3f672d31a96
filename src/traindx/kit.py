"""Single tools for people who want one piece: a table of gradients, a batch check, a schedule, seeds that can be undone.

Each is a function of its own; whatever it changes, it gives back.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, LRScheduler, SequentialLR

from traindx.errors import UsageError
from traindx.trial import Result
from traindx.trials.lr_range import LrRange
from traindx.trials.overfit import Overfit
from traindx.trials.task import Task, evaluating, tensors, training

__all__ = [
    "evaluating",
    "find_nonfinite",
    "gradient_table",
    "lr_finder",
    "overfit_one_batch",
    "seed_everything",
    "seeded",
    "training",
    "validate_batch",
    "warmup_cosine",
]


def gradient_table(model: nn.Module) -> list[dict[str, Any]]:
    """A row per parameter: name, norm of gradient and weight, their ratio; `grad` is None where there is no gradient."""
    rows = []
    for name, p in model.named_parameters():
        weight = float(torch.linalg.vector_norm(p.detach().float()))
        grad = None if p.grad is None else float(torch.linalg.vector_norm(p.grad.float()))
        rows.append(
            {"name": name, "grad": grad, "weight": weight, "ratio": grad / weight if grad is not None and weight else None}
        )
    return rows


def find_nonfinite(model: nn.Module) -> list[str]:
    """Every parameter, gradient and buffer of the model that holds a NaN or an infinity."""
    held = [(name, p.detach()) for name, p in model.named_parameters()]
    held += [(f"{name}.grad", p.grad) for name, p in model.named_parameters() if p.grad is not None]
    held += list(model.named_buffers())
    return [name for name, t in held if t.is_floating_point() and not bool(torch.isfinite(t).all())]


def validate_batch(batch: Any) -> list[str]:
    """What is wrong with a batch, in words: empty or non-finite tensors, samples that are all alike, unequal lengths."""
    found, parts = [], tensors(batch)
    if not parts:
        return ["there is no tensor in it"]
    for i, t in enumerate(parts):
        if not t.numel():
            found.append(f"tensor {i} is empty")
        elif t.is_floating_point() and not bool(torch.isfinite(t).all()):
            found.append(f"tensor {i} holds {int((~torch.isfinite(t)).sum())} values that are not finite")
        elif t.dim() > 1 and len(t) > 1 and bool((t == t[:1]).all()):
            found.append(f"tensor {i}: all {len(t)} samples are the same")
    sizes = {len(t) for t in parts if t.dim()}
    return [*found, f"tensors of unequal length: {sorted(sizes)}"] if len(sizes) > 1 else found


def warmup_cosine(optimizer: Optimizer, warmup: int, total: int, *, floor: float = 0.0) -> LRScheduler:
    """Linear warm-up over `warmup` steps, then a cosine down to `floor` at step `total`; step it once per update."""
    if not 0 < warmup < total:
        raise UsageError(f"warm-up lies between 0 and the {total} steps there are; got {warmup}")
    rise = LinearLR(optimizer, 1 / warmup, total_iters=warmup - 1) if warmup > 1 else LinearLR(optimizer, 1.0, total_iters=1)
    fall = CosineAnnealingLR(optimizer, total - warmup, eta_min=floor)
    return SequentialLR(optimizer, [rise, fall], [warmup])


def seed_everything(seed: int, *, deterministic: bool = True) -> Callable[[], None]:
    """Seed Python, numpy and torch now, and make torch deterministic; call what it returns to have all as before."""
    python, arrays, strict = random.getstate(), np.random.get_state(), torch.are_deterministic_algorithms_enabled()  # noqa: NPY002
    cpu, gpus = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []

    def undo() -> None:
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
        torch.set_rng_state(cpu)
        torch.cuda.set_rng_state_all(gpus)
        torch.use_deterministic_algorithms(strict)

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(deterministic or strict)
    return undo


@contextmanager
def seeded(seed: int, *, deterministic: bool = True) -> Iterator[None]:
    """`seed_everything` for the length of a block."""
    undo = seed_everything(seed, deterministic=deterministic)
    try:
        yield
    finally:
        undo()


def overfit_one_batch(task: Task, *, samples: int = 32, steps: int = 300) -> Result:
    """Whether the model can learn one small batch by heart; the task is left as it was."""
    return Overfit(samples=samples, steps=steps).run(task)


def lr_finder(task: Task, *, steps: int = 120) -> Result:
    """Which learning rate to start with, or a refusal with its reason; the task is left as it was."""
    return LrRange(steps=steps).run(task)
