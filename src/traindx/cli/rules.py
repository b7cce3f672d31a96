"""`traindx rules`"""

from __future__ import annotations

import json
import sys

import rich_click as click
from rich.table import Table

from traindx.cli import options
from traindx.rule import FAMILIES, catalogue, select


@click.command("rules")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
@click.option(
    "--select",
    "chosen",
    multiple=True,
    callback=options._codes,
    metavar="CODE[,…]",
    help="List only these; prefixes such as GRAD work.",
)
def command(format_: str, chosen: tuple[str, ...]) -> int:
    """List all conditions that traindx checks.

    Example:  traindx rules --select GRAD,OPTM
    """
    rules = select(catalogue(), chosen)
    if format_ == "json":
        rows = [
            {
                "code": r.code,
                "name": r.name,
                "family": r.family,
                "summary": r.summary,
                "needs": dict(r.needs),
                "severity": r.severity.value,
                "stable": r.stable,
                "package": r.origin or "traindx",
            }
            for r in rules.values()
        ]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return 0
    screen = options.console()
    foreign = {r.family: f"third-party, from {r.origin}" for r in rules.values() if r.origin}
    for family, meaning in {**FAMILIES, **foreign}.items():
        members = [r for r in rules.values() if r.family == family]
        if not members:
            continue
        table = Table.grid(padding=(0, 2))
        for r in members:
            table.add_row(f"  {r.code}", r.name, r.summary)
        screen.print(f"[bold]{family}[/] [dim]{meaning}[/]")
        screen.print(table)
        screen.print()
    screen.print(f"[dim]{len(rules)} conditions · `traindx explain CODE` shows one.[/]")
    return 0
