"""Levels with a meaning: where a loss must end, and where it gets stuck when something is wrong (CATALOGUE 2.9)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from traindx.trials.task import Batch, Twin, evaluating, split, to_device


@dataclass(frozen=True)
class Floor:
    """A level and what it means."""

    level: float
    name: str
    meaning: str = ""
    there: bool = True  # whether what would stop a loss here was seen in the answers …
    sure: bool = False  # … and is enough by itself: the answers are the same for every sample


@dataclass(frozen=True)
class Way:
    """What there is to learn of a batch: from the loss of an answer that knows nothing down to that of a perfect one."""

    floor: Floor
    chance: float


@dataclass(frozen=True)
class Fit:
    """One attempt to learn a batch."""

    losses: list[float]
    way: Way | None  # None: it is not known where this loss must end
    accuracy: float | None
    rate: float
    suspects: tuple[Floor, ...] = ()  # levels where a faulty task would stop

    @property
    def last(self) -> float:
        tail = [v for v in self.losses[-10:] if math.isfinite(v)]
        return sorted(tail)[len(tail) // 2] if tail and math.isfinite(self.losses[-1]) else float("inf")

    @property
    def left(self) -> float:
        """What is left of the way from chance down to the floor, however high the loss began; NaN when that is not known."""
        return (self.last - self.way.floor.level) / (self.way.chance - self.way.floor.level) if self.way else math.nan


class _Saying(nn.Module):
    """Stands for a model: gives one answer to everything."""

    def __init__(self, answer: Tensor) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.answer


MOST = 30.0  # a margin of the right class at which a softmax is all but certain


def way(twin: Twin, batch: Batch) -> Way | None:
    """Asked of the loss itself: what it gives for perfect answers and for ones that know nothing of the sample.

    None where it has no floor, where an ignorant answer costs no more than a perfect one, or where the loss wants more than an answer.
    """
    task = twin.task
    batch = to_device(batch, task.device)
    _, target = split(batch)

    def loss(answer: Tensor) -> float:
        return float(task.loss_of(_Saying(answer), batch))

    try:
        with evaluating(twin.model):
            output = task.output_of(twin.model, batch)
            if (task.loss or task.loss_fn) and not math.isclose(
                loss(output), float(task.loss_of(twin.model, batch)), rel_tol=1e-3, abs_tol=1e-6
            ):
                return None  # a penalty on weights, a second output: the answer is not all that this loss looks at
            if target.is_floating_point():
                found = _of_numbers(loss, target.reshape(output.shape))
            elif task.loss is None and task.loss_fn is None:  # the model makes its own: the usual loss of its targets
                found = [(0.0, math.log(output.shape[class_axis(output, target) or -1]))]
            else:
                found = _of_classes(loss, output, target)
    except Exception:  # a model or a loss that wants more than an answer and a target is judged by nothing here
        return None
    floor, chance = (min((pair[i] for pair in found), default=math.nan) for i in (0, 1))
    if not chance - floor > 1e-6 * max(abs(chance), 1.0):
        return None
    return Way(Floor(floor, "zero" if abs(floor) < 1e-3 * abs(chance) else "the loss of perfect answers"), chance)


def _of_numbers(loss: Callable[[Tensor], float], y: Tensor) -> list[tuple[float, float]]:
    """The loss of the targets themselves and of their mean, as numbers and, for shares, as logits."""
    mean = y.mean(0, keepdim=True).expand_as(y)
    shares = bool(((y >= 0) & (y <= 1)).all())
    return [(loss(f(y)), loss(f(mean))) for f in (lambda t: t, *((lambda t: t.logit(1e-6),) if shares else ()))]


def _of_classes(loss: Callable[[Tensor], float], output: Tensor, target: Tensor) -> list[tuple[float, float]]:
    """The lowest loss over how sure the right class is said, and that of saying every class alike; per form of an answer."""
    axis = class_axis(output, target)
    assert axis is not None and output.shape[axis] > 1
    hot = nn.functional.one_hot(target.reshape(output.select(axis, 0).shape).clamp(min=0), output.shape[axis])
    hot = hot.to(output.dtype).movedim(-1, axis)
    forms: tuple[Callable[[float], Tensor], ...] = (  # scores, signed scores, logarithms of probabilities
        lambda margin: margin * hot,
        lambda margin: margin * (2 * hot - 1),
        lambda margin: (margin * hot).log_softmax(axis),
    )
    found = []
    for form in forms:

        def at(margin: float, form: Callable[[float], Tensor] = form) -> float:
            return loss(form(margin))

        blank, sure, beyond = (at(margin) for margin in (0.0, MOST, 2 * MOST))
        lowest = min(_lowest(at, MOST), sure)
        if beyond > lowest - 1e-3 * max(abs(lowest), 1e-2):  # else it falls without end
            found.append((lowest, blank))
    return found


def _lowest(value: Callable[[float], float], high: float, points: int = 9, rounds: int = 8) -> float:
    """The lowest value between 0 and `high`: a grid, then finer ones around its best point."""
    low = best = 0.0
    for _ in range(rounds):
        step = (high - low) / (points - 1)
        best = min((low + step * i for i in range(points)), key=value)
        low, high = max(best - step, 0.0), best + step
    return value(best)


def named(fit: Fit) -> Floor | None:
    """The meaning of the level where the loss stopped: what stops a loss there was seen, and the loss is at or above it."""
    above = {f: (fit.last - f.level) / max(abs(f.level), 0.5) for f in fit.suspects if f.there}
    return next((f for f, by in above.items() if by >= -0.001 and (f.sure or by <= 0.01)), None)


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
    output = _output(twin, batch)
    sure = output is not None and len(output) > 1 and _alike(output, 0)
    alike = output is None or sure
    ignored = "the input does not reach the output (ignored, dead or zero)"
    if not target.is_floating_point():
        axis = class_axis(output, target)
        found = [Floor(level := _entropy(target), _entropy_name(level), ignored, alike, sure)]
        if output is not None and axis is not None and (classes := int(output.shape[axis])) > 1:
            sums = output.sum(axis)
            shares = bool((output >= 0).all()) and bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-3))
            twice, even = math.log(math.e + classes - 1) - 1, _alike(output, axis)
            found.append(
                Floor(twice, "the floor of a double softmax", "softmax before a loss that applies it itself (WIRE006)", shares)
            )
            said = "the model guesses evenly: nothing reaches the logits"
            found.append(Floor(math.log(classes), f"ln {classes}", said, even))
        return tuple(f for f in found if f.level > 0.005)
    y = target.detach().double()
    if "BCE" in kind:
        rate = y.mean(0).clamp(1e-12, 1 - 1e-12)
        level = float(-(rate * rate.log() + (1 - rate) * (1 - rate).log()).mean())
        return (Floor(level, _entropy_name(level), ignored, alike, sure),)
    if "MSE" in kind or "mse" in kind:
        whole, each = float(y.var(unbiased=False)), float(y.var(0, unbiased=False).mean()) if y.ndim > 1 else math.nan
        said = "the mean is predicted for every sample: the input is ignored, or shapes broadcast in the loss (WIRE008)"
        return tuple(Floor(v, "the variance of the targets", said, alike, sure) for v in (whole, each) if v == v and v > 0)
    return ()


def _entropy_name(level: float) -> str:
    ways = math.exp(level)
    return "the entropy of the labels" + (f", ln {ways:.0f}" if ways > 1.5 and abs(ways - round(ways)) < 1e-6 else "")


def _alike(output: Tensor, axis: int) -> bool:
    """Whether the answers hardly change along an axis: next to their own size, or next to what a loss would notice."""
    y = output.detach().double()
    return float((y.amax(axis) - y.amin(axis)).max()) <= 0.05 * max(float(y.abs().max()), 1.0)


def _entropy(target: Tensor) -> float:
    valid = target[target >= 0].reshape(-1)
    shares = valid.unique(return_counts=True)[1].double() / max(valid.numel(), 1)
    return float(-(shares * shares.log()).sum())


def _classes(twin: Twin, batch: Batch) -> int | None:
    _, target = split(batch)
    if not isinstance(target, Tensor) or target.is_floating_point():
        return None
    output = _output(twin, batch)
    axis = class_axis(output, target)
    return int(output.shape[axis]) if output is not None and axis is not None else None


def _output(twin: Twin, batch: Batch) -> Tensor | None:
    try:
        with evaluating(twin.model):
            output = twin.task.output_of(twin.model, batch)
    except Exception:  # a model that cannot be called outside its loss has no answers to offer
        return None
    return output if isinstance(output, Tensor) and output.ndim and output.numel() else None


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
