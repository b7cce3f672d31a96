"""Batch and learning rate together: which rule keeps the progress when the batch grows? (CATALOGUE T20)"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials import paste
from traindx.trials.fork import Comparison, compare_arms
from traindx.trials.prescription import applied
from traindx.trials.task import Task, size_of


@trial("lr-scaling", steps=2880, most=lambda t: 8 * t.orders * sum(t.horizons), wants="val")
@dataclass(frozen=True)
class LrScaling:
    """How to scale the learning rate with the batch: linearly, by the square root, or not at all?

    Two forks with a batch `times` as large (gradients gathered over as many batches). One multiplies the learning rate
    by that, one by its square root. Each is compared with the task as it is, at equal samples. Far above the noise
    scale both lose: then the larger batch buys fewer updates and nothing else.
    The rule that leads early may lose later, so the race is doubled until the answer is the same twice.
    """

    times: int = 4
    orders: int = 3
    horizons: tuple[int, ...] = (80, 160, 320)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Compare both rules with the task as it is."""
        if task.optimizer is None:
            raise UsageError("scaling is tried on the task's own optimizer; give Task(…, optimizer=…)")
        if self.times < 2:
            raise UsageError(f"a larger batch is at least 2 times as large; got {self.times}")
        seen: list[str] = []
        steps = 0
        for horizon in self.horizons:
            arms = self._raced(task, horizon, progress)
            steps += sum(c.updates for c in arms.values())
            seen.append(_law(arms))
            if seen[-2:-1] == seen[-1:]:
                break
        return self._judged(arms, seen, steps, task)

    def _raced(self, task: Task, horizon: int, progress: Progress) -> dict[str, Comparison]:
        factors = {"linear": float(self.times), "sqrt": math.sqrt(self.times)}
        arms: dict[str, Comparison] = {}
        for i, (law, factor) in enumerate(factors.items()):
            change = applied({"lr": factor, "batch": self.times}, task)

            def told(done: int, total: int, what: str, at: int = i, law: str = law) -> None:
                progress(at * total + done, 2 * total, f"{law}: {what}")

            arms[law] = compare_arms(task, change, orders=self.orders, horizons=(horizon,), progress=told)
        return arms

    def _judged(self, arms: dict[str, Comparison], seen: list[str], steps: int, task: Task) -> Result:
        batch, law, horizon = size_of(task.batches(1)[0]), seen[-1], arms["linear"].steps
        answer: dict[str, Any] = {
            "times": self.times,
            "batch": batch,
            "law": law,
            "by_horizon": dict(zip(map(str, self.horizons), seen, strict=False)),
            **{k: {"effect": c.effect, "interval": [c.low, c.high], "broke": c.broke_b, "verdict": c.verdict} for k, c in arms.items()},
        }  # fmt: skip
        run = Run.of({f"trial/{k}": list(c.probes_b) for k, c in arms.items()} | {"trial/as_is": list(arms["linear"].probes_a)}, kind="trial")  # fmt: skip
        said = "; ".join(
            f"{k} {math.expm1(c.effect):+.0%}" if math.isfinite(c.effect) else f"{k} breaks" for k, c in arms.items()
        )
        said = f"a batch of {batch * self.times} after {horizon} steps of {batch} samples, probe loss against now: {said}"
        if len(seen) > 1 and seen[-2] != law:
            turns = ", ".join(f"{word} at {h} steps" for h, word in zip(self.horizons, seen, strict=False))
            said = f"{said}; the answer still turns with the horizon ({turns}): race longer with --set horizons=640,1280"
            return Result("lr-scaling", "undecided", answer, said, run, steps)
        if law == "neither":
            return Result("lr-scaling", "fail", answer, f"{said}; neither rule keeps the progress: stay at {batch}", run, steps)
        answer["code"] = paste.scaled(self.times, law)
        word = "the linear rule" if law == "linear" else "the square-root rule"
        return Result("lr-scaling", "done", answer, f"{said}; {word} does better", run, steps)


def _law(arms: dict[str, Comparison]) -> str:
    """The rule that does better, or neither: both break, or both do worse than the task as it is."""
    alive = {law: c for law, c in arms.items() if c.broke_b <= c.broke_a and math.isfinite(c.effect)}
    if not alive or all(c.verdict == "worse" for c in arms.values()):
        return "neither"
    return min(alive, key=lambda k: alive[k].effect)
