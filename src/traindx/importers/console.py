"""Console text: what training scripts print, whatever they print it with.

A number belongs to the words before it: "step 100: train loss 2.31, val loss 2.40" holds step, train loss and val loss.
Lines with a loss or a known metric become records; lines that only name an epoch or a step set the place of those that
follow. Progress bars, dicts, AverageMeters, Keras, fairseq, ESPnet, Kaldi, Megatron, DeepSpeed and MMDetection all read so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from traindx.errors import NothingReadable
from traindx.importers import curves, shapes
from traindx.importers.aliases import meaning
from traindx.importers.shapes import Record, State
from traindx.importers.source import MAX_CELLS, Lines, Source
from traindx.importers.table import Log, Options, Rows, Track
from traindx.run import Event, Floats

MOST_LINES = 20_000_000
WENT_ON = 3  # records after an error: it did not end the run


def can_read(source: Source) -> bool:
    """Whether it is text; the last resort."""
    return not source.binary and bool(source.head.strip())


def read(source: Source, options: Options) -> list[Log]:
    """The measurements in a printed log."""
    lines = Lines(source)
    logs = _logs(lines, source.name, options)
    if not logs:
        if source.name.endswith(".py"):
            raise NothingReadable(f"{source.name} is a program, not a log; to run and observe it: traindx run {source.name}")
        raise NothingReadable(
            f"{source.name}: no known log format, and no line holds a loss or metric with a number "
            "(for example 'step 100: loss 2.31' or 'Epoch 3 … val_loss: 0.5')"
        )
    for log in logs:
        if lines.cut:
            log.damage(f"{lines.cut} lines of more than {lines.longest >> 20} MB were skipped")
    return logs


def logs_of_text(text: str, name: str, options: Options | None = None) -> list[Log]:
    """The measurements in a text."""
    return _logs(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), name, options or Options())


def _logs(lines: Iterable[str], name: str, options: Options) -> list[Log]:
    state = State()
    for line in lines:
        state.lines += 1
        if state.lines > MOST_LINES or state.cells > MAX_CELLS:
            state.dropped += 1
            continue
        shapes.take(line, state)
    records = _steady(shapes.records_of(state))
    if state.error is not None and sum(record.line > state.error_at for record in records) >= WENT_ON:
        state.error = None  # it was caught, or another process said it
    if not records and not state.said and state.error is None and not state.killed:
        return []
    log = _placed(records, name, options, state) if records else Log("text", name, notes=["no line of it holds a loss"])
    log.hparams = {**state.settings}
    if np.isfinite(state.planned) and "max_steps" not in log.hparams and log.unit == "step":
        log.hparams.setdefault("max_steps", int(state.planned))
    if np.isfinite(state.epochs) and log.unit == "epoch":
        log.hparams.setdefault("epochs", int(state.epochs))
    stride = max(shape.stride for shape in state.shapes.values()) if state.shapes else 1
    if stride > 1:
        log.notes.append(f"the log is very long: of the lines that come back most often one in {stride} was kept")
    if state.dropped:
        log.damage(f"{state.dropped} lines beyond the limit were skipped")
    _ending(log, state)
    _messages(log, records, state)
    return [log]


def _messages(log: Log, records: list[Record], state: State) -> None:
    """What the program said of itself, each at the step of the record before it."""
    steps = next((t.x for t in log.tracks.values() if len(t) == len(records)), None)
    for key, told in state.said.items():
        before = sum(record.line < told.line for record in records)
        share = before / len(records) if records else 0.0
        last = max((float(t.x[-1]) for t in log.tracks.values() if len(t)), default=0.0)
        step = float(steps[before - 1]) if steps is not None and before else share * last
        after = sum(record.line > told.last for record in records)
        log.events.append(
            Event(int(step), "said", {"key": key, "line": told.text, "count": told.count, "survived": after >= WENT_ON})
        )


def _ending(log: Log, state: State) -> None:
    last = max((int(t.x[-1]) for t in log.tracks.values() if len(t)), default=0)
    if state.error is not None:
        kind, message = state.error
        log.facts["ended"] = "exception"
        log.facts["exception"] = {"type": kind, "message": message}
        if "OutOfMemory" in kind or "out of memory" in message.lower():
            log.events.append(Event(last, "oom", {"message": message}))
    elif state.killed:
        log.facts["ended"] = "killed"


# -- all lines


def _steady(records: list[Record]) -> list[Record]:
    """Without lines that appear to be source code or chatter: no place and hardly repeated."""
    kinds = Counter(frozenset(r.values) for r in records)
    return [
        r
        for r, before in zip(records, [Record({}), *records])
        if (np.isfinite(r.step) or np.isfinite(r.epoch) or np.isfinite(r.inner) or kinds[frozenset(r.values)] >= 3)
        and not _drawn_anew(r, before)
    ]


def _drawn_anew(record: Record, before: Record) -> bool:
    """A progress bar at nothing, with the values of the full one: "Epoch 0: 0%| 0/40" before "Epoch 1" begins."""
    shared = record.values.keys() & before.values.keys()
    again = bool(shared) and all(record.values[k] == before.values[k] for k in shared)
    return record.bar and record.inner == 0 and before.inner > 0 and again


def _placed(records: list[Record], name: str, options: Options, state: State) -> Log:
    rows = Rows(options.axes)
    notes: list[str] = []
    records = _whole_epochs(records, notes)
    x, unit = _positions(records, notes)
    for record in records:
        if unit != "epoch" and np.isfinite(record.epoch):
            record.values["epoch"] = record.epoch
        rows.add(record.values)
    log = Log("text", name, unit=unit, axis="" if unit == "record" else unit, notes=notes)
    for column, (at, values) in rows.columns().items():
        log.tracks[column] = Track(at, x[at], values)
    log.notes.append(f"{len(records)} of {state.lines} lines were taken for records")
    return log


def _whole_epochs(records: list[Record], notes: list[str]) -> list[Record]:
    """Of Keras' progress lines only the last of each epoch: the others show a mean that is still running."""
    done = [r for r in records if r.inner == r.total and not r.bar and any(meaning(k).split == "val" for k in r.values)]
    partial = [r for r in records if r.inner < r.total and not r.bar and np.isnan(r.step)]
    if len(done) >= 2 and len(partial) > len(done) and all(np.isfinite(r.epoch) for r in done):
        notes.append(f"{len(partial)} progress lines within epochs were left out; they show running means")
        kept = [r for r in records if r.inner == r.total or np.isnan(r.inner)]
        for r in kept:
            r.inner = r.total = np.nan
        return kept
    return records


