"""Many runs as a table with one paragraph below it: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from traindx.diagnosis.common import Sweep
from traindx.errors import UsageError
from traindx.report.json import plain
from traindx.report.markdown import escaped
from traindx.report.words import VERDICT_COLOUR, safe

MOST_SETTINGS = 5  # columns of the terminal's table
MOST_ROWS = 200  # lines there
WIDEST = 40  # characters of a cell there
LEAST_HEADLINE = 16


def rows(s: Sweep, most: int | None = None) -> tuple[list[str], list[list[str]]]:
    """Headings and a line for each run."""
    keys = list(dict.fromkeys(k for one in s.settings for k in one))[:most]
    head = ["run", *([f"best {s.metric}", "last"] if s.metric else []), *keys, "verdict", "headline"]
    lines = []
    for i, r in enumerate(s.rows):
        measured = [_number(s.best[i]), _number(s.last[i])] if s.metric else []
        own = [_value(s.settings[i].get(k, "")) for k in keys]
        lines.append([s.names[i], *measured, *own, r.verdict, "" if r.verdict == "healthy" else r.headline])
    return head, [[safe(cell, 160) for cell in line] for line in lines]


def table(s: Sweep, width: int) -> RenderableType:
    """For a rich console: settings that do not fit are left to --format csv, and the headline gets what is left."""
    every = len({k for one in s.settings for k in one})
    for most in range(min(every, MOST_SETTINGS), -1, -1):
        head, lines = rows(s, most)
        shown = [[safe(cell, WIDEST) for cell in line[:-1]] for line in (head, *lines)]
        widths = [max(map(len, column)) for column in zip(*shown)]
        left = width - sum(widths) - 2 * len(widths)
        if left >= LEAST_HEADLINE:
            break
    if left < LEAST_HEADLINE:  # names keep their end, which tells runs apart, and headings give way to what stands below
        shown = [shown[0], *([_end(name), *line] for name, *line in shown[1:])]
        widths = [max(map(len, column)) for column in zip(*shown[1:])]
        left = width - sum(widths) - 2 * len(widths)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for heading, size in zip(head, [*widths, max(left, LEAST_HEADLINE)]):
        grid.add_column(safe(heading, WIDEST), no_wrap=True, overflow="ellipsis", width=size)
    for (*cells, verdict), line in zip(shown[1 : MOST_ROWS + 1], lines):
        grid.add_row(*map(Text, cells), Text(verdict, style=VERDICT_COLOUR.get(verdict, "")), Text(line[-1]))
    hidden = "1 more setting differs" if every - most == 1 else f"{every - most} more settings differ"
    more = [Text(f"\n{hidden}: --format csv shows all.", style="dim")] if most < every else []
    if len(lines) > MOST_ROWS:
        more.append(
            Text(f"\n{len(lines) - MOST_ROWS} more runs: --format csv lists all, --sort changes the order.", style="dim")
        )
    return Group(grid, *more, *(Text(f"\n{safe(line, 400)}") for line in s.sentences()))


def _end(name: str, most: int = 22) -> str:
    return name if len(name) <= most else "…" + name[1 - most :]


def plain_text(s: Sweep, width: int = 120) -> str:
    """The table without colours."""
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, highlight=False).print(table(s, width))
    return out.getvalue().rstrip()


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
    """What stands next to the reports of the runs in JSON."""
    runs = [
        {"run": r.source, "name": s.names[i], "best": s.best[i], "last": s.last[i], "settings": s.settings[i]}
        for i, r in enumerate(s.rows)
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
    if by not in (there := list(dict.fromkeys(k for one in s.settings for k in one))):
        raise UsageError(
            f"--sort takes verdict, metric, name or a setting that differs, not '{by}'; those are {', '.join(there)}"
        )
    return sorted(places, key=lambda i: ((v := s.settings[i].get(by)) is None, isinstance(v, str), v if v is not None else 0))
