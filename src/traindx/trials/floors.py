"""Levels with a meaning: where a loss must end, and where it gets stuck when something is wrong (CATALOGUE 2.9)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from traindx.trials.task import Batch, evaluating, split, to_device
from traindx.trials.twin import Twin


@dataclass(frozen=True)
class Floor:
    """A level and what it means."""

    level: float
    name: str
    meaning: str = ""


@dataclass(frozen=True)
class Fit:
    """One attempt to learn a batch."""

    losses: list[float]
    floor: Floor
    accuracy: float | None
    rate: float
    suspects: tuple[Floor, ...] = ()  # levels where a faulty task would stop

    @property
    def last(self) -> float:
        tail = [v for v in self.losses[-10:] if math.isfinite(v)]
        return sorted(tail)[len(tail) // 2] if tail and math.isfinite(self.losses[-1]) else float("inf")

    @property
    def left(self) -> float:
        """What is left of the way from the first loss down to the floor."""
        way = self.losses[0] - self.floor.level
        if way <= 1e-8 * max(abs(self.losses[0]), 1.0):
            return 0.0
        return (self.last - self.floor.level) / way


def known(twin: Twin, batch: Batch) -> Floor:
    """The lowest loss that a perfect fit of this batch can have."""
    smoothing, classes = _smoothing(twin), _classes(twin, batch)
    if smoothing and classes:
        hit, miss = 1 - smoothing + smoothing / classes, smoothing / classes
        level = -hit * math.log(hit) - (classes - 1) * miss * math.log(miss)
        return Floor(level, "label smoothing", f"smoothing {smoothing:g} over {classes} classes")
    return Floor(0.0, "zero")


def named(fit: Fit) -> Floor | None:
    """The meaning of the level where the loss stopped, if it has one."""
    return next((f for f in fit.suspects if abs(fit.last - f.level) <= max(0.01 * abs(f.level), 0.005)), None)


def _smoothing(twin: Twin) -> float:
    return float(getattr(twin.task.loss_fn, "label_smoothing", 0.0) or 0.0)


def _classes(twin: Twin, batch: Batch) -> int | None:
    _, target = split(batch)
    if not isinstance(target, Tensor) or target.is_floating_point():
        return None
    try:
        with evaluating(twin.model):
            output = twin.task.output_of(twin.model, batch)
    except Exception:  # a model that cannot be called outside its loss has no class count to offer
        return None
    return int(output.shape[1]) if isinstance(output, Tensor) and output.ndim >= 2 else None


def accuracy(twin: Twin, batch: Batch) -> float | None:
    """Share of samples predicted right, for class targets; None when that has no meaning here."""
    _, target = split(to_device(batch, twin.task.device))
    if not isinstance(target, Tensor) or target.is_floating_point() or _classes(twin, batch) is None:
        return None
    with evaluating(twin.model):
        output = twin.task.output_of(twin.model, batch)
    if output.shape[0] != target.shape[0] or output.argmax(1).shape != target.shape:
        return None
    return float((output.argmax(1) == target).float().mean())
