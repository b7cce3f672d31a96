"""JSON lines: one object per line, perhaps between other lines. Also the logs of detectron2, MMDetection, fairseq and MAE."""

from __future__ import annotations

import re
from typing import Any

from traindx.errors import NothingReadable
from traindx.importers import axis, hparams, jsonlog
from traindx.importers.aliases import meaning
from traindx.importers.source import Lines, Source
from traindx.importers.table import Log, Options, Rows

_EMBEDDED = re.compile(r"\{\s*\"[^{}]{2,20000}\}")


def can_read(source: Source) -> bool:
    """Whether at least two of the first lines are JSON objects, or hold one that is a record among other words."""
    if source.binary or "{" not in source.text_head:
        return False
    lines = [line for line in source.text_head.splitlines()[:200] if line.strip()]
    found = [o for line in lines if (o := _object(line)) is not None and (line.lstrip()[0] in "{\ufeff" or _has_data(o))]
    if len(found) >= 2:
        return True
    # one line is a file of lines only when it is a flat record with a step of its own
    return len(found) == 1 and len(lines) <= 2 and "log_history" not in found[0] and _flat(found[0])


def _flat(record: dict[str, Any]) -> bool:
    return "_wandb" not in record and _has_data(record) and not any(isinstance(v, list | dict) for v in record.values())


def _object(line: str) -> dict[str, Any] | None:
    text = line.strip().rstrip(",")
    if text.startswith("{") and text.endswith("}") and text.count("{") < jsonlog.MAX_NESTING:
        value = jsonlog.loads(text)
        return value if isinstance(value, dict) and value else None
    inside = _EMBEDDED.search(text) if len(text) < 20_000 and not text.startswith("[") else None
    value = jsonlog.loads(inside[0]) if inside else None
    return value if isinstance(value, dict) and value else None


def read(source: Source, options: Options) -> list[Log]:
    """The objects of a file of JSON lines; lines that hold none are counted."""
    lines = Lines(source)
    rows = Rows(options.axes)
    broken = other = 0
    config: dict[str, Any] = {}
    for line in lines:
        if not line.strip():
            continue
        found = _object(line)
        if found is None:
            started = line.lstrip().startswith("{")
            broken, other = broken + started, other + (not started)
            continue
        if rows.count == 0 and not config and not _has_data(found):
            config = found  # MMDetection writes its environment first
            continue
        rows.add(_split(found, line))
    if not rows.columns():
        raise NothingReadable(f"{source.name}: its JSON lines hold no numbers")
    logs = axis.logs_of(rows, _kind(rows), source.name)
    for log in logs:
        _tell(log, lines, broken, other)
        log.hparams = hparams.collect(config)
        if log.kind == "detectron2":
            log.forms["loss/train"] = "window-mean"  # a median over the last 20 iterations
    return logs


def _split(found: dict[str, Any], line: str) -> dict[str, Any]:
    """The record; its mode or the words before it say whether it is an evaluation."""
    mode = found.get("mode") or found.get("phase") or found.get("split")
    word = mode if isinstance(mode, str) else ""
    if not word and not line.lstrip().startswith("{"):
        told = re.search(r"\b(train|train_inner|valid|val|test|eval)\b", line[: line.index("{")])
        word = told[1].replace("train_inner", "train") if told else ""
    if word.lower() not in ("val", "valid", "validation", "eval", "test", "dev"):
        return found
    # an axis keeps its name, everything else belongs to the split, also a step: it may count the batches of the evaluation
    return {
        k if meaning(k).role in ("epoch", "samples", "tokens", "clock") or meaning(k).split else f"{word.lower()}/{k}": v
        for k, v in found.items()
    }


def _has_data(record: dict[str, Any]) -> bool:
    return any(meaning(str(k)).role in ("loss", "part", "perplexity", "accuracy", "step", "epoch", "grad_norm") for k in record)


def _kind(rows: Rows) -> str:
    names = set(rows.columns())
    return "detectron2" if {"iteration", "total_loss"} <= names else "jsonl"


def _tell(log: Log, lines: Lines, broken: int, other: int) -> None:
    if broken:
        log.damage(f"{broken} lines that began as JSON but are cut or broken were skipped")
    if other:
        log.notes.append(f"{other} lines that are not JSON were ignored")
    if lines.cut:
        log.damage(f"{lines.cut} lines of more than {lines.longest >> 20} MB were skipped")
