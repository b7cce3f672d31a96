"""In which form a loss was logged, raw, averaged or smoothed, and what can be undone of it."""

from __future__ import annotations

import numpy as np

from traindx import stats
from traindx.importers import curves
from traindx.importers.taken import Taken
from traindx.run import Event, Floats, Ints, Matrix

TRAIN, VAL = "loss/train", "loss/val"


def tell(own: Taken) -> None:
    """Note the form of both losses among the facts."""
    forms: dict[str, str] = {}
    for signal in (TRAIN, VAL):
        column = next((n for n, s in own.taken.items() if s == signal), "")
        known = own.log.forms.get(column) or own.log.forms.get(signal)
        if signal not in own.out:
            continue
        if known:
            forms[signal] = known
        elif signal == VAL:
            continue
        elif column in own.meanings and own.meanings[column].form == "smooth":
            forms[signal] = "ema"
        elif own.log.unit == "epoch" and not own.fractional():
            forms[signal] = "window-mean"
        else:
            _learned(own, forms, signal)
    if forms:
        own.facts["log_form"] = forms


def _learned(own: Taken, forms: dict[str, str], signal: str) -> None:
    """The form that the numbers show; a running mean is undone where that is exact (CATALOGUE 2.10)."""
    series = own.out[signal]
    assert not isinstance(series, Matrix)
    finite = series.values[np.isfinite(series.values)]
    if len(finite) < 100 or len(finite) < len(series):
        return
    x, starts = series.steps.astype(np.float64), _epoch_starts(own, series.steps)
    per = int(np.median(np.diff(starts))) if len(starts) >= 3 else None
    begun = int(starts[1]) if per and starts[1] < 0.9 * per else 0  # the log begins in the middle of an epoch
    raw = _jumps(finite)
    if raw and not per:
        return
    # of a curve that jumps only the first epochs matter: is it a mean that restarts with each of them?
    look = max(2 * per, 99) if raw and per else 4 * per if per and per > 500 else 20000
    form = stats.log_form(finite[begun : begun + look], per)
    if form == "raw":
        return
    if form == "ema":
        if _averaged(finite):
            forms[signal] = form
        return
    undone = _undo(x, series.values, starts, float(np.median(np.diff(x[starts])) - (x[begun] - x[0])) if begun else 0.0)
    if undone is not None and np.min(finite) >= 0 and np.mean(undone < 0) > 0.01:
        return  # no mean of losses that are never negative grows like this: the records are the losses themselves
    if undone is None:
        ends = np.append(starts[1:], len(series)) - 1
        if len(ends) >= 8:  # at its end the mean is that of the whole epoch
            own.out[signal] = series.where(np.isin(np.arange(len(series)), ends))
        forms[signal] = "window-mean" if len(ends) >= 8 else "ema"
        left = "; of each epoch its end was kept" if len(ends) >= 8 else ""
        own.notes.append(f"the training loss is a running mean over each epoch, rounded too coarsely to be undone{left}")
        return
    own.out[signal] = type(series)(series.steps, undone, series.times)
    forms[signal] = "window-mean" if curves.typical_gap(series.steps.astype(np.float64)) > 1 else "raw"
    own.notes.append("the training loss was logged as a running mean over each epoch; the mean was undone")


def _epoch_starts(own: Taken, steps: Ints) -> Ints:
    """Indexes of the records that begin an epoch, by the epoch column."""
    name = next(iter(own.of_role("epoch")), None)
    if name is None:
        return np.empty(0, np.int64)
    epoch = np.floor(own.series(own.tracks[name]).at(steps))
    return np.concatenate([[0], np.flatnonzero(np.diff(epoch) > 0) + 1]).astype(np.int64)


def _undo(steps: Floats, values: Floats, starts: Ints, missed: float) -> Floats | None:
    """What each record adds to the mean; of the first epoch `missed` steps were not logged."""
    out = np.empty(len(values))
    before = steps[0] - curves.typical_gap(steps)
    for a, b in zip(starts, [*starts[1:], len(values)]):
        n = steps[a:b] - before + (0.0 if a else missed)
        total = n * values[a:b]
        out[a:b] = np.diff(np.concatenate([[0.0], total])) / np.diff(np.concatenate([[0.0], n]))
        before = steps[b - 1]
    places = curves.decimals(values)
    longest = float(np.max(np.diff(np.append(steps[starts], steps[-1]))))
    error = 0.0 if places is None else 10.0**-places * longest / max(1.0, curves.typical_gap(steps))
    return out if error < 0.3 * stats.noise_sigma(out) else None


def unmask(own: Taken) -> None:
    """Undo Hugging Face's NaN filter: a loss of exactly 0.0 next to a gradient norm that is not finite was NaN."""
    if TRAIN not in own.out or "grad_norm" not in own.out:
        return
    train, norm = own.out[TRAIN], own.out["grad_norm"]
    if isinstance(train, Matrix) or isinstance(norm, Matrix):
        return
    broken = norm.steps[~np.isfinite(norm.values)]
    masked = (train.values == 0.0) & np.isin(train.steps, broken)
    if not masked.any():
        return
    own.out[TRAIN] = type(train)(train.steps, np.where(masked, np.nan, train.values), train.times)
    first = int(train.steps[np.argmax(masked)])
    own.events.append(Event(first, "nan_hidden", {"how": "logging", "count": int(masked.sum())}))
    own.events.append(Event(first, "nonfinite", {"what": "loss", "names": [TRAIN], "value": "nan", "count": int(masked.sum())}))
    own.notes.append(
        f"{int(masked.sum())} training losses are exactly 0.0 while the gradient norm is not finite: the logger "
        f"hid NaN there, so they count as NaN"
    )


def _jumps(values: Floats) -> bool:
    """Whether steps of a curve undo each other, as those of raw noise do: lag-1 correlation -1/2, near 0 for an average."""
    step = np.diff(values[len(values) // 4 :])
    power = float(np.dot(step, step))
    return power > 0 and float(np.dot(step[1:], step[:-1])) < -0.25 * power


def _averaged(values: Floats, parts: int = 3) -> bool:
    """Whether a curve is smooth everywhere: neighbours agree in each part of what follows the first descent.

    One steep stretch makes the neighbours of a raw curve agree as well, so a single figure for the whole does not tell.
    """
    settled = values[len(values) // 4 :]
    pieces = [p for p in np.array_split(settled, parts) if len(p) >= 60]
    return bool(pieces) and all(stats.log_form(np.resize(p, max(100, len(p))) if len(p) < 100 else p) == "ema" for p in pieces)
