"""Levels with a meaning: where a loss must end, and where it gets stuck when something is wrong (CATALOGUE 2.9)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from traindx.trials.task import Batch, Task, evaluating, split, to_device
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
    soft = _soft(twin, batch)
    if soft is not None:
        return Floor(soft, "the entropy of soft targets", "targets between 0 and 1 cannot be hit exactly")
    if smoothing and classes:
        hit, miss = 1 - smoothing + smoothing / classes, smoothing / classes
        level = -hit * math.log(hit) - (classes - 1) * miss * math.log(miss)
        return Floor(level, "label smoothing", f"smoothing {smoothing:g} over {classes} classes")
    return Floor(0.0, "zero")


def certain(task: Task) -> bool:
    """Whether it is known where the loss must end: a loss of torch, or the model's own, and nothing added to it.

    A sum of terms, a weighted or a home-made loss may end anywhere above zero.
    """
    if task.loss is not None:
        return bool(getattr(task.loss, "plain", False))
    return task.loss_fn is None or type(task.loss_fn).__module__.startswith("torch.")


def named(fit: Fit) -> Floor | None:
    """The meaning of the level where the loss stopped, if it has one."""
    return next((f for f in fit.suspects if abs(fit.last - f.level) <= max(0.01 * abs(f.level), 0.005)), None)


def of_labels(target: Tensor) -> tuple[Floor, ...]:
    """Levels at which a faulty task stops, as far as the labels alone tell them, whatever the loss is."""
    if target.is_floating_point() or target.dtype == torch.bool or target.ndim != 1 or target.numel() < 2:
        return ()
    level = _entropy(target)
    said = "the input does not reach the output (ignored, dead or zero)"
    return (Floor(level, "the entropy of the labels", said),) if level > 0.005 else ()


def suspects(twin: Twin, batch: Batch) -> tuple[Floor, ...]:
    """Levels at which a faulty task stops: what the labels alone allow, a softmax before the softmax, the targets' variance."""
    _, target = split(batch)
    if not isinstance(target, Tensor) or not target.numel():
        return ()
    kind = type(twin.task.loss_fn).__name__
    if not target.is_floating_point():
        classes = _classes(twin, batch)
        found = [
            Floor(_entropy(target), "the entropy of the labels", "the input does not reach the output (ignored, dead or zero)")
        ]
        if classes and classes > 1:
            level = math.log(math.e + classes - 1) - 1
            found.append(
                Floor(level, "the floor of a double softmax", "softmax before a loss that applies it itself (WIRE006)")
            )
            found.append(Floor(math.log(classes), f"ln {classes}", "the model guesses evenly: nothing reaches the logits"))
        return tuple(f for f in found if f.level > 0.005)
    y = target.detach().double()
    if "BCE" in kind:
        rate = y.mean(0).clamp(1e-12, 1 - 1e-12)
        level = float(-(rate * rate.log() + (1 - rate) * (1 - rate).log()).mean())
        return (Floor(level, "the entropy of the labels", "the input does not reach the output (ignored, dead or zero)"),)
    if "MSE" in kind:
        whole, each = float(y.var(unbiased=False)), float(y.var(0, unbiased=False).mean()) if y.ndim > 1 else math.nan
        said = "the mean is predicted for every sample: the input is ignored, or shapes broadcast in the loss (WIRE008)"
        return tuple(Floor(v, "the variance of the targets", said) for v in (whole, each) if v == v and v > 0)
    return ()


def _soft(twin: Twin, batch: Batch) -> float | None:
    """The lowest binary cross-entropy that targets between 0 and 1 allow; None where they are 0 or 1, or it is another loss."""
    _, target = split(batch)
    if "BCE" not in type(twin.task.loss_fn).__name__ or not isinstance(target, Tensor) or not target.is_floating_point():
        return None
    y = target.detach().double()
    if bool(((y == 0) | (y == 1)).all()):
        return None
    return float(-(torch.xlogy(y, y) + torch.xlogy(1 - y, 1 - y)).mean())


def _entropy(target: Tensor) -> float:
    valid = target[target >= 0].reshape(-1)
    shares = valid.unique(return_counts=True)[1].double() / max(valid.numel(), 1)
    return float(-(shares * shares.log()).sum())


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
    axis = class_axis(output, target)
    return int(output.shape[axis]) if axis is not None else None


def class_axis(output: object, target: Tensor) -> int | None:
    """The axis of the logits that counts classes: the second, or the last where a sequence's logits are flattened later."""
    if not isinstance(output, Tensor) or output.ndim < 2:
        return None
    if target.shape == output.shape[:1] + output.shape[2:]:
        return 1
    if output.ndim > 2 and (target.shape == output.shape[:-1] or target.numel() == output[..., 0].numel()):
        return output.ndim - 1
    return 1


def accuracy(twin: Twin, batch: Batch) -> float | None:
    """Share of samples predicted right, for class targets; None when that has no meaning here."""
    _, target = split(to_device(batch, twin.task.device))
    if not isinstance(target, Tensor) or target.is_floating_point() or _classes(twin, batch) is None:
        return None
    with evaluating(twin.model):
        output = twin.task.output_of(twin.model, batch)
    axis = class_axis(output, target)
    guess = output.argmax(axis) if axis is not None else output
    if guess.numel() != target.numel():
        return None
    valid = target.reshape(-1) >= 0  # below zero is what losses are told to ignore
    return float((guess.reshape(-1) == target.reshape(-1))[valid].float().mean()) if bool(valid.any()) else None