def _positions(records: list[Record], notes: list[str]) -> tuple[Floats, str]:
    """A position for every record and what it counts."""
    step = np.array([r.step for r in records])
    epoch = np.array([r.epoch for r in records])
    inner = np.array([r.inner for r in records])
    total = np.array([r.total for r in records])
    if (np.isfinite(step).mean() >= 0.3 and len(np.unique(step[np.isfinite(step)])) > 1) or (
        len(records) == 1 and np.isfinite(step[0])
    ):
        return _by_step(step, epoch, notes), "step"
    if np.isfinite(inner).mean() >= 0.5:
        return _by_inner(records, inner, total, epoch, step, notes), "step"
    if np.isfinite(epoch).mean() >= 0.8 and (len(np.unique(epoch)) > 1 or len(records) == 1):
        return _forward(epoch), "epoch"
    notes.append("the lines name no step or epoch; records are counted in the order of printing")
    return np.arange(len(records), dtype=np.float64), "record"


def _forward(x: Floats) -> Floats:
    """Gaps filled with the value before them, at the start with the first."""
    known = np.flatnonzero(np.isfinite(x))
    index = np.clip(np.searchsorted(known, np.arange(len(x)), side="right") - 1, 0, len(known) - 1)
    return x[known[index]]


def _first_of_run(epoch: Floats) -> Floats:
    """For every record the epoch its run began with: where the epoch goes back, another run begins."""
    begins = np.concatenate([[0], np.flatnonzero(np.diff(epoch) < 0) + 1])
    first: Floats = epoch[begins[np.searchsorted(begins, np.arange(len(epoch)), side="right") - 1]]
    return first


def _by_step(step: Floats, epoch: Floats, notes: list[str]) -> Floats:
    x = _forward(step)
    if np.isfinite(epoch).mean() > 0.5:
        joined = curves.within_epoch(x, _forward(epoch))
        if joined is not None:
            notes.append("the step counter restarts in every epoch; the two were joined into one count")
            return joined
    return x


def _by_inner(records: list[Record], inner: Floats, total: Floats, epoch: Floats, step: Floats, notes: list[str]) -> Floats:
    evaluated = np.array([all(meaning(k).split in ("val", "test") for k in r.values if k != "epoch") for r in records])
    if (np.isfinite(total) & ~evaluated).any():
        inner = np.where(evaluated, np.nan, inner)  # "Test: [0/16]" counts the batches of an evaluation
        total = np.where(evaluated, np.nan, total)
    per, most = _forward(total), np.nanmax(inner, initial=0.0)
    per = np.maximum(per, most) if most > np.max(per) else per  # epochs that are longer than was thought
    if np.isfinite(epoch).mean() > 0.5 and len(np.unique(epoch[np.isfinite(epoch)])) > 1:
        whole = _forward(epoch)
        begun = whole - _first_of_run(whole)
        notes.append("the place within an epoch and the epoch were joined into one count")
        return np.where(np.isfinite(inner), begun * per + inner, (begun + 1) * per)
    x = _forward(np.where(np.isnan(inner) & (step <= per), step, inner))
    full = np.flatnonzero(np.diff(x) < 0) + 1
    fresh = [i for i in full if x[i - 1] >= 0.95 * per[i - 1]]
    if fresh:
        offset = np.zeros(len(x))
        for i in fresh:
            offset[i:] += per[i - 1]
        notes.append("the progress bar was filled several times; its counts were added up")
        return x + offset
    return x
