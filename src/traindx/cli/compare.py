"""`traindx compare A B`"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path

import rich_click as click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from traindx import api
from traindx.cli import options
from traindx.diagnosis.compare import Comparison, Separation, compare
from traindx.diagnosis.effects import MARGIN, Effect
from traindx.errors import UsageError
from traindx.report.json import plain
from traindx.report.words import number, safe
from traindx.run import Run


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="A… B")
@click.option(
    "--baseline",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Compare with this run; several make a band: traindx compare --baseline A1 --baseline A2 B.",
)
@click.option("--tolerance", type=float, default=0.0, show_default=True, help="Relative change that still counts as no change.")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
@click.option("--fail-on", type=click.Choice(("worse", "different", "never")), default="worse", show_default=True)
@click.option("--strict", is_flag=True, help="Exit 4 when the evidence does not decide.")
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@click.option("--debug", is_flag=True, hidden=True)
def command(
    runs: tuple[Path, ...],
    baseline: tuple[Path, ...],
    tolerance: float,
    format_: str,
    fail_on: str,
    strict: bool,
    no_color: bool,
    debug: bool,
) -> int:
    """What differs between runs, and from which step on; exit 1 when B is worse than A, slower or larger beyond noise.

    With too few evaluations it cannot tell: exit 1 when B is worse by more than 10 % (or --tolerance, if larger).

    Example:  traindx compare traindx-runs/monday traindx-runs/tuesday
    """
    paths = [*baseline, *runs]
    if len(paths) < 2:
        raise UsageError("compare takes two runs, or several baselines and a run; got one")
    if not 0 <= tolerance < 1:
        raise UsageError(f"--tolerance is a share between 0 and 1, not {tolerance}")
    *before, b = (_one(p) for p in paths)
    result = compare(before, b, tolerance=tolerance)
    if format_ == "json":
        said = plain(dataclasses.asdict(result))
        document = {
            "schema": "traindx.compare/1",
            "a": before[0].source,
            "baselines": [r.source for r in before],
            "b": b.source,
            **said,
        }
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _page(result, paths, no_color)
    return exit_code(result, fail_on, max(tolerance, MARGIN), strict=strict)


def exit_code(c: Comparison, fail_on: str, margin: float, *, strict: bool) -> int:
    """1 for a run that is worse, or that may be and ends worse by more than the margin; 4 where strictness wants an answer."""
    bad = {"worse": ("worse",), "different": ("worse", "different", "better"), "never": ()}[fail_on]
    undecided = c.outcome == "cannot-tell"
    if c.outcome in bad or (undecided and fail_on != "never" and c.worse_by is not None and c.worse_by > margin):
        return 1
    return 4 if undecided and strict else 0


def _one(path: Path) -> Run:
    runs = api.load(path)
    if len(runs) != 1:
        raise UsageError(f"{path} holds {len(runs)} runs; name one of them")
    return runs[0]


def _page(c: Comparison, paths: list[Path], no_color: bool) -> None:
    screen = options.console(no_color=no_color)
    style = {"worse": "bold red", "better": "bold green"}.get(c.outcome, "bold")
    for path in paths[:-1]:
        screen.print(f"A {safe(path)}", markup=False)
    screen.print(f"B {safe(paths[-1])}\n", markup=False)
    screen.print(safe(c.summary), style=style, markup=False)
    if c.same_start is not None:
        screen.print(
            "Same first loss to the bit: same initial weights and data."
            if c.same_start
            else "The first losses differ: other weights or data from the start."
        )
    first = c.first
    if first:
        screen.print(
            f"They part at step {first.beyond_noise} in {first.signal}{' of ' + safe(first.where) if first.where else ''}.",
            markup=False,
        )
    for title, table in (("Configuration", c.configuration), ("Data", c.data), ("Code and environment", c.environment)):
        if table:
            grid = Table.grid(padding=(0, 2))
            for key, (one, two) in table.items():
                grid.add_row(f"  {key}", safe(one, 40), "→", safe(two, 40))
            screen.print(f"\n[bold]{title}[/]")
            screen.print(grid)
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
        return f"from step {s.beyond_noise}"
    return "within noise" if s.z is not None else "too few to tell"
