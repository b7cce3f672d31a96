"""`traindx top [DIR]`"""

from __future__ import annotations

import time
from pathlib import Path

import rich_click as click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from traindx.cli import options
from traindx.dashboard.library import Entry, Library
from traindx.errors import UsageError
from traindx.finding import Severity
from traindx.report.words import COLOUR, VERDICT_COLOUR, number, safe, sparkline

STATE = {"running": "green", "killed": "red", "exception": "red"}


@click.command("top")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("traindx-runs"), metavar="[DIR]")
@click.option("--every", default=2.0, show_default=True, help="Seconds between two looks.")
@click.option("-n", "most", default=20, show_default=True, help="How many runs to show, newest first.")
@click.option("--once", is_flag=True, help="Print one frame and leave.")
@click.option("--no-color", is_flag=True)
@click.option("--debug", is_flag=True, hidden=True)
def command(folder: Path, every: float, most: int, once: bool, no_color: bool, debug: bool) -> int:
    """Live view in the terminal: each run's state, step, loss, verdict and worst finding; Ctrl-C leaves.

    Example:  traindx top traindx-runs
    """
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}; record a run first: traindx run train.py")
    if every <= 0 or most < 1:
        raise UsageError("--every and -n are greater than zero")
    screen = options.console(no_color=no_color)
    library, plain = Library(folder), not options.unicode_ok(screen)
    if once:
        screen.print(frame(library, most, plain))
        return 0
    try:
        with Live(frame(library, most, plain), console=screen, screen=screen.is_terminal, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(frame(library, most, plain), refresh=True)
    except KeyboardInterrupt:
        return 0  # how one leaves a live view


def frame(library: Library, most: int = 20, ascii_only: bool = False) -> RenderableType:
    """The runs of a folder as a table, newest first."""
    entries = library.entries()
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for heading in ("run", "state", "step", "loss", "", "verdict", "finding"):
        wide = heading == "finding"
        table.add_column(
            heading, overflow="ellipsis", no_wrap=not wide, ratio=1 if wide else None, max_width=None if wide else 28
        )
    for entry in entries[:most]:
        table.add_row(*_row(library, entry, ascii_only))
    running = sum(e.state == "running" for e in entries)
    left = f" · {len(entries) - most} more, -n shows them" if len(entries) > most else ""
    title = Text.assemble(("traindx", "bold"), f" · {safe(library.root, 80)} · {len(entries)} runs, {running} running{left}")
    return Group(title, Text(), table)


def _row(library: Library, entry: Entry, ascii_only: bool) -> list[str | Text]:
    run, diagnosis = library.run(entry.id), library.diagnosis(entry.id)
    state = Text(entry.state, style=STATE.get(entry.state, "dim"))
    if run is None or diagnosis is None:
        return [Text(safe(entry.name, 40)), state, "–", "", "", "cannot-tell", "cannot be read"]
    loss = run.series("loss/train") if len(run.series("loss/train")) else run.series("loss/val")
    last = run.steps[1] if run.steps else entry.step
    worst = diagnosis.stories[0].root if diagnosis.stories else None
    said = Text()
    if worst is not None and worst.severity > Severity.INFO:
        said = Text.assemble((worst.code, COLOUR[worst.severity]), f" {safe(worst.message, 120)}")
    return [
        Text(safe(entry.name, 40)),
        state,
        "–" if last is None else str(last),
        Text(sparkline(loss.values, 20, ascii_only) if len(loss) else ""),
        number(float(loss.values[-1])) if len(loss) else "–",
        Text(diagnosis.verdict, style=VERDICT_COLOUR.get(diagnosis.verdict, "")),
        said,
    ]
