"""What the W&B website and its API export: history tables, one panel's table, and the summary of a run."""

from __future__ import annotations

import re

from traindx.importers import axis, csvlog
from traindx.importers.jsondict import tag_of_name
from traindx.importers.source import Source
from traindx.importers.table import Log, Options, Rows

_PANEL = re.compile(r"^(?P<run>.+) - (?P<metric>.+?)(?P<bound>__(MIN|MAX))?$")


def can_read(source: Source) -> bool:
    """Whether the header is W&B's: _step or _timestamp, or "run - metric" columns; or TensorBoard's Wall time, Step, Value."""
    if source.binary:
        return False
    shape = csvlog.shape_for(source)
    if shape is None:
        return False
    names = [n.strip().strip('"') for n in shape.header]
    panels = [n for n in names if _PANEL.match(n)]
    return "_step" in names or "_timestamp" in names or _downloaded(names) or (len(names) > 1 and len(panels) >= len(names) - 1)


def _downloaded(names: list[str]) -> bool:
    return [n.lower() for n in names] == ["wall time", "step", "value"]


def read(source: Source, options: Options) -> list[Log]:
    """The table of a history; of a panel one run for each run it shows."""
    rows, shape, notes = csvlog.table(source, options)
    names = [n.strip().strip('"') for n in shape.header]
    if _downloaded(names):
        return [_tag(rows, source, notes)]
    panels = {n: m for n in names if (m := _PANEL.match(n))}
    if panels and "_step" not in names and "_timestamp" not in names:
        logs = _panel(rows, source, panels)
    else:
        logs = axis.logs_of(rows, "wandb", source.name)
    for log in logs:
        log.kind = "wandb"
        log.notes.extend(notes)
    return logs


def _tag(rows: Rows, source: Source, notes: list[str]) -> Log:
    tag = tag_of_name(source.stem)
    columns = {tag if n.lower() == "value" else n: c for n, c in rows.columns().items()}
    log = axis.log_of(columns, rows.count, "tensorboard", source.name)
    log.notes = [*notes, f"one tag of TensorBoard; by the file's name it is '{tag}'"]
    return log


def _panel(rows: Rows, source: Source, panels: dict[str, re.Match[str]]) -> list[Log]:
    columns = rows.columns()
    runs: dict[str, dict[str, str]] = {}
    for name, found in panels.items():
        if name in columns and not found["bound"] and found["metric"] not in ("_step", "_runtime", "_timestamp"):
            runs.setdefault(found["run"], {})[name] = found["metric"]
    axis_names = [n for n in columns if n not in panels]
    out = []
    for run, metrics in runs.items():
        part = {**{n: columns[n] for n in axis_names}, **{metric: columns[n] for n, metric in metrics.items()}}
        out.append(axis.log_of(part, rows.count, "wandb", f"{source.name}#{run}"))
    return out
