"""When a run first went non-finite, what did, in which order, and whether it passed: one chronology for the numerics rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx import facts
from traindx.run import Run, Series

# What poisons what within one step: a bad batch, then the forward, then gradients, then what the update writes.
ORDER = ("input", "activation", "loss", "grad", "buffer", "param", "state")


@dataclass(frozen=True)
class Break:
    """The first time one kind of thing was not finite."""

    what: str  # one of ORDER
    step: int
    value: str  # nan, inf or -inf
    names: tuple[str, ...] = ()
    before: bool = False  # seen before the update of that step
    exact: bool = True  # from a watched event; otherwise read off a signal
    index: int = 0  # order of arrival among events

    @property
    def spelled(self) -> str:
        return "NaN" if self.value == "nan" else "infinite"

    @property
    def rank(self) -> tuple[int, int, int]:
        place = -1 if self.before and self.what in ("param", "state", "buffer") else ORDER.index(self.what)
        return self.step, place, self.index


def breaks(run: Run) -> list[Break]:
    """Every kind of non-finite thing at its first step, root first. Benign infinities are left out.

    Benign are gradients that a scaler skipped, activations in a run whose loss and gradients stay finite (masks of −inf) and
    buffers that were infinite from the start.
    """
    first: dict[str, Break] = {}
    for found in (*_from_events(run), *_from_signals(run)):
        known = first.get(found.what)
        if known is None or (found.step, not found.exact) < (known.step, not known.exact):
            first[found.what] = found
    if not set(first) & {"loss", "grad", "param", "buffer", "state"}:
        first.pop("activation", None)
    return sorted(first.values(), key=lambda b: b.rank)


def first_break(run: Run) -> Break | None:
    """The thing that went non-finite before all others; None for a finite run."""
    found = [b for b in breaks(run) if b.what != "activation"]
    return found[0] if found else None


def passed(run: Run, since: int, least: int = 5) -> bool:
    """Whether the loss was finite again for `least` records after a step: the run lived on."""
    later = run.series("loss/train").between(lo=since + 1)
    return len(later) >= least and bool(np.all(np.isfinite(later.values[-least:])))


def guarded(run: Run) -> int:
    """How many updates the opt-in guard skipped, where it kept the weights clean; 0 otherwise."""
    skipped = len({e.step for e in run.events_of("skip_guard")})
    return skipped if skipped and not {b.what for b in breaks(run)} & {"param", "buffer", "state"} else 0


def origin(run: Run, phase: str) -> Mapping[str, Any]:
    """What forensics found out about the first non-finite operation, if it lies in that phase; empty otherwise."""
    found = facts.table(run, "origin")
    return found if found.get("op") and str(found.get("phase", "")).startswith(phase[:3]) else {}


def in_backward(run: Run) -> Mapping[str, Any]:
    """The origin in backward; empty where the loss was seen to break no later than the gradients: the forward broke first."""
    seen = {b.what: b for b in breaks(run) if b.exact}
    loss, grad = seen.get("loss"), seen.get("grad")
    return {} if loss and (grad is None or loss.step <= grad.step) else origin(run, "backward")


def from_loader(run: Run) -> bool:
    """Whether batches come from a loader that is known: without one, samples and what is made of them look the same."""
    return run.fact("data.loader") is not None


def place(origin: Mapping[str, Any]) -> tuple[str, ...]:
    """The source line and the module of an origin, as far as they are known."""
    line = origin.get("line")
    file = origin.get("file")
    site = f"{file}:{line}" if file and line else str(file or "")
    return tuple(p for p in (site, str(origin.get("module") or "")) if p)


def _from_events(run: Run) -> Iterator[Break]:
    span = run.steps
    start = span[0] if span else 0
    skipped = _skipped(run)
    for i, event in enumerate(run.events_of("nonfinite")):
        what, value = str(event.data.get("what", "")), str(event.data.get("value", "nan"))
        benign = what == "buffer" and value in ("inf", "-inf") and event.step <= start
        if what not in ORDER or benign or (what == "grad" and event.step in skipped):
            continue
        raw = event.data.get("names")
        names = (raw,) if isinstance(raw, str) else tuple(str(n) for n in raw) if isinstance(raw, list | tuple) else ()
        yield Break(what, event.step, value, names, event.data.get("when") == "before", True, i)


def _from_signals(run: Run) -> Iterator[Break]:
    watched = "nonfinite" in (run.fact("watched") or ())
    for what, name in (("loss", "loss/train"), ("grad", "grad_norm")):
        series = run.series(name)
        bad = _broken(series, watched=watched)
        if what == "grad":
            bad &= ~np.isin(series.steps, list(_skipped(run)))
            if run.fact("amp.scaler") or len(run.series("amp/scale")):
                bad &= _ends_bad(series.values)  # a scaler's calibration shows as lone infinities and costs nothing
        hit = np.flatnonzero(bad)
        if len(hit):
            yield Break(what, int(series.steps[hit[0]]), _word(series.values[hit[0]]), exact=watched)
    for what, name in (("grad", "grad_nonfinite/param"), ("param", "weight_nonfinite/param")):
        matrix = run.matrix(name)
        for i in np.flatnonzero(np.any(matrix.values > 0, axis=1))[:1] if len(matrix) else ():
            if what != "grad" or int(matrix.steps[i]) not in _skipped(run):
                names = tuple(n for n, v in zip(matrix.names, matrix.values[i], strict=True) if v > 0)
                yield Break(what, int(matrix.steps[i]), "nan", names)
    state = run.series("state_nonfinite").finite()
    if len(state) and np.any(rise := state.values > state.values[0]):
        yield Break("state", int(state.steps[np.argmax(rise)]), "nan")


def _broken(series: Series, *, watched: bool) -> NDArray[np.bool_]:
    """Which records are truly non-finite. In a log that was not ours a NaN between numbers may be a cell nobody filled."""
    if watched:
        return ~np.isfinite(series.values)
    nan = np.isnan(series.values)
    trailing = np.zeros(len(nan), dtype=bool)
    numbers = np.flatnonzero(~nan)
    if not len(numbers):
        trailing[:] = len(nan) >= 3
    elif numbers[-1] < len(nan) - 1:
        # a log that stops being a number is sick; one that pauses as long as it paused before may only be unfilled
        widest_gap = int(np.max(np.diff(numbers), initial=1)) - 1
        trailing[numbers[-1] + 1 :] = len(nan) - 1 - int(numbers[-1]) > 2 * widest_gap
    return np.isinf(series.values) | trailing


def _ends_bad(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Hits only if the last three records are all non-finite."""
    sick = len(values) >= 3 and not np.any(np.isfinite(values[-3:]))
    return np.full(len(values), sick)


def _skipped(run: Run) -> set[int]:
    skipped = run.series("amp/skipped")
    return {int(s) for s in skipped.steps[skipped.values > 0]}


def _word(value: float) -> str:
    return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
