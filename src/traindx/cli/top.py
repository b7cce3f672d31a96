"""`traindx top [DIR]`"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import rich_click as click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from traindx.cli import options
from traindx.dashboard.doctor import Doctor
from traindx.dashboard.library import Entry, Library
from traindx.errors import UsageError
from traindx.finding import Severity
from traindx.report.words import COLOUR, STATE_COLOUR, VERDICT_COLOUR, number, safe, sparkline

NARROW = 90  # columns; below, a run takes two lines


@click.command("top")
@click.argument("folder", type=click.Path(path_type=Path), callback=options.runs_folder, required=False, metavar="[DIR]")
@click.option("--every", default=2.0, show_default=True, help="Seconds between updates.")
@click.option("-n", "most", default=20, show_default=True, help="How many runs to show, newest first.")
@click.option("--once", is_flag=True, help="Print once and exit.")
@click.option("--plain", is_flag=True, help="Show the plain table even if textual is installed.")
def command(folder: Path, every: float, most: int, once: bool, plain: bool) -> int:
    """Show each run's state, step, loss, verdict and worst finding in the terminal; stop with Ctrl-C.

    With `pip install traindx[tui]` you can also pick a run and read its findings.

    Example:  traindx top traindx-runs
    """
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}; record a run first: traindx run train.py")
    if every <= 0 or most < 1:
        raise UsageError("--every and -n are greater than zero")
    screen = options.console()
    ascii_only = not options.unicode_ok(screen)
    if once:
        screen.print(frame(Library(folder), most, ascii_only, screen.width))
        return 0
    doctor = Doctor()
    library = Library(folder, doctor)
    try:
        if not plain and not options.colourless() and _can_draw(screen):
            from traindx.cli.top_app import Top

            Top(library, every).run()
        elif screen.is_terminal and not screen.is_dumb_terminal:
            _redraw(screen, library, every, most, ascii_only)
        else:
            _append(screen, library, every, most, ascii_only)
    except KeyboardInterrupt:
        return 0  # how one leaves a live view
    finally:
        doctor.close()
    return 0


def _can_draw(screen: Console) -> bool:
    return screen.is_terminal and not screen.is_dumb_terminal and importlib.util.find_spec("textual") is not None


def _redraw(screen: Console, library: Library, every: float, most: int, ascii_only: bool) -> None:
    with Live(frame(library, most, ascii_only, screen.width), console=screen, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(frame(library, most, ascii_only, screen.width), refresh=True)


def _append(screen: Console, library: Library, every: float, most: int, ascii_only: bool) -> None:
    """A dumb terminal or a pipe: frames one below the other, no cursor tricks."""
    while True:
        screen.print(frame(library, most, ascii_only, screen.width))
        time.sleep(every)


def frame(library: Library, most: int = 20, ascii_only: bool = False, width: int = 120) -> RenderableType:
    """The runs of a folder, newest first: a table, or two lines a run where there is no room for one."""
    entries = library.entries()
    running = sum(e.state == "running" for e in entries)
    dot = "-" if ascii_only else "·"
    left = f" {dot} {len(entries) - most} more, -n shows them" if len(entries) > most else ""
    told = f" {dot} {safe(library.root, 80)} {dot} {len(entries)} runs, {running} running{left}"
    title = Text.assemble(("traindx", "bold"), told)
    rows = [_row(library, entry, ascii_only) for entry in entries[:most]]
    if width < NARROW:
        return Group(title, *(line for row in rows for line in _lines(row)))
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for heading in ("run", "state", "step", "loss", "", "verdict", "finding"):
        wide = heading == "finding"
        table.add_column(
            heading, overflow="ellipsis", no_wrap=not wide, ratio=1 if wide else None, max_width=None if wide else 28
        )
    for row in rows:
        table.add_row(*row)
    return Group(title, Text(), table)


def _lines(row: list[Text]) -> list[Text]:
    name, state, step, curve, loss, verdict, said = row
    first = Text(" ").join([name.copy(), state, Text("step"), step, Text("loss"), loss, verdict])
    name.stylize("bold")
    second = Text("  ").join([curve, said]) if said.plain else curve
    return [Text(), first, *([Text("  ") + second] if second.plain.strip() else [])]


def _row(library: Library, entry: Entry, ascii_only: bool) -> list[Text]:
    run, health = library.run(entry.id), library.health(entry)
    gap = Text("-" if ascii_only else "–")
    state = Text(entry.state, style=STATE_COLOUR.get(entry.state, "dim"))
    if run is None:
        return [Text(safe(entry.name, 40)), state, gap, Text(), gap, Text("cannot-tell"), Text("cannot be read")]
    loss = run.series("loss/train") if len(run.series("loss/train")) else run.series("loss/val")
    last = run.steps[1] if run.steps else entry.step
    said = Text()
    if health and health["finding"] and health["severity"] != "info":
        said = Text.assemble(
            (health["finding"]["code"], COLOUR[Severity(health["severity"])]), f" {safe(health['finding']['message'], 120)}"
        )
    verdict = health["verdict"] if health else "being judged"
    return [
        Text(safe(entry.name, 40)),
        state,
        gap if last is None else Text(str(last)),
        Text(sparkline(loss.values, 20, ascii_only) if len(loss) else ""),
        Text(number(float(loss.values[-1]))) if len(loss) else gap,
        Text(verdict, style=VERDICT_COLOUR.get(verdict, "dim")),
        said,
    ]
