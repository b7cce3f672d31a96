"""Input-independent baseline: does the model do better with the real inputs than with inputs of other samples?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.label_info import _with_target, unlabelled
from traindx.trials.task import Batch, Task, size_of, split, to_device


@trial("input-baseline", steps=400, most=lambda t: 2 * t.orders * t.steps, wants="val")
@dataclass(frozen=True)
class InputBaseline:
    """Does the model learn more from the real pairs than from pairs whose targets were permuted inside the batch?

    If not, it ignores its input, or the labels do not go with it.
    """

    steps: int = 150
    orders: int = 3

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Train two twins from the same state; the probe is on real pairs."""
        probe = [to_device(b, task.device) for b in (task.batches(4, "val") or task.batches(4))]
        if why := unlabelled(task, [to_device(b, task.device) for b in task.batches(4)]):
            return Result("input-baseline", "refused", {}, why)
        real: list[float] = []
        permuted: list[float] = []
        for r in range(self.orders):
            for shuffle, out in ((False, real), (True, permuted)):
                out.append(self._arm(task, probe, shuffle, r))
                progress(2 * r + shuffle + 1, 2 * self.orders, "permuted pairs" if shuffle else "real pairs")
        a, b = np.array(real), np.array(permuted)
        gain = float((b - a).mean())
        error = float(np.std(b - a, ddof=1)) / np.sqrt(len(a)) or 1e-12
        answer = {"real": float(a.mean()), "permuted": float(b.mean()), "z": gain / error}
        run = Run.of({"trial/real": a, "trial/permuted": b}, kind="trial")
        steps = 2 * self.orders * self.steps
        if gain > 3 * error and gain > 0.02 * abs(float(b.mean())):
            return Result(
                "input-baseline", "pass", answer, f"real inputs help: {a.mean():.4g} against {b.mean():.4g}", run, steps
            )
        return Result(
            "input-baseline",
            "fail",
            answer,
            f"real inputs help no more than wrong ones ({a.mean():.4g} against {b.mean():.4g}): the input is ignored, or the labels do not belong to it",
            run,
            steps,
        )

    def _arm(self, task: Task, probe: list[Batch], shuffle: bool, seed: int) -> float:
        rng = torch.Generator().manual_seed(seed)
        with task.twin(seed=seed) as twin:
            if twin.optimizer is None:
                twin.use(torch.optim.Adam(twin.model.parameters(), lr=1e-3))
            twin.model.train()
            for batch in task.cycle(self.steps):
                batch = to_device(batch, task.device)
                if shuffle:
                    order = torch.randperm(size_of(batch), generator=rng)
                    batch = _with_target(batch, split(batch)[1][order])
                twin.step(batch)
            return twin.probe(probe)
