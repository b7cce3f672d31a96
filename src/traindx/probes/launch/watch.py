"""`traindx.watch(model, optimizer)`: observe a loop from inside the program."""

from __future__ import annotations

import atexit
import importlib
import math
import os
import sys
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from traindx import diagnosis as diagnosis_
from traindx import settings as settings_
from traindx.errors import UsageError
from traindx.plain import say
from traindx.probes.drive import session
from traindx.probes.drive.recorder import Recorder
from traindx.probes.drive.sink import DiskSink
from traindx.probes.launch import other_ranks
from traindx.probes.launch.attach import Observer, attach, detach
from traindx.probes.launch.early_stopping import Stopping
from traindx.probes.launch.gradient_limit import NormAlarm
from traindx.probes.launch.summary import Summary, summary_of
from traindx.run import Run

_open: list[Watch] = []  # a watch that nobody holds any more still watches


def watch(
    *things: Any,
    dir: str | os.PathLike[str] | None = None,
    budget: float | None = 0.01,
    log_every: int = 0,
    alert_grad_norm: float | None = None,
    name: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Watch:
    """Observe the training of these models with these optimizers, until the block ends or `close()` is called.

    `dir` is where the record goes, `budget` the share of step time observing may cost (None: everything every step),
    `log_every` prints a line every so many steps, `facts` states what only you know (`{"rl": True}`). `alert_grad_norm`: the
    gradient norm is read at every step, and a line and an event say when it rises above this or is not finite.
    Watching the same model again closes the earlier watch, so that a notebook cell can be run twice.
    """
    models, optimizers = _sorted(things)
    if alert_grad_norm is not None and not alert_grad_norm > 0:
        raise UsageError(f"alert_grad_norm is a norm above zero; got {alert_grad_norm}")
    if log_every < 0:
        raise UsageError(f"log_every counts steps and cannot be negative; got {log_every}")
    if budget is not None and not 0 <= budget <= 1:
        raise UsageError(f"budget is a share of step time between 0 and 1, or None; got {budget}")
    for other in list(_open):
        if any(m is n for m in models for n in other.models):
            other.close()
    dx = Watch(models, optimizers, dir, budget, log_every, name, facts or {})
    if alert_grad_norm is not None and dx._recorder is not None:
        NormAlarm(dx._recorder, alert_grad_norm)
    return dx


@atexit.register
def _leave() -> None:
    """The program ends with watches open: complete their records."""
    for dx in list(_open):
        dx.close("exit")


class Watch:
    """The handle `traindx.watch` gives: a context manager, or an object to `close()`."""

    def __init__(
        self,
        models: list[nn.Module],
        optimizers: list[Any],
        dir: str | os.PathLike[str] | None,
        budget: float | None,
        log_every: int,
        name: str | None,
        facts: Mapping[str, Any],
    ) -> None:
        self._models = [weakref.ref(m) for m in models]
        self._observer: Observer | None = None
        self._recorder: Recorder | None = None
        self._last: Run | None = None
        self._cells: list[Any] = []
        self._stopping = Stopping()
        self.open = not settings_.Settings().disabled
        if not self.open:
            return
        script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else ""
        own = name or (script if script not in ("", "-c", "-m", "ipykernel_launcher") else "run")
        self.name = own
        sink = DiskSink(session.folder(own, dir), own, session.rank())
        self._recorder = Recorder(sink, budget=session.share(budget))
        self._recorder.post.heard = self._stopping.heard
        self._recorder.scene.facts.update(session.about(sys.argv[0] if sys.argv else None, sys.argv[1:]))
        self._recorder.scene.facts.update(facts)
        if log_every:
            self._recorder.on_step.append(_Lines(log_every))
        self._observer = attach(self._recorder, models=models, optimizers=optimizers)
        other_ranks.follow(sink.path)
        _open.append(self)

    @property
    def models(self) -> list[nn.Module]:
        """The watched models that are still alive."""
        return [m for r in self._models if (m := r()) is not None]

    @property
    def dir(self) -> Path | None:
        """Where the record is."""
        return self._recorder.sink.path if self._recorder is not None else None  # type: ignore[attr-defined]

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, tb: Any) -> None:
        if error is not None and self.open and self._recorder is not None:
            self._recorder.fails(error, session.told(error))
        self.close("closed" if error is None else "exception")

    def close(self, how: str = "closed") -> None:
        """Stop observing, undo every patch, complete the record. Closing twice does nothing."""
        if not self.open or self._observer is None or self._recorder is None:
            return
        self.open = False
        for cell in self._cells:
            cell.stop()
        _open.remove(self)
        detach(self._observer)
        self._recorder.close(how)

    def log(self, **metrics: Any) -> None:
        """Record what you measured yourself; tensors are welcome and are not waited for.

        `slices` is for columns of your own: `dx.log(slices={"site": batch["site"], "age": ages})` after a validation batch went
        through the model, one value per sample; the report then shows by which of them the loss is highest.
        """
        if self.open and self._observer is not None:
            if (columns := metrics.pop("slices", None)) is not None:
                self._observer.told("on_columns", columns)
            for name, value in metrics.items():
                self._observer.told("on_metric", name, value)

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Iterate over `loader`, timing it and looking at the batches."""
        observer = self._observer if self.open else None
        iterator = iter(loader)
        if observer is None or type(iterator).__module__.startswith("torch.utils.data"):
            yield from iterator  # a DataLoader is seen already
            return
        observer.told("on_loader", loader)
        while True:
            begun = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                observer.told("on_loader_end", loader, True)
                return
            observer.told("on_batch", loader, batch, begun, time.perf_counter())
            yield batch

    @contextmanager
    def validation(self) -> Iterator[None]:
        """What runs inside this block is one validation, whatever it looks like."""
        if self.open and self._observer is not None:
            self._observer.told("validation_begins")
        try:
            yield
        finally:
            if self.open and self._observer is not None:
                self._observer.told("validation_ends")

    def run(self) -> Run:
        """What was recorded so far."""
        if self._recorder is None:
            return Run()
        if self.open:
            self._recorder.flush()
        return self._recorder.sink.run()

    @property
    def diagnosis(self) -> diagnosis_.Diagnosis:
        """What is wrong with the run so far."""
        return diagnosis_.diagnose(self.run())

    def report(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Write the HTML report of the run so far."""
        return self.diagnosis.report(Path(path))

    def live(self, every: float = 5.0) -> Any:
        """In a notebook: a cell that shows the diagnosis and renews itself every so many seconds, until the watch closes."""
        cell = importlib.import_module("traindx.report.notebook").Live(lambda: self.diagnosis, every).start()
        self._cells.append(cell)
        return cell

    @property
    def should_stop(self) -> bool:
        """Whether the validation loss has risen beyond its noise while training continued (never acts by itself)."""
        if self._recorder is None:
            return False
        self._recorder.post.drain()
        return self._stopping.now(bool(self._recorder.scene.facts.get("loss.may_be_negative")))

    def summary(self) -> Summary:
        """The run so far in numbers: losses, gradient norm, clipping, non-finite steps, largest and smallest gradients."""
        run = self.run()
        cost = run.fact("cost") or {}
        spent, share = float(cost.get("seconds", 0.0)), 100 * float(cost.get("share", 0.0))
        told = f"observing took {spent:.2g} s, {share:.2g} % of the time after the start; record in {self.dir}"
        return summary_of(run, told)

    def __repr__(self) -> str:
        return f"<traindx.watch {'open' if self.open else 'closed'}: {self.dir}>"


