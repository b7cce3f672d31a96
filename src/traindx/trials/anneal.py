"""Anneal fork: what would a decay to zero bring from here? It shows whether the loss is at its noise floor or cannot
fall further."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.task import Batch, Task

LEAST = 0.03  # a gain below 3 % of the loss is none


@trial("anneal", steps=400, most=lambda t: 2 * t.orders * t.steps, wants="val")
@dataclass(frozen=True)
class Anneal:
    """Train on with the rate falling to zero, against training on as before: do train and validation drop?

    Both drop: the plateau was the noise of this learning rate, the scheduled decay will cash it in. Only training drops:
    generalisation is the limit. Neither: capacity, irreducible noise, or a rate that is already nothing.
    """

    steps: int = 200
    orders: int = 3

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Two arms under the same batches; the probes are eval-mode losses on fixed train and validation batches."""
        if task.optimizer is None:
            raise UsageError("the anneal fork trains on from the task's state; give Task(…, optimizer=…)")
        train, val = task.held[:48] or task.batches(8), task.batches(8, "val")
        rows = []
        for r in range(self.orders):
            rows.append([self._arm(task, train, val, falling, r) for falling in (False, True)])
            progress(r + 1, self.orders, f"{self.steps} steps with and without decay")
        table = np.array(rows)  # (orders, 2 arms, 4: train before, after, val before, after)
        gains = {w: 1 - table[:, 1, i + 1] / np.maximum(table[:, 0, i + 1], 1e-12) for w, i in (("train", 0), ("val", 2))}
        now = {w: float(table[0, 0, i]) for w, i in (("train", 0), ("val", 2))}
        return self._judged(gains, now, bool(val), table)

    def _judged(self, gains: dict[str, np.ndarray], now: dict[str, float], has_val: bool, table: np.ndarray) -> Result:
        train, val = float(gains["train"].mean()), float(gains["val"].mean()) if has_val else math.nan
        answer = {"gain_train": train, "gain_val": val, "now": now, "steps": self.steps, "orders": self.orders}
        shown = [(w, i) for w, i in (("train", 1), ("val", 3)) if w == "train" or has_val]
        arms = {f"trial/{w}_{arm}": table[:, j, i] for w, i in shown for j, arm in enumerate(("constant", "falling"))}
        run = Run.of(arms, kind="trial")
        steps = 2 * self.orders * self.steps
        clear = {w: bool((np.sign(g - LEAST) > 0).all()) for w, g in gains.items()}
        if clear["train"] and has_val and clear["val"]:
            return Result(
                "anneal",
                "pass",
                answer,
                f"noise floor of this rate: decaying lowers train by {train:.0%} and validation by {val:.0%}",
                run,
                steps,
            )
        if clear["train"] and has_val:
            return Result(
                "anneal",
                "fail",
                answer,
                f"generalisation is the limit: decaying lowers train by {train:.0%}, validation by {val:.0%}",
                run,
                steps,
            )
        if clear["train"]:
            return Result(
                "anneal",
                "pass",
                answer,
                f"decaying lowers the training loss by {train:.0%}; there is no validation data to judge by",
                run,
                steps,
            )
        said = (
            f"a falling rate ends {-train:.0%} above a constant one: training is still under way, there is no noise floor yet"
            if bool((gains["train"] < -LEAST).all())
            else f"a falling rate brings nothing ({-train:+.0%} training loss): no noise floor; capacity, label noise, or a rate that "
            "is already nothing"
        )
        return Result("anneal", "undecided", answer, said, run, steps)

    def _arm(self, task: Task, train: list[Batch], val: list[Batch], falling: bool, seed: int) -> list[float]:
        with task.twin(seed=seed) as twin:
            assert twin.optimizer is not None
            before = [twin.probe(train), twin.probe(val) if val else math.nan]
            twin.model.train()
            start = [float(g["lr"]) for g in twin.optimizer.param_groups]
            for i, batch in enumerate(task.cycle(self.steps)):
                for group, rate in zip(twin.optimizer.param_groups, start, strict=True):
                    group["lr"] = rate * (1 - i / self.steps if falling else 1.0)
                twin.step(batch)
            after = [twin.probe(train), twin.probe(val) if val else math.nan]
        return [before[0], after[0], before[1], after[1]]
