"""Lines of the user's code: where the optimizer is made, where gradients are clipped, where the schedule steps.

A finding about the learning rate is mended where the optimizer is made. Libraries have no such lines: what Lightning or the
standard library calls is nothing the user can edit, so the walk goes on to the nearest frame that is neither torch's, ours,
nor installed.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

import torch

_DEEP = 60  # frames; a training loop under a framework is some thirty calls deep
_OURS = tuple(str(Path(p).parent) for p in (torch.__file__, str(Path(__file__).parent)))
_STANDARD = sysconfig.get_paths()["stdlib"]
_INSTALLED = ("site-packages", "dist-packages")


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


def users(path: str) -> bool:
    """Whether a file is the user's own code."""
    if path.startswith(("<", *_OURS)) or any(part in path for part in _INSTALLED):
        return False
    return not path.startswith(_STANDARD)


def _constructs(frame: Any, thing: Any) -> bool:
    """A frame of the thing's own __init__: an optimizer that somebody wrote calls the one of torch."""
    names = frame.f_code.co_varnames
    return frame.f_code.co_name == "__init__" and bool(names) and frame.f_locals.get(names[0]) is thing
