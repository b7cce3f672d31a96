"""Hugging Face's trainer_state.json: the log history of a Trainer, one file per checkpoint, each a prefix of the next.

The training loss stands under `loss` and is the mean since the record before; `train_loss` is one number at the very end,
over the part of the run since the last start, and never the curve. Paths that the file names are never opened.
"""

from __future__ import annotations

import json
from typing import Any

from traindx.errors import NothingReadable
from traindx.importers import axis, hparams, jsonlog
from traindx.importers.source import MAX_WHOLE, Source
from traindx.importers.table import Log, Options, Rows

_SUMMARY = ("train_runtime", "total_flos", "train_samples_per_second")
_STATED = (
    "max_steps",
    "num_train_epochs",
    "train_batch_size",
    "logging_steps",
    "eval_steps",
    "save_steps",
    "best_metric",
    "global_step",
    "epoch",
)


HEAD = 3  # records in which two runs that happen to begin alike will differ


def can_read(source: Source) -> bool:
    """Whether the file holds a log history, whatever its name is."""
    text = source.text_head
    return (
        not source.binary
        and jsonlog.first_value(text) == "{"
        and ('"log_history"' in text or source.stem == "trainer_state.json")
    )


def read(source: Source, options: Options) -> list[Log]:
    """The log history; of a cut or broken file the entries that can be read."""
    text = jsonlog.whole(source)
    state = jsonlog.loads(text) if source.size <= MAX_WHOLE else None
    log_history = state.get("log_history") if isinstance(state, dict) else jsonlog.salvage(text, "log_history")
    cut = not isinstance(state, dict)
    if not isinstance(log_history, list):
        raise NothingReadable(
            f"{source.name}: 'log_history' is {type(log_history).__name__}, not a list; nothing was logged in it"
        )
    entries = [e for e in log_history if isinstance(e, dict)]
    if not entries:
        raise NothingReadable(f"{source.name}: its log history is empty{' or cut off' if cut else ''}; the run logged nothing")
    [log] = _logs(entries, source.name, options)
    if cut:
        log.damage("the file is cut or broken; the rest was skipped")
    if isinstance(state, dict):
        log.hparams = hparams.collect({k: state[k] for k in _STATED if k in state})
    return [log]


def _logs(entries: list[dict[str, Any]], name: str, options: Options) -> list[Log]:
    rows = Rows(options.axes)
    summaries = 0
    for entry in entries:
        if any(key in entry for key in _SUMMARY) and "loss" not in entry:
            summaries += 1
            continue
        rows.add(entry)
    if not rows.count:
        raise NothingReadable(f"{name}: its log history holds only the closing summary; the run logged nothing on the way")
    log = axis.log_of(rows.columns(), rows.count, "trainer_state", name, rows)
    log.forms["loss"] = "window-mean"
    log.first = json.dumps(
        {k: entries[0].get(k) for k in ("step", "loss", "grad_norm", "learning_rate", "eval_loss")}, default=str
    )
    if summaries:
        log.notes.append("'train_loss' of the closing summary was left out: it is one average and not the curve")
    return [log]


def merge(logs: list[Log]) -> list[Log]:
    """One log for each run among the states of many checkpoints: states that begin with the same records are one run."""
    runs: list[list[Log]] = []
    by_first: dict[str, list[list[Log]]] = {}
    for log in sorted(logs, key=lambda log: (-log.points, log.source)):
        same = next((run for run in by_first.get(log.first, []) if _agree(log, run[0], HEAD)), None)
        if same is None:
            same = []
            runs.append(same)
            by_first.setdefault(log.first, []).append(same)
        same.append(log)
    return [_longest(same) for same in runs]


def _longest(same: list[Log]) -> Log:
    longest = same[0]
    odd = sum(not _agree(log, longest) for log in same[1:])
    if len(same) > 1:
        longest.notes.append(f"{len(same)} checkpoints hold this run; the longest history was taken")
    if odd:
        longest.notes.append(f"{odd} of them differ from it after some step: the run was resumed, and the longest is believed")
    return longest


def _agree(short: Log, long: Log, most: int | None = None) -> bool:
    """Whether a history is the beginning of another one, as far as its first `most` records show."""
    for name, track in short.tracks.items():
        other = long.tracks.get(name)
        count = len(track) if most is None else min(most, len(track))
        if other is None or len(other) < count:
            return False
        mine, theirs = track.values[:count], other.values[:count]
        if not bool(((mine == theirs) | ((mine != mine) & (theirs != theirs))).all()):
            return False
    return True