class _Lines:
    """One line every `every` steps: loss and where it goes, gradient norm, how often it was clipped, learning rate."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._losses: list[float] = []
        self._bad = 0
        self._level: float | None = None
        self._clipped = self._clips = 0

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        loss, norm, limit = row.get("loss/train"), row.get("clip/norm", row.get("grad_norm")), row.get("clip/threshold")
        if isinstance(loss, float) and math.isfinite(loss):
            self._losses.append(loss)
        elif isinstance(loss, float):
            self._bad += 1
        over = isinstance(norm, float) and isinstance(limit, float) and norm > limit
        self._clips += isinstance(limit, float)
        self._clipped += over
        if (step + 1) % self._every:
            return
        mean = sum(self._losses) / len(self._losses) if self._losses else math.nan
        still = self._level is not None and abs(mean - self._level) < 1e-3 * abs(self._level)
        trend = "" if self._level is None else " (hardly moves)" if still else " ↓" if mean < self._level else " ↑"
        words = [f"step {step + 1}: loss {mean:.4g}{trend}"]
        if self._bad:
            words.append(f"NaN or infinite losses: {self._bad}")
        self._level, self._losses, self._bad = mean, [], 0
        if isinstance(norm, float):
            words.append(f"grad {norm:.3g}{' [CLIPPED]' if over else ''}")
        if self._clips:
            often = " (more than half: the learning rate may be too high)" if 2 * self._clipped > self._clips else ""
            words.append(f"clipped {100 * self._clipped / self._clips:.0f} %{often}")
        if isinstance(row.get("lr"), float):
            words.append(f"lr {row['lr']:.3g}")
        say(" · ".join(words))


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
