"""`traindx ls [DIR]`"""

from __future__ import annotations

import json
import time
from pathlib import Path

import rich_click as click
from rich.table import Table
from rich.text import Text

from traindx.cli import options
from traindx.errors import NothingReadable
from traindx.record.listing import Record, list_records
from traindx.report.words import safe


@click.command("ls")
@click.argument("folder", required=False, type=click.Path(path_type=Path), callback=options.runs_folder, metavar="[DIR]")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
@click.option("--no-color", is_flag=True, help="No colours (also: NO_COLOR).")
@click.option("--debug", is_flag=True, hidden=True)
def command(folder: Path, format_: str, no_color: bool, debug: bool) -> int:
    """List the recorded runs of a folder, newest first. `@last`, `@2` … name them in other commands.

    Example:  traindx ls        then        traindx diagnose @last
    """
    found = list_records(folder) if folder.is_dir() else []
    if format_ == "json":
        rows = [
            {"run": str(r.path), "name": r.name, "state": r.ended, "step": r.last_step, "bytes": size(r.path)} for r in found
        ]
        click.echo(json.dumps({"schema": "traindx.ls/1", "runs": rows}, indent=2))
        return 0
    if not found:
        raise NothingReadable(f"{folder}: no recorded run here; `traindx run train.py` makes one")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "run", "state", "step", "last seen", "size"):
        table.add_column(heading, no_wrap=True)
    for place, r in enumerate(found, 1):
        seen = time.strftime("%Y-%m-%d %H:%M", time.localtime(r.updated)) if r.updated else "–"
        cells = (f"@{place}", safe(r.path.name, 60), safe(r.trouble or r.ended, 40), _step(r), seen, megabytes(size(r.path)))
        table.add_row(*map(Text, cells))
    options.console(no_color=no_color).print(table)
    return 0


def _step(r: Record) -> str:
    return f"{r.last_step:,}" if r.last_step is not None else "–"


def size(path: Path) -> int:
    """Bytes of a record; links are not followed."""
    return sum(p.lstat().st_size for p in path.rglob("*") if p.is_file() and not p.is_symlink())


def megabytes(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e6:.1f} MB"
