"""A progress bar on stderr for anything that takes longer than two seconds; silent in pipes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from traindx.cli import options

PATIENCE_S = 2.0


class Bar:
    """To be called with (done, total, what); the bar appears once two seconds have passed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._began = time.monotonic()
        self._started = False

    def __call__(self, done: int, total: int, what: str) -> None:
        if not self._started and time.monotonic() - self._began > PATIENCE_S:
            self._progress.start()
            self._started = True
        if self._started:
            self._progress.update(self._task, completed=done, total=total, description=what)

    def rest(self) -> None:
        """Away with it until there is something new to tell: somebody else wants to write."""
        if self._started:
            self._progress.stop()
            self._started = False


@contextmanager
def bar(*, quiet: bool = False) -> Iterator[Bar]:
    """The bar of a verb."""
    screen = options.console(stderr=True)
    progress = Progress(
        TextColumn("[dim]{task.description}"),
        BarColumn(40),
        TimeElapsedColumn(),
        console=screen,
        transient=True,
        disable=quiet or not screen.is_terminal,
    )
    shown = Bar(progress)
    try:
        yield shown
    finally:
        shown.rest()
