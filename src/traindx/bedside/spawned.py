"""Processes that a script starts for its ranks: each observes itself, into one record.

`torch.multiprocessing.spawn` and `start_processes` start ranks; a `Process` is one when it has joined a process group by its
first update, else it leaves no trace. Forked processes are left alone: threads and locks of ours do not live on in them.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any

Wrap = Callable[[Callable[..., Any], bool], Callable[..., Any]]


def follow(wrap: Wrap, forks: Callable[[], None]) -> Callable[[], None]:
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


def _processes(wrap: Wrap, forks: Callable[[], None]) -> Callable[[], None]:
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
