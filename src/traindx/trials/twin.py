"""The twin: a copy of the task to experiment on, and the proof that the original was not touched."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from traindx.errors import TwinLeak, UsageError
from traindx.trials.recording import recorded
from traindx.trials.state import digest, generators, model_state, order_kept, random_kept, random_states, stateful

if TYPE_CHECKING:
    from traindx.trials.task import Task

Batch = Any


def _as_it_is(batch: Any) -> Any:
    return batch


@dataclass
class Twin:
    """A copy of the task's model, optimizer, schedule and scaler, tied to each other as the originals are."""

    task: Task
    model: nn.Module
    optimizer: torch.optim.Optimizer | None
    scheduler: Any
    scaler: Any
    see: Callable[[Batch], Batch] = _as_it_is  # what a prescription does to batches …
    cast: Callable[[], AbstractContextManager[Any]] = nullcontext  # … around the loss …
    unit: float = 1.0  # … to the unit of the loss …
    every: int = 1  # … and batches to an update
    _gathered: int = 0

    def loss(self, batch: Batch) -> Tensor:
        """The loss of a batch with its graph."""
        with self.cast():
            return self.task.loss_of(self.model, self.see(batch))

    def gradients(self, batch: Batch) -> float:
        """Fill the gradients from a batch; its loss."""
        self.model.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()
        return float(loss.detach())

    def step(self, batch: Batch) -> float:
        """One update as the user's loop would make it; the loss before it."""
        assert self.optimizer is not None, "this trial needs the task's optimizer"
        if self.every == 1:
            loss = self.gradients(batch)
            self.optimizer.step()
            return loss
        found = self.loss(batch) / self.every
        found.backward()
        self._gathered += 1
        if self._gathered % self.every == 0:
            self.optimizer.step()
            self.model.zero_grad(set_to_none=True)
        return float(found.detach()) * self.every

    def probe(self, batches: list[Batch]) -> float:
        """Eval-mode loss over fixed batches, weighted by their size: the response of every trial."""
        from traindx.trials.task import evaluating, size_of

        with evaluating(self.model), random_kept(seed=0):
            sizes = [size_of(b) for b in batches]
            losses = [float(self.loss(b)) for b in batches]
        return self.unit * sum(v * n for v, n in zip(losses, sizes, strict=True)) / max(sum(sizes), 1)

    def snapshot(self) -> dict[str, Any]:
        """Model and optimizer as they are now, to come back to."""
        kept = {"model": copy.deepcopy(self.model.state_dict())}
        if self.optimizer is not None:
            kept["optimizer"] = copy.deepcopy(self.optimizer.state_dict())
        return kept

    def restore(self, kept: dict[str, Any]) -> None:
        """Back to a snapshot."""
        self.model.load_state_dict(kept["model"])
        if self.optimizer is not None and "optimizer" in kept:
            self.optimizer.load_state_dict(copy.deepcopy(kept["optimizer"]))

    def use(self, optimizer: torch.optim.Optimizer) -> None:
        """Train the twin with another optimizer."""
        self.optimizer, self.scheduler = optimizer, None


def fingerprint(task: Task) -> dict[str, str]:
    """Everything of the original that must stay: a hash by name."""
    return {
        **model_state(task.model),
        "optimizer": stateful(task.optimizer),
        "scheduler": stateful(task.scheduler),
        "scaler": stateful(task.scaler),
        "random": digest(random_states()),
        "data order": digest([g.get_state() for g in generators(task.train, task.val)]),
    }


@contextmanager
def twin(task: Task, seed: int = 0) -> Iterator[Twin]:
    """A twin to experiment on, under its own random numbers; leaving it compares the original with its earlier state."""
    before = fingerprint(task)
    with random_kept(seed=seed), order_kept(task.train, task.val), warnings.catch_warnings():
        # the copy of a scheduler does not know that its optimizer has stepped, and says so; the user has nothing to mend there
        warnings.filterwarnings("ignore", message=".*lr_scheduler.step.*")
        try:
            model, optimizer, scheduler, scaler = copy.deepcopy((task.model, task.optimizer, task.scheduler, task.scaler))
        except Exception as why:  # models may refuse to be copied in many ways; the user must hear which
            raise UsageError(f"the model cannot be copied for an experiment ({type(why).__name__}: {why})") from None
        for p in model.parameters():
            p.grad = None
        with recorded():
            yield Twin(task, model, optimizer, scheduler, scaler)
    after = fingerprint(task)
    changed = sorted(key for key in before if before[key] != after[key])
    if changed:
        raise TwinLeak(f"a trial changed the original's {', '.join(changed)}; please report this with the task")
