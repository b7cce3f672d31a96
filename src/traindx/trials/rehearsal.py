"""A rehearsal: a few dozen real steps on a twin, observed in full, so that ordinary rules look before the long run."""

from __future__ import annotations

import torch

from traindx.probes.watch import Watch
from traindx.run import Run
from traindx.trial import Progress, silent
from traindx.trials.task import Task, evaluating, to_device


def rehearse(task: Task, steps: int = 30, progress: Progress = silent) -> Run:
    """The record of `steps` updates and one pass over a few validation batches, on a twin."""
    with task.twin() as twin:
        if twin.optimizer is None:
            twin.use(torch.optim.Adam([p for p in twin.model.parameters() if p.requires_grad], lr=1e-3))
        assert twin.optimizer is not None
        watch = Watch(twin.model, twin.optimizer, budget=None)
        try:
            twin.model.train()
            for i, batch in enumerate(watch.batches(list(task.cycle(steps)))):
                twin.optimizer.zero_grad(set_to_none=True)
                loss = twin.loss(batch)
                loss.backward()
                twin.optimizer.step()
                progress(i + 1, steps, "rehearsing the loop")
            val = task.batches(8, "val")
            if val:
                with watch.validation(), evaluating(twin.model):
                    for batch in watch.batches(val):
                        twin.loss(to_device(batch, task.device))
        finally:
            watch.close()
        return watch.run()
