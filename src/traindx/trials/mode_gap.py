"""Mode gap: does the same training data look different to the model in eval mode than in train mode? (CATALOGUE ACTV008)"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.task import Task, evaluating

GAP, SURE = 0.5, 5.0  # ln(eval/train): healthy -.17, stale or polluted statistics +.6…+3, trained in eval mode -1.4


@trial("mode-gap", steps=20, most=lambda t: 2 * t.batches)
@dataclass(frozen=True)
class ModeGap:
    """Is the loss of training batches the same in eval and in train mode, dropout off in both?

    A large gap means that BatchNorm's running statistics do not describe the data: training is fine, evaluation is not.
    """

    batches: int = 10

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Loss of the same batches in both modes, on a copy whose dropout is off."""
        batches = task.batches(self.batches)
        train, evaluated = [], []
        with task.twin() as twin:
            for module in twin.model.modules():
                if "Dropout" in type(module).__name__ and hasattr(module, "p"):
                    module.p = 0.0
            kept = twin.snapshot()
            for i, batch in enumerate(batches):
                twin.restore(kept)
                with evaluating(twin.model):
                    evaluated.append(float(twin.loss(batch)))
                twin.model.train()
                with torch.no_grad():
                    train.append(float(twin.loss(batch)))
                progress(i + 1, len(batches), "train mode against eval mode")
        return self._judged(np.array(train), np.array(evaluated))

    def _judged(self, train: np.ndarray, evaluated: np.ndarray) -> Result:
        run = Run.of({"eval/train_in_eval": evaluated, "trial/train_mode": train}, kind="trial")
        steps = 2 * len(train)
        if len(train) < 3 or not (train > 0).all() or not (evaluated > 0).all():
            return Result("mode-gap", "undecided", {}, "needs at least 3 batches with positive losses", run, steps)
        d = np.log(evaluated / train)
        rho = float(d.mean())
        t = rho / (float(d.std(ddof=1)) / math.sqrt(len(d)) or 1e-12)
        answer = {"rho": rho, "t": t, "train_mode": float(train.mean()), "eval_mode": float(evaluated.mean())}
        if rho > GAP and t > SURE:
            return Result(
                "mode-gap",
                "fail",
                answer,
                f"eval mode is {math.exp(rho):.1f} times worse on the training data itself: running statistics are stale or polluted",
                run,
                steps,
            )
        if rho < -GAP and t < -SURE:
            return Result(
                "mode-gap",
                "fail",
                answer,
                f"eval mode is {math.exp(-rho):.1f} times better on the training data: the model was trained in eval mode",
                run,
                steps,
            )
        return Result(
            "mode-gap",
            "pass",
            answer,
            f"train and eval mode agree on the training data (ratio {math.exp(rho):.2f})",
            run,
            steps,
        )
