"""Whose line it is: the user's own code among the frames of torch, traindx, the standard library and installed packages."""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import FrameType

import torch

_LIBRARIES = tuple(
    f"{folder}{os.sep}" for folder in (Path(torch.__file__).resolve().parent, Path(__file__).resolve().parents[1])
)
_STANDARD = f"{Path(os.__file__).resolve().parent}{os.sep}"
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


@cache
def ours(file: str) -> bool:
    """Whether a file belongs to torch, traindx, the standard library or an installed package, and not to the user."""
    if file.startswith("<"):
        return not file.startswith(("<ipython", "<stdin"))
    real = os.path.realpath(file)
    return real.startswith(_LIBRARIES) or "site-packages" in real or real.startswith(_STANDARD)


def library(file: str) -> bool:
    """Whether a file belongs to torch or traindx."""
    return file.startswith((*_LIBRARIES, "<traindx"))


def user_line(frame: FrameType | None) -> tuple[str, int, str]:
    """The innermost line of the user's own code: file, line and function; the innermost that is not torch's otherwise."""
    first: tuple[str, int, str] | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not ours(file):
            return file, frame.f_lineno, frame.f_code.co_name
        if first is None and not file.startswith((*_LIBRARIES, "<")):
            first = file, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return first or ("", 0, "")


def line_in(traceback: Sequence[str]) -> tuple[str, int, str]:
    """The innermost line of the user's in a formatted traceback, as autograd keeps it with its nodes."""
    frames = [m for entry in traceback for m in _FRAME.finditer(entry)]
    users = [m for m in frames if not ours(m["file"])]
    best = users[-1] if users else (frames[-1] if frames else None)
    return (best["file"], int(best["line"]), best["function"]) if best else ("", 0, "")


def source(file: str, line: int) -> str:
    """The text of a line."""
    return linecache.getline(file, line).strip()[:200] if file else ""
