"""At the wheel of a script whose loss cannot be called: its own loop runs, in a process of its own, along a course that is set.

A course can set the learning rate of every update, hold the first batch, clip, switch precision, seed, and end after so many
updates. What happens is recorded as any run is. Nothing else of the script is changed.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from traindx.capture.shelf import Shelf
from traindx.probe import Probe, Scene
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import DiskSink
from traindx.probes.launch.attach import attach, detach
from traindx.trials import floors
from traindx.trials.determinism import Ledger, noted
from traindx.trials.state import digest, random_states, restore_random, seeded
from traindx.trials.task import apply, split, tensors

LOOK = 4096  # numbers of each input that are compared to see whether a batch is the same


@dataclasses.dataclass(frozen=True)
class Course:
    """What is set while the script runs."""

    steps: int  # updates, then it ends
    rates: tuple[float, ...] = ()  # learning rate of each update (of the group with the highest; the others keep their share)
    factor: float = 1.0  # … or what the script's own rates are multiplied with
    clip: float | None = None
    fixed: bool = False  # the first batch, again and again
    seed: int | None = 0  # None: as the script seeds itself
    precision: str = ""  # "float32", "bfloat16", "float16"; "": as the script has it
    ledger: int = 0  # updates of which every operation is written down


class Inputs(Probe):
    """What the first forward of each update was given."""

    def __init__(self) -> None:
        self.seen: dict[int, str] = {}

    def before_forward(self, scene: Scene, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if scene.step not in self.seen and model.training:
            self.seen[scene.step] = digest([t.detach().reshape(-1)[:LOOK] for t in tensors([args, kwargs])])


class Wheel:
    """Drives one script along one course."""

    def __init__(self, job: Any, script: str) -> None:
        self.job, self.script = job, script
        self.course = Course(**{**job.asked["course"], "rates": tuple(job.asked["course"]["rates"])})
        self.steps = 0  # updates that are over
        self.ends: list[float] = []  # when
        self.held: dict[int, Any] = {}  # by data set, the batch that is given again and again
        self._inputs = Inputs()
        self._own: list[tuple[dict[str, Any], Any]] = []  # groups with the rates the script gave them
        self._random: dict[str, Any] | None = None
        self._seeded = self.course.seed is None
        self._ledger: Any = None
        self.rows: list[Any] = []

    def attach(self) -> None:
        """Take the wheel: before the script runs."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self.shelf = Shelf(torch.save, torch.load)  # a trial must not overwrite the user's checkpoints; under our own patch
        torch.save, torch.load = self.shelf.save, self.shelf.load
        if self.course.seed is not None:
            seeded(self.course.seed)
        _on_iteration(self._iterates)
        if self.course.fixed:
            _hold(self.held)
        if self.course.precision:
            _precision(self.course.precision)
        register_optimizer_step_pre_hook(self._before)  # before the recorder's: it must see the rate that is used
        self.recorder = Recorder(DiskSink(Path(self.job.asked["record"]), Path(self.script).stem))
        if self.course.fixed:
            self.recorder.add(self._inputs)
        self.observer = attach(self.recorder)
        self.recorder.on_step.append(self._stepped)
        register_optimizer_step_post_hook(self._after)

    def _iterates(self) -> None:
        """The first pass over a loader begins: the order of the data is drawn now."""
        if not self._seeded and self.course.seed is not None:
            self._seeded = True
            seeded(self.course.seed)

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        groups = optimizer.param_groups
        self._own = [(g, g["lr"]) for g in groups if "lr" in g]
        most = max((float(own) for _, own in self._own), default=0.0)
        for group, own in self._own:
            rate = float(own) * self.course.factor
            if self.course.rates:
                at = self.course.rates[min(self.steps, len(self.course.rates) - 1)]
                rate = at * (float(own) / most if most > 0 else 1.0)
            group["lr"] = torch.full_like(own, rate) if isinstance(own, Tensor) else rate
        if self.course.clip is not None:
            nn.utils.clip_grad_norm_([p for g in groups for p in g["params"]], self.course.clip)

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for group, own in self._own:  # schedules build upon the rate they left
            group["lr"] = own
        self._own = []

    def _stepped(self, step: int, row: Mapping[str, Any]) -> None:
        """An update is over."""
        self.steps += 1
        self.ends.append(time.perf_counter())
        self.job.told(min(self.steps, self.course.steps), self.course.steps, f"step {self.steps} of {self.script}, driven")
        self._iterates()
        if self.course.fixed:
            if self._random is None:
                self._random = random_states()
            else:
                restore_random(self._random)
        if self.course.ledger and self.steps == 1:
            self._ledger = noted(Ledger({}), self.recorder.scene.models)
            self.rows = self._ledger.__enter__().rows
        if self._ledger is not None and self.steps == 1 + self.course.ledger:
            self._ledger.__exit__(None, None, None)
            self._ledger = None
        if self.steps > self.course.steps:  # one more than asked for: the record of an update is sent when it is over
            self.finish()

    def finish(self, failed: str = "") -> None:
        """The course is run: answer, and leave without a trace."""
        code = 0
        try:
            if self._ledger is not None:
                self._ledger.__exit__(None, None, None)
            detach(self.observer)
            self.recorder.close("exception" if failed else "closed")
            self.job.answer(drive=self._told(failed))
        except BaseException as error:  # whatever it is, the starter is waiting for an answer
            from traindx.trials.faults import located

            self.job.answer(error=located(error), known=False, exit=70)
            code = 1
        self.shelf.clear()
        os._exit(code)

    def _told(self, failed: str) -> dict[str, Any]:
        seen = [d for s, d in sorted(self._inputs.seen.items()) if 2 <= s < self.course.steps]
        optimizer = self.recorder.scene.optimizer
        return {
            "steps": min(self.steps, self.course.steps),
            "failed": failed,
            "seconds": [b - a for a, b in zip(self.ends, self.ends[1:], strict=False)],
            "optimizer": type(optimizer).__name__ if optimizer is not None else "",
            "loader": bool(self.held),
            "held": len(set(seen)) == 1 if seen else bool(self.held),
            "levels": [dataclasses.asdict(f) for b in self.held.values() for f in _levels(b)],
            "rows": self.rows,
        }


