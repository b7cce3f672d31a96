"""`traindx compare A B`"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import rich_click as click
from rich.table import Table

from traindx import api
from traindx.cli import options
from traindx.diagnosis.compare import Comparison, compare
from traindx.errors import UsageError
from traindx.report.json import plain
from traindx.report.words import number, safe
from traindx.run import Run


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="A B")
@click.option("--baseline", type=click.Path(path_type=Path), help="Compare RUN with this one: traindx compare --baseline A B.")
@click.option("--tolerance", type=float, default=0.0, show_default=True, help="Relative change that still counts as none.")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
@click.option("--fail-on", type=click.Choice(("worse", "different", "never")), default="worse", show_default=True)
@click.option("--no-color", is_flag=True)
@click.option("--debug", is_flag=True, hidden=True)
def command(
    runs: tuple[Path, ...], baseline: Path | None, tolerance: float, format_: str, fail_on: str, no_color: bool, debug: bool
) -> int:
    """What differs between two runs, and from which step on; exit 1 when B is worse than A beyond noise.

    Example:  traindx compare traindx-runs/monday traindx-runs/tuesday
    """
    pair = [*([baseline] if baseline else []), *runs]
    if len(pair) != 2:
        raise UsageError(f"compare takes two runs; got {len(pair)}")
    if not 0 <= tolerance < 1:
        raise UsageError(f"--tolerance is a share between 0 and 1, not {tolerance}")
    a, b = (_one(p) for p in pair)
    result = compare(a, b, tolerance=tolerance)
    if format_ == "json":
        document = {"schema": "traindx.compare/1", "a": a.source, "b": b.source, **plain(dataclasses.asdict(result))}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _page(result, pair, no_color)
    bad = {"worse": ("worse",), "different": ("worse", "different", "better"), "never": ()}[fail_on]
    return int(result.outcome in bad)


def _one(path: Path) -> Run:
    runs = api.load(path)
    if len(runs) != 1:
        raise UsageError(f"{path} holds {len(runs)} runs; name one of them")
    return runs[0]


def _page(c: Comparison, pair: list[Path], no_color: bool) -> None:
    screen = options.console(no_color=no_color)
    style = {"worse": "bold red", "better": "bold green"}.get(c.outcome, "bold")
    screen.print(f"A {safe(pair[0])}\nB {safe(pair[1])}\n")
    screen.print(f"B is [{style}]{c.outcome}[/]" + (f" by {c.judged_by}" if c.judged_by else ""))
    if c.same_start is not None:
        screen.print(
            "Same first loss to the bit: same initial weights and data."
            if c.same_start
            else "The first losses differ: other weights or data from the start."
        )
    first = c.first
    if first:
        screen.print(
            f"They part at step {first.beyond_noise} in {first.signal}{' of ' + safe(first.where) if first.where else ''}."
        )
    for title, table in (("Configuration", c.configuration), ("Data", c.data), ("Code and environment", c.environment)):
        if table:
            grid = Table.grid(padding=(0, 2))
            for key, (one, two) in table.items():
                grid.add_row(f"  {key}", safe(one, 40), "→", safe(two, 40))
            screen.print(f"\n[bold]{title}[/]")
            screen.print(grid)
    grid = Table.grid(padding=(0, 2))
    for s in [s for s in c.separations if s.first_difference is not None][:12]:
        onset = f"from step {s.beyond_noise}" if s.beyond_noise is not None else "within noise"
        grid.add_row(f"  {s.signal}", safe(s.where, 40), onset, f"{s.change:+.1%}", f"z {number(s.z)}")
    if grid.row_count:
        screen.print("\n[bold]Signals[/]")
        screen.print(grid)
    for warning in c.warnings:
        screen.print(f"\n[yellow]{safe(warning)}[/]")
