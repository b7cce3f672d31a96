"""`traindx note RUN [TEXT]`"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import rich_click as click
from rich.markup import escape

from traindx.cli import options
from traindx.errors import UsageError
from traindx.plain import say
from traindx.record import diary
from traindx.report.words import safe


@click.command("note")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path), callback=options.spoken)
@click.argument("text", metavar="[TEXT]", required=False, default="")
@click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True)
def command(run: Path, text: str, format_: str) -> int:
    """Add a note to a run, or without TEXT list what was tried, concluded and noted so far.

    Notes are kept next to the run and shown in its report; the run itself is not changed.

    Example:  traindx note traindx-runs/monday "halved the batch, same plateau"
    """
    if not run.exists():
        raise UsageError(f"there is no run {run}")
    if text.strip():
        place = diary.write(run, "note", text=text.strip())
        say(f"noted in {place}")
        return 0
    found = diary.entries(run)
    if format_ == "json":
        sys.stdout.write(json.dumps({"schema": "traindx.diary/1", "entries": found}, indent=2) + "\n")
        return 0
    screen = options.console()
    if not found:
        screen.print("Nothing was noted yet.", style="dim")
    for entry in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry["time"]))
        screen.print(f"[dim]{when}[/]  {escape(safe(diary.told(entry)))}", highlight=False)
    return 0
