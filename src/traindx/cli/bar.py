"""A progress bar on stderr for anything that takes longer than two seconds; silent in pipes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from traindx.cli import options
from traindx.trial import Progress as Told

PATIENCE_S = 2.0


@contextmanager
def bar(*, quiet: bool = False) -> Iterator[Told]:
    """A function to call with (done, total, what); the bar appears once two seconds have passed."""
    screen = options.console(stderr=True)
    progress = Progress(
        TextColumn("[dim]{task.description}"),
        BarColumn(40),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
        disable=quiet or not screen.is_terminal,
    )
    began = time.monotonic()
    task = progress.add_task("", total=None)
    started = False

    def told(done: int, total: int, what: str) -> None:
        nonlocal started
        if not started and time.monotonic() - began > PATIENCE_S:
            progress.start()
            started = True
        if started:
            progress.update(task, completed=done, total=total, description=what)

    try:
        yield told
    finally:
        if started:
            progress.stop()
