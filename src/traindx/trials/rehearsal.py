"""A rehearsal: a few dozen real steps on a twin, observed in full, so that ordinary rules look before the long run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from traindx.errors import UsageError
from traindx.probes.drive.recorder import Recorder
from traindx.probes.launch.attach import attach, detach
from traindx.run import Run
from traindx.trial import Progress, silent
from traindx.trials.task import Task, evaluating


def rehearse(task: Task, steps: int = 60, progress: Progress = silent) -> Run:
    """The record of `steps` updates and two looks at the validation data, on a twin, kept in memory.

    Two, because random transforms show only when the same sample comes twice.
    """
    with task.twin() as twin:
        if twin.optimizer is None:
            twin.use(torch.optim.Adam([p for p in twin.model.parameters() if p.requires_grad], lr=1e-3))
        assert twin.optimizer is not None
        recorder = Recorder(budget=None)
        observer = attach(recorder, models=[twin.model], optimizers=[twin.optimizer])
        try:
            twin.model.train()
            for i, batch in enumerate(_endless(task.train, steps)):
                twin.optimizer.zero_grad(set_to_none=True)
                loss = twin.loss(batch)
                loss.backward()
                twin.optimizer.step()
                progress(i + 1, steps, "rehearsing the loop")
                if task.val is not None and i + 1 in (steps // 2, steps):
                    with evaluating(twin.model):
                        for seen in itertools.islice(iter(task.val), 20):
                            twin.loss(seen)
        finally:
            detach(observer)
            recorder.close("closed")
        return recorder.sink.run()


def _endless(source: Any, count: int) -> Iterator[Any]:
    """`count` batches from fresh passes over the user's own loader: how it is iterated is part of what is looked at."""
    if source is None:
        raise UsageError("the task has no train data")
    given = 0
    while given < count:
        before = given
        for batch in itertools.islice(iter(source), count - given):
            given += 1
            yield batch
        if given == before:
            raise UsageError("the task's train data is empty")
