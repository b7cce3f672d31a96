"""`traindx.watch(model, optimizer)`: observe a loop from inside the program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.optim import Optimizer

from traindx import diagnosis as diagnosis_
from traindx.errors import UsageError
from traindx.probes import session
from traindx.probes.attach import attach, detach
from traindx.probes.recorder import Recorder
from traindx.probes.story import clock
from traindx.run import Run


def watch(
    *things: Any,
    dir: str | os.PathLike[str] | None = None,
    budget: float | None = 0.01,
    log_every: int = 0,
    **more: Any,
) -> Watch:
    """Observe the training of these models with these optimizers, until the block ends or `close()` is called."""
    return Watch(*things, dir=dir, budget=budget, log_every=log_every, **more)


class Watch:
    """The handle `traindx.watch` gives: a context manager, or an object to `close()`."""

    def __init__(
        self, *things: Any, dir: str | os.PathLike[str] | None = None, budget: float | None = 0.01, log_every: int = 0
    ) -> None:
        models, optimizers = _sorted(things)
        self._recorder = Recorder(budget=budget)
        self._recorder.scene.facts.update(session.about(None, []))
        self._observer = attach(self._recorder, models=models, optimizers=optimizers)
        self._open = True

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *why: Any) -> None:
        self.close("exception" if why[0] is not None else "closed")

    def close(self, how: str = "closed") -> None:
        """Stop observing, undo every patch, complete the record."""
        if not self._open:
            return
        self._open = False
        detach(self._observer)
        self._recorder.close(how)

    def log(self, **metrics: Any) -> None:
        """Record what you measured yourself; tensors are welcome and are not waited for."""
        for name, value in metrics.items():
            self._observer("on_metric", name, value)

    def batches(self, loader: Any) -> Iterator[Any]:
        """Iterate over `loader`, timing it and looking at the batches."""
        self._observer("on_loader", loader)
        iterator = iter(loader)
        while True:
            begun = clock()
            try:
                batch = next(iterator)
            except StopIteration:
                self._observer("on_loader_end", loader, True)
                return
            self._observer("on_batch", loader, batch, begun, clock())
            yield batch

    @contextmanager
    def validation(self) -> Iterator[None]:
        """What runs inside this block is validation, whatever it looks like."""
        self._observer("validation_begins")
        try:
            yield
        finally:
            self._observer("validation_ends")

    def run(self) -> Run:
        """What was recorded so far."""
        if self._open:
            self._recorder.flush()
        return self._recorder.sink.run()

    @property
    def diagnosis(self) -> diagnosis_.Diagnosis:
        """What ails the run so far."""
        return diagnosis_.diagnose(self.run())


def _sorted(things: tuple[Any, ...]) -> tuple[list[nn.Module], list[Any]]:
    models: list[nn.Module] = []
    optimizers: list[Any] = []
    for thing in things:
        for one in thing if isinstance(thing, list | tuple) else (thing,):
            if isinstance(one, nn.Module):
                models.append(one)
            elif isinstance(one, Optimizer):
                optimizers.append(one)
            elif one is not None:
                raise UsageError(f"watch takes models and optimizers; got {type(one).__name__}")
    return models, optimizers
