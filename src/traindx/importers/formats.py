"""Every format of single files, in the order in which they are tried: sure marks first, plain text last."""

from __future__ import annotations

from types import ModuleType

from traindx.errors import NothingReadable
from traindx.importers import (
    console,
    csvlog,
    jsondict,
    jsonl,
    jsonlog,
    mlflow,
    neptune,
    notebook,
    tensorboard,
    tidy,
    trackio,
    trainer_state,
    wandb_binary,
    wandb_export,
)
from traindx.importers.source import Source
from traindx.importers.table import Log, Options

MARKED: tuple[ModuleType, ...] = (wandb_binary, trackio, mlflow, neptune, tensorboard)
TEXTUAL: tuple[ModuleType, ...] = (
    trainer_state,
    tidy,
    wandb_export,
    csvlog,
    jsonl,
    jsondict,
    console,
)
LEAST_LINES = 2  # records that make a text file in a folder a log


def read(source: Source, options: Options, *, in_folder: bool = False) -> list[Log]:
    """The logs of one file, by the first format that knows it; NothingReadable says what the file is instead."""
    if not source.head:
        raise NothingReadable(f"{source.name}: is empty")
    for module in MARKED:
        if module.can_read(source):
            return list(module.read(source, options))
    source.refuse_known()
    if source.binary:
        raise NothingReadable(f"{source.name}: is binary and of no format that is known here")
    if source.text_head.startswith("traindx · ") or '"schema": "traindx.report' in source.text_head[:200]:
        raise NothingReadable(f"{source.name}: is a report that traindx wrote; give it the run itself")
    return _textual(source, options, in_folder)


def _textual(source: Source, options: Options, in_folder: bool) -> list[Log]:
    """The first textual format that finds something; a format that only looked right leaves the word to the next."""
    first: NothingReadable | None = None
    json = jsonlog.first_value(source.text_head) in ("{", "[")
    for module in (notebook, trainer_state, jsonl, jsondict, console) if json else TEXTUAL:
        if not module.can_read(source):
            continue
        try:
            logs: list[Log] = module.read(source, options)
        except NothingReadable as why:
            first = first or why
            if module is notebook or (module in (trainer_state, csvlog) and not source.stem.endswith((".log", ".txt", ".out"))):
                break
            continue
        if not logs:
            continue
        if in_folder and module is console and sum(log.points for log in logs) < LEAST_LINES:
            break
        return logs
    raise first or NothingReadable(f"{source.name}: no training log was recognised in it")
