"""One step down: does a small step along the gradient lower the loss as much as the gradient promises?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.state import random_kept
from traindx.trials.task import Task, moving


@trial("one-step", steps=4, most=lambda t: 1 + len(t.rates))
@dataclass(frozen=True)
class OneStep:
    """Does the loss of a batch fall when the weights take one small step against its gradient?

    The change a plain gradient step of size η predicts is -η·|g|². A ratio near 1 is healthy; below 0 the gradient is not the
    gradient of this loss (a detached part, a wrong sign, a stale graph).
    """

    rates: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Shrink the step until the prediction holds or the ladder ends."""
        batch = moving(task)
        ratios: dict[float, float] = {}
        with task.twin() as twin:
            for module in twin.model.modules():
                if hasattr(module, "p") and "Dropout" in type(module).__name__:
                    module.p = 0.0
            twin.model.train()
            start = twin.snapshot()
            with random_kept(seed=0):  # noise drawn in a forward must be the same before and after the step
                loss = twin.gradients(batch)
            grads = {n: p.grad.detach().clone() for n, p in twin.model.named_parameters() if p.grad is not None}
            square = float(sum((g.double() ** 2).sum() for g in grads.values())) if grads else 0.0
            if square == 0 or not math.isfinite(square):
                why = "every gradient is zero or missing" if square == 0 else "the gradient is not finite"
                return Result(
                    "one-step", "fail", {"loss": loss, "grad_norm": math.sqrt(square) if square == 0 else square}, why, steps=1
                )
            for i, rate in enumerate(self.rates):
                size = rate / math.sqrt(square)  # a step of length `rate`, whatever the scale of the loss
                twin.restore(start)
                with torch.no_grad(), random_kept(seed=0):
                    for name, p in twin.model.named_parameters():
                        if name in grads:
                            p.sub_(grads[name], alpha=size)
                    after = float(twin.loss(batch))
                ratios[rate] = (after - loss) / (-size * square)
                progress(i + 1, len(self.rates), f"step of length {rate:g}")
        return self._judged(loss, ratios)

    def _judged(self, loss: float, ratios: dict[float, float]) -> Result:
        best = min(ratios, key=lambda r: abs(ratios[r] - 1))
        answer = {"loss": loss, "ratio": ratios[best], "step_length": best, "ratios": {f"{k:g}": v for k, v in ratios.items()}}
        run = Run.of({"trial/ratio": list(ratios.values())}, kind="trial")
        if abs(ratios[best] - 1) < 0.2:
            return Result(
                "one-step",
                "pass",
                answer,
                f"the loss falls as the gradient predicts (ratio {ratios[best]:.2f})",
                run,
                1 + len(ratios),
            )
        if all(r < 0.05 for r in ratios.values()):
            return Result(
                "one-step",
                "fail",
                answer,
                "a step against the gradient does not lower the loss: it is not this loss's gradient",
                run,
                1 + len(ratios),
            )
        return Result(
            "one-step",
            "undecided",
            answer,
            f"the loss changes {ratios[best]:.2f} times what the gradient predicts",
            run,
            1 + len(ratios),
        )
