"""A whole JSON file: lists of numbers by name (Keras' history, nanoGPT's curves), values by step (pandas' `to_json`), a list of
records, TensorBoard's downloads, W&B's summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from traindx.errors import NothingReadable
from traindx.importers import axis, hparams, jsonlog
from traindx.importers.aliases import meaning, words
from traindx.importers.gaps import filled
from traindx.importers.source import MAX_WHOLE, Source
from traindx.importers.table import Log, Options, Rows, Track, clean_name, number
from traindx.run import Floats

_AXES = ("step", "log_step", "epoch", "epoch1000", "samples", "tokens")


def can_read(source: Source) -> bool:
    """Whether the file is one JSON value."""
    return not source.binary and jsonlog.first_value(source.text_head) in ("{", "[")


def read(source: Source, options: Options) -> list[Log]:
    """The curves of one JSON value."""
    if source.size > MAX_WHOLE:
        raise NothingReadable(
            f"{source.name}: a JSON file of {source.size >> 20} MB in one piece is not read; write one object per line"
        )
    text = jsonlog.whole(source)
    value = jsonlog.loads(text)
    cut = value is None
    if cut:
        value = jsonlog.salvage_numbers(text) or list(jsonlog.values(text.lstrip("[ \r\n\t\ufeff")))
    logs = logs_of(value, source.name, options)
    if not logs:
        raise NothingReadable(
            f"{source.name}: {'is broken JSON and ' if cut else ''}holds no curve: no lists of numbers, no records with a loss"
        )
    if cut:
        for log in logs:
            log.damage("the JSON is cut or broken; the rest was skipped")
    return logs


def logs_of(value: Any, name: str, options: Options, kind: str = "json") -> list[Log]:
    """The curves in a parsed JSON value, or in any nested dicts and lists of numbers."""
    if isinstance(value, list):
        if value and all(isinstance(v, list) and len(v) == 3 for v in value[:50]):
            return [_downloaded(value, name)]
        records = [v for v in value if isinstance(v, dict)]
        return _of_records(records, name, options, kind) if records else []
    if not isinstance(value, dict):
        return []
    found = _of_lists(value, name, options, kind)
    if found is not None:
        return [found]
    for inner in value.values():
        if isinstance(inner, list) and inner and all(isinstance(v, dict) for v in inner[:20]):
            logs = _of_records([v for v in inner if isinstance(v, dict)], name, options, kind)
            if logs:
                return _with_config(logs, value)
        if isinstance(inner, dict) and (nested := _of_lists(inner, name, options, kind)) is not None:
            return _with_config([nested], value)
    return _summary(value, name, options)


def _with_config(logs: list[Log], value: dict[str, Any]) -> list[Log]:
    extra = hparams.collect({k: v for k, v in value.items() if not isinstance(v, list)})
    for log in logs:
        log.hparams = {**extra, **log.hparams}
    return logs


def _of_records(records: list[dict[str, Any]], name: str, options: Options, kind: str) -> list[Log]:
    rows = Rows(options.axes)
    for record in records:
        rows.add(record)
    return axis.logs_of(rows, kind, name) if rows.columns() else []


def _downloaded(value: list[Any], name: str) -> Log:
    """TensorBoard's download of one tag: [wall time, step, value] three by three; the file's name tells the tag."""
    triples = np.array(
        [[number(c) if number(c) is not None else np.nan for c in v] for v in value if isinstance(v, list) and len(v) == 3],
        dtype=np.float64,
    )
    tag = tag_of_name(name)
    log = Log("tensorboard", name, notes=[f"one tag of TensorBoard; by the file's name it is '{tag}'"])
    log.tracks[tag] = Track(np.arange(len(triples)), triples[:, 1], triples[:, 2], triples[:, 0])
    return log


def tag_of_name(name: str) -> str:
    """The tag in the name of a file that TensorBoard let download: run-x-tag-train_loss.csv is train_loss."""
    stem = name.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return clean_name(stem.split("-tag-", 1)[-1]) or "value"


def _of_lists(value: dict[Any, Any], name: str, options: Options, kind: str) -> Log | None:
    """A log of lists of numbers by name; each list is counted by the counter of its own length and kind."""
    leaves = {clean_name(k): v for k, v in _leaves(value)}
    at = {k: x for k, v in leaves.items() if isinstance(v, dict) and (x := _keys(v)) is not None}
    read_ = {k: _numbers(list(v.values()) if k in at else v) for k, v in leaves.items()}
    lists = {k: v for k, v in read_.items() if v is not None and len(v)}
    if not lists:
        return None
    own = {options.axes.get(k, k): x for k, x in at.items() if k in lists}
    renamed = {options.axes.get(k, k): v for k, v in lists.items()}
    # in Python a None was never a number; in JSON a NaN may have been written as null, and only its place tells
    blank = {k: np.array([c is None for c in v]) for k, v in leaves.items() if kind == "frame" and isinstance(v, list | tuple)}
    unwritten = {options.axes.get(k, k): v for k, v in blank.items() if k in lists}
    counters = {k: v for k, v in renamed.items() if meaning(k).role in _AXES and bool(np.all(np.isfinite(v)))}
    log = Log(kind, name, shared=False)
    for column, values in renamed.items():
        if column in counters and meaning(column).role != "epoch":
            continue
        counter = _counter_of(column, len(values), {k: v for k, v in counters.items() if k != column})
        x = counters[counter] if counter else own.get(column, np.arange(len(values), dtype=np.float64))
        keep = filled(column, values, renamed) & ~unwritten.get(column, np.False_)
        if keep.any():
            log.tracks[column] = Track(np.arange(len(values)), x, values).where(keep)
    if not log.tracks:
        return None
    used = next((k for k in counters if meaning(k).role != "epoch"), "")
    log.unit = _unit(used) if used else "epoch" if _epochs(renamed, counters, log.tracks) else "record"
    log.axis = used
    log.hparams = hparams.collect({k: v for k, v in value.items() if not isinstance(v, list)})
    log.shared = len({len(t) for t in log.tracks.values()}) == 1
    return log


def _leaves(value: dict[Any, Any]) -> list[tuple[str, Any]]:
    """Lists by name, also one level down: {"train": {"loss": […]}} gives train/loss; or values by their step."""
    out: list[tuple[str, Any]] = []
    for key, inner in value.items():
        if isinstance(inner, dict) and _keys(inner) is not None:
            out.append((str(key), inner))
        elif isinstance(inner, dict):
            out.extend((f"{key}/{k}", v) for k, v in inner.items() if _listlike(v))
        elif _listlike(inner):
            out.append((str(key), inner))
    return out


def _keys(curve: dict[Any, Any]) -> Floats | None:
    """The steps of {step: value}, as pandas' `to_json` and many a script write a curve; None when it is something else."""
    if len(curve) < 2 or not all(str(k).isdecimal() and len(str(k)) < 16 for k in curve):
        return None
    return np.array([int(k) for k in curve], dtype=np.float64) if _numbers(list(curve.values())) is not None else None


