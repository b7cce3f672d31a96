"""Two runs side by side, as a page for a terminal and for a notebook."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from traindx.diagnosis.compare import Comparison, Separation
from traindx.diagnosis.effects import Effect
from traindx.report.words import number, safe, span


def plain(c: Comparison, width: int = 100) -> str:
    """The page without colours."""
    out = io.StringIO()
    page(c, (), Console(file=out, width=width, no_color=True, highlight=False))
    return out.getvalue().rstrip()


def page(c: Comparison, paths: Sequence[object], screen: Console) -> None:
    """The comparison on a console; `paths` are those of A … and B."""
    style = {"worse": "bold red", "better": "bold green"}.get(c.outcome, "bold")
    for path in paths[:-1]:
        screen.print(f"A {safe(path)}", markup=False)
    if paths:
        screen.print(f"B {safe(paths[-1])}\n", markup=False)
    screen.print(safe(c.summary), style=style, markup=False)
    if c.same_start is not None:
        screen.print(
            "Same first loss to the bit: same initial weights and data."
            if c.same_start
            else "The first losses differ: other weights or data from the start."
        )
    first = c.first
    if first and first.beyond_noise is not None:
        place = f"{first.signal}{' of ' + safe(first.where) if first.where else ''}"
        screen.print(f"They differ from {span((first.beyond_noise, first.beyond_noise))} on in {place}.", markup=False)
    for title, table in (("Configuration", c.configuration), ("Data", c.data), ("Code and environment", c.environment)):
        if table:
            grid = Table.grid(padding=(0, 2))
            for key, (one, two) in table.items():
                grid.add_row(f"  {key}", safe(one, 40), "→", safe(two, 40))
            screen.print(f"\n[bold]{title}[/]")
            screen.print(grid)
    if c.code:
        screen.print("\n[bold]Code[/]")
    for file, told in c.code.items():
        screen.print(Text(f"  {safe(file, 80)}" + ("\n" if "\n" in told else ": ") + safe(told, 4000, lines=True)))
    _rows(screen, "How it ends", [(e.signal, number(e.a), "→", number(e.b), _change(e), e.outcome) for e in c.effects])
    judged = {e.signal for e in c.effects}
    parted = [
        s for s in c.separations if s.first_difference is not None and (s.signal not in judged or s.beyond_noise is not None)
    ]
    _rows(screen, "Where they part", [(s.signal, safe(s.where, 40), _onset(s), f"{s.change:+.1%}") for s in parted[:12]])
    for warning in c.warnings:
        screen.print(f"\n[yellow]{escape(safe(warning))}[/]")


def _rows(screen: Console, title: str, rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    grid = Table.grid(padding=(0, 2))
    for first, *rest in rows:
        grid.add_row(*(Text(t) for t in (f"  {first}", *rest)))
    screen.print(f"\n[bold]{title}[/]")
    screen.print(grid)


def _change(e: Effect) -> str:
    if not math.isfinite(e.change):
        return ""
    return f"{e.change:+.1%}" + (f" ({e.low:+.1%} to {e.high:+.1%})" if math.isfinite(e.high) else "")


def _onset(s: Separation) -> str:
    if s.beyond_noise is not None:
        return f"from {span((s.beyond_noise, s.beyond_noise))}"
    return "within noise" if s.z is not None else "too few points to say from where"