def _levels(batch: Any) -> tuple[floors.Floor, ...]:
    """Levels with a meaning, from the labels of the held batch alone."""
    try:
        _, target = split(batch)
    except (TypeError, KeyError, IndexError):  # no pair: nothing is known about its labels
        return ()
    return floors.of_labels(target) if isinstance(target, Tensor) else ()


def _on_iteration(then: Callable[[], None]) -> None:
    """Call `then` whenever a loader is about to be iterated."""
    from torch.utils.data import DataLoader

    original = DataLoader.__iter__

    def __iter__(self: Any) -> Any:
        then()
        return original(self)

    DataLoader.__iter__ = __iter__


def _hold(kept: dict[int, Any]) -> None:
    """Every loader gives its first batch again and again, as often as it would have given one."""
    from torch.utils.data import dataloader as loaders

    original = loaders._BaseDataLoaderIter.__next__

    def __next__(self: Any) -> Any:
        key = id(self._dataset)
        self._given = getattr(self, "_given", 0) + 1
        if key not in kept:
            kept[key] = original(self)
        elif (end := _length(self)) is None:
            original(self)  # only it knows when it ends
        elif self._given > end:
            raise StopIteration
        return copy.deepcopy(apply(Tensor.detach, kept[key]))

    loaders._BaseDataLoaderIter.__next__ = __next__


def _length(iterator: Any) -> int | None:
    try:
        return len(iterator)
    except TypeError:  # a stream
        return None


def _precision(name: str) -> None:
    """Training in one precision: autocast forced on or off, also where the script asks for it.

    It begins with the first forward of a module: what is computed before that is data.
    """
    low = name != "float32"
    begin = torch.autocast.__init__

    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, device_type, dtype=getattr(torch, name) if low else None, enabled=low)

    torch.autocast.__init__ = __init__

    def begins(module: nn.Module, args: Any) -> None:
        handle.remove()
        device = next((t.device.type for t in module.parameters()), "cpu")
        torch.autocast(device).__enter__()

    handle: Any = nn.modules.module.register_module_forward_pre_hook(begins) if low else None
