"""Resume: does a run that was saved and loaded continue as if nothing had happened? (CATALOGUE REPR003)"""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass
from typing import Any

import torch

from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.state import digest, random_kept, random_states, restore_random
from traindx.trials.task import Task, Twin


@trial("resume", steps=15, most=lambda t: 3 * t.steps)
@dataclass(frozen=True)
class Resume:
    """Save after five steps, continue for five; load into a fresh copy, continue for five: the first thing that differs is named."""

    steps: int = 5

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Straight on against loaded, under the same batches."""
        if task.optimizer is None:
            raise UsageError("the resume test needs the task's optimizer")
        batches = list(task.cycle(2 * self.steps))
        with task.twin() as straight:
            self._train(straight, batches[: self.steps])
            saved = _saved(straight)
            states = random_states()
            self._train(straight, batches[self.steps :])
            expected = _parts(straight)
        with task.twin() as loaded:
            _load(loaded, saved)
            with random_kept():
                restore_random(states)
                self._train(loaded, batches[self.steps :])
            got = _parts(loaded)
        wrong = [k for k in expected if expected[k] != got[k]]
        answer: dict[str, Any] = {"differs": wrong}
        run = Run.of({}, facts={"trial.resume": {"equal": not wrong, "first": wrong[0] if wrong else None}}, kind="trial")
        if wrong:
            return Result("resume", "fail", answer, f"after loading, {wrong[0]} goes another way", run, 3 * self.steps)
        return Result("resume", "pass", answer, "a resumed run equals an uninterrupted one to the bit", run, 3 * self.steps)

    def _train(self, twin: Twin, batches: list[Any]) -> None:
        twin.model.train()
        for batch in batches:
            twin.step(batch)
            if twin.scheduler is not None and not hasattr(twin.scheduler, "patience"):
                twin.scheduler.step()


def _saved(twin: Twin) -> dict[str, Any]:
    """The state dicts through a serialisation, as a checkpoint file would hold them."""
    state = {"model": twin.model.state_dict(), "optimizer": twin.optimizer.state_dict() if twin.optimizer else None}
    state["scheduler"] = twin.scheduler.state_dict() if twin.scheduler is not None else None
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return copy.deepcopy(state)


def _load(twin: Twin, saved: dict[str, Any]) -> None:
    twin.model.load_state_dict(saved["model"])
    if twin.optimizer is not None:
        twin.optimizer.load_state_dict(saved["optimizer"])
    if twin.scheduler is not None:
        twin.scheduler.load_state_dict(saved["scheduler"])


def _parts(twin: Twin) -> dict[str, str]:
    parts = {"weights": digest(dict(twin.model.named_parameters())), "buffers": digest(dict(twin.model.named_buffers()))}
    if twin.optimizer is not None:
        parts["optimizer"] = digest(twin.optimizer.state_dict())
    if twin.scheduler is not None:
        parts["scheduler"] = digest({k: v for k, v in twin.scheduler.state_dict().items() if not callable(v)})
    return parts
