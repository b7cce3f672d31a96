"""Processes that a script spawns for its ranks (`torch.multiprocessing.spawn`): each observes itself, into one record."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx.probes.launch import Ended
from traindx.settings import Settings


@dataclass(frozen=True)
class Observed:
    """A function for a spawned process, with observation around it; pickled by its names, like the function itself."""

    function: Callable[..., Any]
    target: str
    words: list[str]
    folder: Path
    budget: float | None
    chosen: Settings

    def __call__(self, *args: Any) -> Any:
        from traindx.cli.run import Watcher

        watcher = Watcher(self.target, self.words, self.folder, self.budget, self.chosen)
        try:
            out = self.function(*args)
        except BaseException as error:
            watcher.end(Ended(1, "exception", error))
            raise
        watcher.end(Ended(0, "closed"))
        return out


def follow(wrap: Callable[[Callable[..., Any]], Observed]) -> Callable[[], None]:
    """Let what `torch.multiprocessing` starts from now on run inside `wrap`; gives the function that undoes it."""
    module: Any = sys.modules.get("torch.multiprocessing.spawn")
    if module is None:
        return lambda: None
    original = module.start_processes

    def start_processes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return original(wrap(fn), *args, **kwargs)

    module.start_processes = start_processes

    def back() -> None:
        module.start_processes = original

    return back
