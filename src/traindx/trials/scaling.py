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


@trial("lr-scaling", steps=960, most=lambda t: 8 * t.orders * sum(t.horizons), wants="val")
@dataclass(frozen=True)
class LrScaling:
    """How to scale the learning rate with the batch: linearly, by the square root, or not at all?

    Two forks with a batch `times` as large (gradients gathered over as many batches), one with the rate times that, one with
    its square root, each against the task as it is, at equal samples. Far above the noise scale both lose: then the larger
    batch buys fewer updates and nothing else.
    """

    times: int = 4
    orders: int = 3
    horizons: tuple[int, ...] = (80,)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Compare both rules with the task as it is."""
        if task.optimizer is None:
            raise UsageError("scaling is tried on the task's own optimizer; give Task(…, optimizer=…)")
        if self.times < 2:
            raise UsageError(f"a larger batch is at least 2 times as large; got {self.times}")
        factors = {"linear": float(self.times), "sqrt": math.sqrt(self.times)}
        arms: dict[str, Comparison] = {}
        for i, (law, factor) in enumerate(factors.items()):
            change = applied({"lr": factor, "batch": self.times}, task)

            def told(done: int, total: int, what: str, at: int = i, law: str = law) -> None:
                progress(at * total + done, 2 * total, f"{law}: {what}")

            arms[law] = compare_arms(task, change, orders=self.orders, horizons=self.horizons, progress=told)
        return self._judged(arms, task)

    def _judged(self, arms: dict[str, Comparison], task: Task) -> Result:
        batch = size_of(task.batches(1)[0])
        alive = {law: c for law, c in arms.items() if c.broke_b <= c.broke_a and math.isfinite(c.effect)}
        law = min(alive, key=lambda k: alive[k].effect, default="neither")
        answer: dict[str, Any] = {
            "times": self.times,
            "batch": batch,
            "law": law,
            **{k: {"effect": c.effect, "interval": [c.low, c.high], "broke": c.broke_b, "verdict": c.verdict} for k, c in arms.items()},
        }  # fmt: skip
        run = Run.of({f"trial/{k}": list(c.probes_b) for k, c in arms.items()} | {"trial/as_is": list(arms["linear"].probes_a)}, kind="trial")  # fmt: skip
        steps = sum(c.updates for c in arms.values())
        said = "; ".join(
            f"{k} {math.expm1(c.effect):+.0%}" if math.isfinite(c.effect) else f"{k} breaks" for k, c in arms.items()
        )
        said = f"a batch of {batch * self.times} at equal samples, probe loss against now: {said}"
        if law == "neither" or all(c.verdict == "worse" for c in arms.values()):
            return Result("lr-scaling", "fail", answer, f"{said}; neither rule keeps the progress: stay at {batch}", run, steps)
        answer["code"] = paste.scaled(self.times, law)
        word = "the linear rule" if law == "linear" else "the square-root rule"
        return Result("lr-scaling", "done", answer, f"{said}; {word} does better", run, steps)
