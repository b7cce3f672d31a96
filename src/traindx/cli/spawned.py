"""Processes that a script starts for its ranks: each observes itself, into one record.

`torch.multiprocessing.spawn` and `start_processes` start ranks; a `Process` is one when it has joined a process group by its
first update, else it leaves no trace. Forked processes are left alone: threads and locks of ours do not live on in them.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
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
    ranked: bool  # it counts only as one of several ranks

    def __call__(self, *args: Any) -> Any:
        from traindx.cli.run import Watcher

        watcher = Watcher(self.target, self.words, self.folder, self.budget, self.chosen, ranked=self.ranked)
        try:
            out = self.function(*args)
        except BaseException as error:
            watcher.end(Ended(1, "exception", error))
            raise
        watcher.end(Ended(0, "closed"))
        return out


def follow(wrap: Callable[[Callable[..., Any], bool], Observed], forks: Callable[[], None]) -> Callable[[], None]:
    """Let the processes that are started from now on run inside `wrap`, and hear of those that cannot; gives what undoes it."""
    undo: list[Callable[[], None]] = [_processes(wrap, forks)]
    inside: Any = sys.modules.get("torch.multiprocessing.spawn")
    if inside is not None:
        original = inside.start_processes

        def start_processes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if (kwargs.get("start_method") or (args[4] if len(args) > 4 else "spawn")) == "fork":
                forks()
                return original(fn, *args, **kwargs)
            return original(wrap(fn, False), *args, **kwargs)

        outside: Any = sys.modules["torch.multiprocessing"]
        for owner in (inside, outside):
            owner.start_processes = start_processes
            undo.append(partial(setattr, owner, "start_processes", original))

    def back() -> None:
        for each in undo:
            each()

    return back


LIBRARIES = ("torch", "multiprocessing", "concurrent", "joblib")  # whose processes load data or wait for small tasks


def _processes(wrap: Callable[[Callable[..., Any], bool], Observed], forks: Callable[[], None]) -> Callable[[], None]:
    original = BaseProcess.start

    def start(self: Any) -> None:
        target = self._target
        if target is not None and str(getattr(target, "__module__", "")).partition(".")[0] not in LIBRARIES:
            if (getattr(self, "_start_method", None) or multiprocessing.get_start_method()) == "fork":
                forks()
            else:
                self._target = wrap(target, True)
        original(self)

    BaseProcess.start = start  # type: ignore[method-assign]

    def back() -> None:
        BaseProcess.start = original  # type: ignore[method-assign]

    return back