def _listlike(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray) or hasattr(value, "__array__")


def _numbers(value: Any) -> Floats | None:
    """A list as numbers; None when it holds anything else. A null in a list of losses was a NaN before JSON."""
    if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
        array = np.asarray(value)
        return array.astype(np.float64) if array.ndim == 1 and array.dtype.kind in "fiu" else None
    out = [number(v) for v in value]
    if not out or sum(v is None and cell is not None for v, cell in zip(out, value)) > 0:
        return None
    return np.array([np.nan if v is None else v for v in out], dtype=np.float64)


def _counter_of(column: str, length: int, counters: dict[str, Any]) -> str:
    """The counter of a list: as long as it, and of the same split where several are."""
    fitting = [k for k, v in counters.items() if len(v) == length and len(np.unique(v)) > 1]
    if not fitting:
        return ""
    split = meaning(column).split

    def key(k: str) -> tuple[bool, bool, int]:
        return meaning(k).split != split, meaning(k).role == "epoch", len(words(k))

    return min(fitting, key=key)


def _unit(counter: str) -> str:
    role = meaning(counter).role
    return {"log_step": "step", "epoch1000": "epoch"}.get(role, role)


def _epochs(lists: dict[str, Any], counters: dict[str, Any], tracks: dict[str, Track]) -> bool:
    """Whether lists without a counter hold one entry per epoch, as Keras' history does: val as long as train, and as full."""
    if any(meaning(k).role == "epoch" for k in counters):
        return True
    val = [len(v) for k, v in lists.items() if meaning(k).split == "val"]
    train = [len(v) for k, v in lists.items() if meaning(k).split != "val"]
    gaps = any(len(tracks[k]) < 0.5 * len(v) for k, v in lists.items() if k in tracks and meaning(k).split == "val")
    return bool(val and train) and set(val) == set(train) and not gaps


def _summary(value: dict[str, Any], name: str, options: Options) -> list[Log]:
    """The last values only, as W&B's summary has them."""
    rows = Rows(options.axes)
    rows.add({k: v for k, v in value.items() if k != "_wandb"})
    roles = {meaning(n).role for n in rows.columns()}
    if not roles & {"loss", "part", "accuracy"} or len(value) > 5000:
        return []
    log = axis.log_of(rows.columns(), rows.count, "summary", name)
    log.notes.append(
        "this file holds only the last values of a run, not its history: nothing about the course of training can be said"
    )
    return [log]
