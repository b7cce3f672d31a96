"""`traindx compare A B`"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import rich_click as click

from traindx import api
from traindx.cli import options
from traindx.diagnosis.compare import Comparison, compare
from traindx.diagnosis.effects import MARGIN
from traindx.errors import UsageError
from traindx.report.comparison import page
from traindx.report.json import plain
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
def command(
    runs: tuple[Path, ...],
    baseline: tuple[Path, ...],
    tolerance: float,
    format_: str,
    fail_on: str,
    strict: bool,
) -> int:
    """Show what differs between runs, and from which step on. Exit 1 when B is worse, slower or larger beyond noise.

    With too few evaluations to measure the noise, 10 % (or --tolerance, if larger) is taken for it.

    Example:  traindx compare traindx-runs/monday traindx-runs/tuesday
    """
    paths = [*baseline, *runs]
    if len(paths) < 2:
        raise UsageError("compare takes two runs, or several baselines and a run; got one")
    if not 0 <= tolerance < 1:
        raise UsageError(f"--tolerance is a share between 0 and 1, not {tolerance}")
    *before, b = (_one(p) for p in paths)
    result = compare(before, b, tolerance=tolerance)
    margin = max(tolerance, MARGIN)
    code = exit_code(result, fail_on, margin, strict=strict)
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
        screen = options.console()
        page(result, paths, screen)
        if result.outcome == "cannot-tell" and code == 1:
            screen.print(
                f"\nExit code 1: worse by more than {margin:.0%}, although nobody can tell; --fail-on never lets it pass."
            )
    return code


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
