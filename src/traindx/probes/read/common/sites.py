"""Lines of the user's code: where optimizer and loaders are made, where gradients are clipped, where it is evaluated.

A finding about the learning rate is fixed where the optimizer is made. Libraries have no such lines: what Lightning or the
standard library calls is nothing the user can edit, so the walk continues to the nearest frame that is neither torch's, ours,
nor installed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

import torch

from traindx.probes.read.common.tracebacks import UNSEEN

_MOST_MADE = 64
_DEEP = 60  # frames; a training loop under a framework is some thirty calls deep
_OURS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[3]))
_TORCH_OR_OURS = (*(f"{folder}{os.sep}" for folder in _OURS), UNSEEN)
_STANDARD = sysconfig.get_paths()["stdlib"]
_INSTALLED = ("site-packages", "dist-packages")


class Lines:
    """What stands where in the user's code: the line of the first call of each kind, and those that made things."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self._made: dict[int, str] = {}

    def here(self, what: str) -> None:
        """It is called now; only the first time counts."""
        if what not in self.known:
            self.known[what] = line()

    def put(self, what: str, where: str) -> None:
        """It stands there, unless that is known."""
        if where:
            self.known.setdefault(what, where)

    def makes(self, thing: Any) -> None:
        """Something is being constructed."""
        if len(self._made) < _MOST_MADE:
            self._made[id(thing)] = line(thing)

    def made(self, thing: Any) -> str:
        """The line that made it."""
        return self._made.get(id(thing), "")

    def feeds(self, role: str, loader: Any) -> None:
        """This loader trains or validates: where it is made and, in training, where its data set gives a sample."""
        if loader is None:
            return
        self.put(role, self.made(loader))
        if role == "loader":
            self.put("dataset", _gives(getattr(loader, "dataset", None)))


def _gives(dataset: Any) -> str:
    """The line where the user's own data set (below a Subset and its like) gives a sample."""
    for _ in range(4):
        if dataset is None:
            break
        for name in ("__getitem__", "__iter__"):
            code = getattr(getattr(type(dataset), name, None), "__code__", None)
            if code is not None and users(code.co_filename):
                return f"{code.co_filename}:{code.co_firstlineno}"
        dataset = getattr(dataset, "dataset", None)
    return ""


def line(thing: Any = None) -> str:
    """file:line of the nearest frame in the user's own code; the constructors of `thing` itself are passed by."""
    frame: Any = sys._getframe(1)
    for _ in range(_DEEP):
        if frame is None:
            return ""
        code = frame.f_code
        if users(code.co_filename) and not (thing is not None and _constructs(frame, thing)):
            return f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def way() -> int:
    """By which calls the user's own code got here, as a number that is the same at the same calls."""
    frame: Any = sys._getframe(1)
    calls: list[tuple[Any, int]] = []
    for _ in range(_DEEP):
        if frame is None:
            break
        if users(frame.f_code.co_filename):
            calls.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return hash(tuple(calls)) or 1


def users(path: str) -> bool:
    """Whether a file is the user's own code."""
    if path.startswith(("<", *_OURS)) or any(part in path for part in _INSTALLED):
        return False
    return not path.startswith(_STANDARD)


def _constructs(frame: Any, thing: Any) -> bool:
    """A frame of the thing's own __init__: an optimizer that somebody wrote calls the one of torch."""
    names = frame.f_code.co_varnames
    return frame.f_code.co_name == "__init__" and bool(names) and frame.f_locals.get(names[0]) is thing


def site(*, to_the_call: bool = False) -> str:
    """file:line of the nearest frame outside torch and traindx; with the place in its code where a line makes several calls."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_TORCH_OR_OURS):
            return f"{path}:{frame.f_lineno}:{frame.f_lasti}" if to_the_call else f"{path}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
