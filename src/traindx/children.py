"""How every process of ours is started: nothing in the folder it stands in is imported."""

from __future__ import annotations

import os
import sys

JUDGE = "TRAINDX_PYTHON"  # names the Python that has traindx, for a program in an environment without it


def ours(module: str, *words: str) -> list[str]:
    """The command that runs a module of ours; `-P` keeps the current folder off the path that modules are looked for on.

    >>> ours("traindx.alerts")[1:]
    ['-P', '-m', 'traindx.alerts']
    """
    return [os.environ.get(JUDGE) or sys.executable, "-P", "-m", module, *words]


def first_on_path(folder: str) -> None:
    """Let the program that is run next import from this folder first, as `python PROGRAM` would have it."""
    if sys.flags.safe_path:  # then Python has put no folder of its own there
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder
