"""Many runs as a table with one paragraph below it: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from traindx.diagnosis.common import Sweep
from traindx.report.json import plain
from traindx.report.markdown import escaped
from traindx.report.words import VERDICT_COLOUR, safe

MOST_SETTINGS = 5  # columns of the terminal's table


def rows(s: Sweep, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Headings and a line for each run."""
    keys = list(dict.fromkeys(k for one in s.settings for k in one))[:most]
    head = ["run", *([f"best {s.metric}", "last"] if s.metric else []), *keys, "verdict", "headline"]
    lines = []
    for i, d in enumerate(s.diagnoses):
        measured = [_number(s.best[i]), _number(s.last[i])] if s.metric else []
        own = [_value(s.settings[i].get(k, "")) for k in keys]
        lines.append([s.names[i], *measured, *own, d.verdict, d.verdict_.headline or d.summary])
    return head, [[safe(cell, 160) for cell in line] for line in lines]


def table(s: Sweep) -> RenderableType:
    """For a rich console."""
    head, lines = rows(s, MOST_SETTINGS)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading in head:
        grid.add_column(safe(heading, 40), no_wrap=True, overflow="ellipsis", ratio=1 if heading == "headline" else None)
    for line in lines:
        *cells, verdict, headline = line
        grid.add_row(*(Text(c) for c in cells), Text(verdict, style=VERDICT_COLOUR.get(verdict, "")), Text(headline))
    return Group(grid, *(Text(f"\n{safe(line, 400)}") for line in s.sentences()))


def markdown(s: Sweep) -> str:
    """A table and the paragraph."""
    head, lines = rows(s)
    grid = [f"| {' | '.join(escaped(c) for c in line)} |" for line in (head, *lines)]
    grid.insert(1, "|" + "---|" * len(head))
    return "\n".join([*grid, "", *(escaped(line) for line in s.sentences())])


def as_csv(s: Sweep) -> str:
    """The table alone."""
    out = io.StringIO()
    head, lines = rows(s)
    csv.writer(out).writerows([head, *lines])
    return out.getvalue().rstrip("\r\n")


def document(s: Sweep) -> dict[str, Any]:
    """What stands beside the reports of the runs in JSON."""
    runs = [
        {"run": d.run.source, "name": s.names[i], "best": s.best[i], "last": s.last[i], "settings": s.settings[i]}
        for i, d in enumerate(s.diagnoses)
    ]
    causes = [asdict(c) for c in s.causes]
    found: dict[str, Any] = plain({"metric": s.metric, "runs": runs, "causes": causes, "sentences": s.sentences()})
    return found


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "–"


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def ordered(s: Sweep, by: str) -> Sequence[int]:
    """The runs in the order of a column: `verdict` (worst first), `metric`, `name`, or a setting."""
    places = range(len(s.names))
    if by == "metric":
        worst = -math.inf if s.rises else math.inf
        return sorted(places, key=lambda i: s.best[i] if math.isfinite(s.best[i]) else worst, reverse=s.rises)
    if by == "name":
        return sorted(places, key=lambda i: s.names[i])
    if by == "verdict":
        return places
    return sorted(places, key=lambda i: ((v := s.settings[i].get(by)) is None, isinstance(v, str), v if v is not None else 0))
