"""Ultralytics' results.csv: padded names, three parts of the loss and no total, mAP as the verdict, one row per epoch."""

from __future__ import annotations

from traindx.importers import csvlog
from traindx.importers.aliases import meaning
from traindx.importers.source import Source
from traindx.importers.table import Log, Options


def can_read(source: Source) -> bool:
    """Whether the header has the loss parts of a detector and its mAP."""
    if source.binary:
        return False
    shape = csvlog.shape_for(source)
    if shape is None:
        return False
    names = [n.strip() for n in shape.header]
    parts = [n for n in names if n.startswith("train/") and n.endswith("_loss")]
    return len(parts) >= 2 and any("mAP" in n or n.startswith("metrics/") for n in names)


def read(source: Source, options: Options) -> list[Log]:
    """The table."""
    logs = csvlog.read(source, options)
    for log in logs:
        log.kind = "ultralytics"
        for name in log.tracks:
            if meaning(name).role in ("loss", "part"):
                log.forms[name] = "window-mean"
        log.forms["loss/train"] = "window-mean"
    return logs
