"""Lightning's CSVLogger: metrics.csv.

Rows are sparse: training, validation and learning rate stand on rows of their own, often with the same step twice.
"""

from __future__ import annotations

from traindx.importers import csvlog
from traindx.importers.source import Source
from traindx.importers.table import Log, Options


def can_read(source: Source) -> bool:
    """Whether it is a metrics.csv with Lightning's columns epoch and step."""
    shape = csvlog.shape_for(source) if source.stem.lower().startswith("metrics") else None
    return shape is not None and {"epoch", "step"} <= set(shape.header)


def read(source: Source, options: Options) -> list[Log]:
    """The table."""
    logs = csvlog.read(source, options)
    for log in logs:
        log.kind = "lightning"
    return logs
