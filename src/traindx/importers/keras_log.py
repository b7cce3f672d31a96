"""Keras: CSVLogger's tables and the history saved as JSON. One row per epoch, losses are means over it."""

from __future__ import annotations

import re

from traindx.importers import csvlog
from traindx.importers.aliases import meaning
from traindx.importers.source import Source
from traindx.importers.table import Log, Options

_NAME = re.compile(r"(val_)?[a-z][a-z0-9_]*")


def can_read(source: Source) -> bool:
    """Whether the header is epoch, losses and metrics, with val_ twins: what Keras writes."""
    if source.binary:
        return False
    shape = csvlog.shape_for(source)
    if shape is None or not shape.named:
        return False
    names = set(shape.header)
    twins = {n for n in names if f"val_{n}" in names}
    steps = any(meaning(n).role in ("step", "log_step", "samples", "tokens") for n in names)
    return "loss" in twins and not steps and all(_NAME.fullmatch(n) for n in names)


def read(source: Source, options: Options) -> list[Log]:
    """The table; rows are epochs even where the log has no epoch column."""
    logs = csvlog.read(source, options)
    for log in logs:
        log.kind = "keras"
        if log.unit == "record":
            log.unit = "epoch"
            log.notes = [n for n in log.notes if "no step or epoch column" not in n]
            log.notes.append("there is no epoch column; rows are counted as epochs, as Keras writes them")
        log.forms["loss"] = "window-mean"
    return logs
