"""The shape of a trial: a frozen set of limits with one method from a task to a result, on a twin of the user's task.

    @trial("lr-range", steps=120)
    @dataclass(frozen=True)
    class LrRange:
        lo: float = 1e-7
        def run(self, task, watch): ...

A trial measures and says what it measured; it leaves the original as it was, plots nothing and applies nothing.
"""

from __future__ import annotations

import importlib
import pkgutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar

from traindx.errors import UsageError
from traindx.run import Run

RESULTS = ("pass", "fail", "refused", "undecided", "done")
T = TypeVar("T")


class Progress(Protocol):
    """Told how far a trial is; the command line draws a bar of it."""

    def __call__(self, done: int, total: int, what: str) -> None: ...


def silent(done: int, total: int, what: str) -> None:
    """A progress that nobody watches."""


class Declined(Exception):
    """Somebody was asked whether a long trial shall begin, and said no."""


@dataclass(frozen=True)
class Result:
    """What a trial found: a word, the numbers, a sentence, and the run it recorded."""

    trial: str
    result: str  # one of RESULTS
    answer: Mapping[str, Any]
    reason: str
    run: Run = field(default_factory=Run)
    steps: int = 0
    seconds: float = 0.0
    record: str = ""

    def __str__(self) -> str:
        return f"{self.trial}: {self.result}: {self.reason}"

    def _repr_html_(self) -> str:
        """The picture and the sentence, in a notebook."""
        return str(importlib.import_module("traindx.report.trial").fragment(self))


@dataclass(frozen=True)
class TrialKind:
    """A trial as the catalogue lists it."""

    name: str
    make: Callable[..., Any]  # the dataclass; its fields are the user's limits
    steps: int  # what it usually costs, in training steps of the user's batch
    wants: str  # "val": judges by validation data where there is any; "train": training data is all it needs
    page: str
    bound: Callable[[Any], int] | None = None  # from the limits to the most steps it can take

    @property
    def summary(self) -> str:
        return self.page.strip().splitlines()[0] if self.page.strip() else ""

    def most(self, **limits: Any) -> int:
        """The most steps it can take with these limits."""
        return self.bound(self.make(**limits)) if self.bound else self.steps

    def cost(self, pace: float, seconds: float, **limits: Any) -> str:
        """What it takes, stated before it starts: seconds in all, and `pace` of them a step of this task."""
        most = self.most(**limits)
        early = ", fewer when the answer is clear sooner" if most > self.steps else ""
        return f"at most {most} steps, {span(seconds)} at {span(pace)} a step{early}"

    def run(self, task: Any, progress: Progress = silent, **limits: Any) -> Result:
        """Run the trial with the user's limits and note what it cost."""
        if not hasattr(task, "twin"):
            raise UsageError(f"a trial takes a traindx.Task(model, loss_fn, train, …), not {type(task).__name__}")
        began = time.monotonic()
        result: Result = self.make(**limits).run(task, progress)
        return Result(
            self.name,
            result.result,
            result.answer,
            result.reason,
            result.run,
            result.steps,
            time.monotonic() - began,
            result.record,
        )


def span(seconds: float) -> str:
    """A time as a person says it."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 else f"{max(1000 * seconds, 0.1):.2g} ms"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def trial(
    name: str, *, steps: int, most: Callable[[Any], int] | None = None, wants: str = "train"
) -> Callable[[type[T]], type[T]]:
    """Enter a class into the catalogue of trials; `most` counts the steps it can take at most from its limits."""

    def enter(cls: type[T]) -> type[T]:
        cls.__trial__ = TrialKind(name, cls, steps, wants, cls.__doc__ or "", most)  # type: ignore[attr-defined]
        return cls

    return enter


@cache
def catalogue() -> dict[str, TrialKind]:
    """Every trial by name, found by scanning the folder `traindx/trials`."""
    package = importlib.import_module("traindx.trials")
    found: dict[str, TrialKind] = {}
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"traindx.trials.{info.name}")
        for value in vars(module).values():
            kind = getattr(value, "__trial__", None)
            if isinstance(kind, TrialKind) and value.__module__ == module.__name__:
                found[kind.name] = kind
    return dict(sorted(found.items()))
