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
from traindx.record import known
from traindx.record.listing import Record, list_records
from traindx.report.words import safe


@click.command("ls")
@click.argument("folder", required=False, type=click.Path(path_type=Path), callback=options.runs_folder, metavar="[DIR]")
@click.option("--everywhere", is_flag=True, help="All folders that you have recorded into on this machine.")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
def command(folder: Path, everywhere: bool, format_: str) -> int:
    """List the recorded runs of a folder, newest first. `@last`, `@2` … name them in other commands.

    With --everywhere the runs of all your folders on this machine are listed with their paths.

    Example:  traindx ls        then        traindx diagnose @last
    """
    found = [r for home in (known.folders() if everywhere else [folder]) if home.is_dir() for r in list_records(home)]
    found.sort(key=lambda r: -(r.updated or r.created or 0.0))
    if format_ == "json":
        rows = [
            {"run": str(r.path), "name": r.name, "state": r.ended, "step": r.last_step, "bytes": size(r.path)} for r in found
        ]
        click.echo(json.dumps({"schema": "traindx.ls/1", "runs": rows}, indent=2))
        return 0
    if not found:
        where = "no folder that you recorded into is still there" if everywhere else f"{folder}: no recorded run here"
        raise NothingReadable(f"{where}; `traindx run train.py` makes one")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("", "run", "state", "step", "last seen", "size"):
        table.add_column(heading, no_wrap=True)
    for place, r in enumerate(found, 1):
        seen = time.strftime("%Y-%m-%d %H:%M", time.localtime(r.updated)) if r.updated else "–"
        name = ("", str(r.path)) if everywhere else (f"@{place}", safe(r.path.name, 60))
        cells = (*name, safe(r.trouble or r.ended, 40), _step(r), seen, megabytes(size(r.path)))
        table.add_row(*map(Text, cells))
    options.console().print(table)
    return 0


def _step(r: Record) -> str:
    return f"{r.last_step:,}" if r.last_step is not None else "–"


def size(path: Path) -> int:
    """Bytes of a record; links are not followed."""
    return sum(p.lstat().st_size for p in path.rglob("*") if p.is_file() and not p.is_symlink())


def megabytes(count: int) -> str:
    """Bytes as a person reads them."""
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
