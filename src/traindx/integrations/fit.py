"""What every framework's callback shares: a watch that opens with the fit, and what it saw afterwards."""

from __future__ import annotations

import importlib
import inspect
import math
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

from traindx import api
from traindx.diagnosis import Diagnosis
from traindx.plain import say
from traindx.run import Run

DEFAULTS: dict[str, Any] = {
    **{p.name: p.default for p in inspect.signature(api.watch).parameters.values() if p.kind is p.KEYWORD_ONLY},
    "mirror": None,
    "announce": False,
}


class Options(TypedDict, total=False):
    """The options of `traindx.watch` for every callback, and two of their own."""

    replay: bool
    skip_nonfinite: bool
    capture_batch: bool
    profiler: int
    alerts: str | Sequence[str] | None
    live: bool | None
    stop_on: str
    dir: str | os.PathLike[str] | None
    budget: float | None
    log_every: int
    alert_grad_norm: float | None
    name: str | None
    facts: Mapping[str, Any] | None
    mirror: Any  # a tracker that gets the findings
    announce: bool  # say the verdict on stderr when the fit is over: for programs without a line of ours


class Fit:
    """A watch that lives as long as a fit; takes the options of `traindx.watch`, `mirror=` and `announce=`."""

    cell: Any = None  # the live cell of a notebook

    def __init_subclass__(cls) -> None:
        """Name the options in the signature, for help() and editors."""
        own = [p for p in inspect.signature(cls.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD][1:]
        kinds = [inspect.Parameter(k, inspect.Parameter.KEYWORD_ONLY, default=d) for k, d in DEFAULTS.items()]
        cls.__signature__ = inspect.Signature([*own, *kinds])  # type: ignore[attr-defined]

    def __init__(self, **options: Unpack[Options]) -> None:
        if unknown := options.keys() - DEFAULTS.keys():
            raise TypeError(f"{type(self).__name__} takes no option {min(unknown)!r}; it takes {', '.join(DEFAULTS)}")
        self.mirror, self.announce = options.get("mirror"), options.get("announce", False)
        self.options: dict[str, Any] = {k: v for k, v in options.items() if k not in ("mirror", "announce")}
        self.dx: Any = None  # the Watch of the last fit

    def begin(self, *models_and_optimizers: Any) -> None:
        """Observe from now on; a program that is observed as a whole (`traindx run`) is not observed twice."""
        host = _host()
        if host is not None:
            self.dx = _Guest(host) if not _guests else None  # a second callback would tell everything twice
            return
        self.dx = dx = api.watch(*models_and_optimizers, **self.options)
        weakref.finalize(self, dx.close, "exception")  # a fit that raised never says that it ended
        if self.mirror:
            importlib.import_module("traindx.integrations.mirror").mirror(dx, self.mirror)

    def close(self, error: BaseException | None = None) -> None:
        """Stop observing and complete the record; closing twice does nothing."""
        if self.dx is not None:
            ending = self.announce and self.dx.open
            self.dx.__exit__(type(error), error, None)
            if self.cell is not None:
                self.cell.stop()
            if ending and hasattr(self.dx, "dir"):
                self._say()

    def _say(self) -> None:
        try:
            found = self.diagnosis
            say(f"{found.verdict}: {found.summary}")
            say(f"the record is in {self.dx.dir}; `traindx diagnose` it")
        except Exception as why:  # the fit is over and well: our page must not be what breaks it
            say(f"no diagnosis could be made: {type(why).__name__}: {why}")

    def tell(self, phase: str, metrics: Mapping[str, Any]) -> None:
        """Record what the framework logged in this phase (train, val); what is no number is left out."""
        if self.dx is not None:
            numbers = {k: v for k, v in metrics.items() if isinstance(v, int | float) or getattr(v, "numel", lambda: 0)() == 1}
            self.dx.log(**{f"metric/{phase}/{name}": value for name, value in numbers.items()})

    def tell_loss(self, value: Any) -> None:
        """Record the validation loss that the framework reports, for those that compute it out of torch's sight."""
        observer = getattr(self.dx, "_observer", None)
        if self.dx is not None and self.dx.open and observer is not None and math.isfinite(float(value)):
            observer.recorder.take({"loss/val": float(value)}, "fit")

    def run(self) -> Run:
        """What was recorded so far."""
        return self.dx.run() if self.dx is not None else Run()

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis of the fit so far."""
        return api.diagnose(Fit.run(self))  # in fastai a callback's own `run` is a switch

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the HTML report of the fit so far."""
        return self.diagnosis.report(path)

    def live(self, every: float = 5.0) -> Any:
        """In a notebook: a cell that shows the diagnosis and is renewed during the fit; call it before the fit."""
        self.cell = importlib.import_module("traindx.report.notebook").Live(lambda: self.diagnosis, every).start()
        return self.cell


def hosted() -> bool:
    """Whether the whole program is observed by `traindx run`."""
    return _host() is not None


def _host() -> Any:
    """The observer of `traindx run`, if this program was started by it."""
    attach = importlib.import_module("traindx.probes.launch.attach")
    watches = importlib.import_module("traindx.probes.launch.watch")
    own = [dx._observer for dx in watches._open]
    return next((o for o in attach.PATCHES.observers if not any(o is other for other in own)), None)


def look_away(away: bool) -> None:
    """Let the observer of `traindx run`, if there is one, hear nothing for a while."""
    host = _host()
    if host is not None:
        host.recorder.busy = away


_guests: list[_Guest] = []


class _Guest:
    """The fit in a record that somebody else has opened and will close."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self.open = True
        _guests.append(self)

    def log(self, **metrics: Any) -> None:
        """As `Watch.log`."""
        for name, value in metrics.items():
            self._observer.told("on_metric", name, value)

    @contextmanager
    def validation(self) -> Iterator[None]:
        """As `Watch.validation`."""
        self._observer.told("validation_begins")
        try:
            yield
        finally:
            self._observer.told("validation_ends")

    def run(self) -> Run:
        """What was recorded so far."""
        self._observer.recorder.flush()
        run: Run = self._observer.recorder.sink.run()
        return run

    def __exit__(self, *_: object) -> None:
        self.open = False
        if self in _guests:
            _guests.remove(self)
