"""Overfit one batch: a net that cannot memorise 32 samples has a bug, not a tuning problem."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials import floors
from traindx.trials.task import NO_GRADIENT, Batch, Task, Twin, moving, one_target, take, varied

MOVED = 0.05  # share of its first value by which a loss must fall to have moved at all
HIGHER = 2  # rates above the usual ones
PASS, ALMOST, FAIL = 0.02, 0.1, 0.2  # shares of the way from chance to the floor that are left (CATALOGUE T01)


@trial("overfit", steps=900, most=lambda t: (len(t.rates) + HIGHER) * t.steps)
@dataclass(frozen=True)
class Overfit:
    """Can the model memorise one small batch, with regularisers off?

    Passes also with random labels and with samples that leak into each other: it proves that gradients reach what they must, no
    more. On failure the level where the loss stopped names the fault.
    """

    samples: int = 32
    steps: int = 300
    rates: tuple[float, ...] = (1e-3, 1e-2, 1e-4)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Climb the ladder of learning rates until one passes; it gets higher rungs where only speed was missing."""
        batch = varied(task, self.samples)
        if _still(task, batch):
            batch = take(moving(task), self.samples)
        best: floors.Fit | None = None
        done, curves, rates = 0, {}, list(self.rates)
        for i, rate in enumerate(rates):
            with task.twin(seed=i) as twin:
                problem = _prepare(twin, batch)
                if problem:
                    return Result("overfit", "fail", {"initial": problem[1], "final": problem[1]}, problem[0], steps=1)
                fit = self._fit(twin, batch, rate, progress, i)
            done += len(fit.losses)
            curves[f"lr {rate:g}"] = fit.losses
            if best is None or fit.last < best.last:
                best = fit
            if _learned(best) or (best.way is None and _fell(best)):
                break
            if rate == rates[-1] and best.rate == max(rates) and len(rates) < len(self.rates) + HIGHER and _on_its_way(best):
                rates.append(10 * max(rates))
        assert best is not None
        return _judged(best, done, curves, one_target=one_target(batch))

    def _fit(self, twin: Twin, batch: Batch, rate: float, progress: Progress, rung: int) -> floors.Fit:
        way = floors.way(twin, batch)
        enough = way.floor.level + PASS / 2 * (way.chance - way.floor.level) if way else -math.inf
        optimizer = torch.optim.Adam([p for p in twin.model.parameters() if p.requires_grad], lr=rate)
        twin.use(optimizer)
        losses = []
        for step in range(self.steps):
            loss = twin.step(batch)
            losses.append(loss)
            progress(
                rung * self.steps + step, len(self.rates) * self.steps, f"overfitting {self.samples} samples at lr {rate:g}"
            )
            if not math.isfinite(loss) or (step > 20 and loss < enough):
                break
        return floors.Fit(losses, way, floors.accuracy(twin, batch), rate, floors.suspects(twin, batch))


def _learned(fit: floors.Fit) -> bool:
    """Near the floor; where every answer is right, not quite so near; and where the floor is not known, every answer right."""
    right = fit.accuracy == 1.0
    return (right and _fell(fit)) if fit.way is None else fit.left < (ALMOST if right else PASS)


def _fell(fit: floors.Fit) -> bool:
    return fit.losses[0] - fit.last > MOVED * abs(fit.losses[0])


def _on_its_way(fit: floors.Fit) -> bool:
    """Whether the loss halved once more in the second half: no wall, the weights have far to go."""
    return fit.last < 0.5 * fit.losses[len(fit.losses) // 2]


def _still(task: Task, batch: Batch) -> bool:
    """Whether these samples give no gradient at all: then others are looked at before the model is blamed."""
    with task.twin() as twin:
        return (problem := _prepare(twin, batch)) is not None and "zero" in problem[0]


def _prepare(twin: Twin, batch: Batch) -> tuple[str, float] | None:
    """Regularisers off, regression targets untouched; a reason when not even one gradient can be had."""
    for module in twin.model.modules():
        if isinstance(module, nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d | nn.AlphaDropout):
            module.p = 0.0
        for name in ("dropout", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    twin.model.train()
    loss = twin.loss(batch)
    if not loss.requires_grad:
        return NO_GRADIENT, float(loss)
    loss.backward()
    reached = [p for p in twin.model.parameters() if p.grad is not None and bool((p.grad != 0).any())]
    if not reached:
        return "every gradient is exactly zero: nothing the model does changes the loss", float(loss.detach())
    return None


def _judged(fit: floors.Fit, steps: int, curves: dict[str, list[float]], *, one_target: bool) -> Result:
    first, last = fit.losses[0], fit.last
    answer = {
        "initial": first,
        "final": last,
        "floor": fit.way.floor.level if fit.way else None,
        "floor_name": fit.way.floor.name if fit.way else "not known",
        "chance": fit.way.chance if fit.way else None,
        "left": fit.left,
        "accuracy": fit.accuracy,
        "lr": fit.rate,
    }
    run = _record(curves)
    reason = f"loss {first:.4g} → {last:.4g}"
    if _learned(fit) and one_target:
        said = f"the loss falls on one batch ({reason}), but all its samples have one target, which a constant answer learns"
        return Result("overfit", "undecided", answer, said, run, steps)
    if _learned(fit):
        return Result("overfit", "pass", answer, f"learned the batch: {reason} at lr {fit.rate:g}", run, steps)
    if stuck := floors.named(fit):
        answer |= {"floor_name": stuck.name, "stuck_at": stuck.level}
        reason += f"; it cannot fall below {stuck.name} ({stuck.level:.4g}): {stuck.meaning}"
    elif fit.way is not None:
        reason += f", where knowing nothing gives {fit.way.chance:.4g} and perfect answers {fit.way.floor.level:.3g}"
    if fit.way is None and _fell(fit) and not stuck:
        said = f"the loss falls on one batch ({reason}); where this loss must end is not known"
        return Result("overfit", "undecided", answer, said, run, steps)
    if fit.way is None or fit.left > FAIL:
        return Result("overfit", "fail", answer, f"cannot learn one batch: {reason}", run, steps)
    return Result("overfit", "undecided", answer, f"got most of the way: {reason}", run, steps)


def _record(curves: dict[str, list[float]]) -> Run:
    longest = max(map(len, curves.values()))
    padded = {k: np.r_[v, np.full(longest - len(v), np.nan)] for k, v in curves.items()}
    return Run.of({"trial/overfit": padded}, kind="trial")
