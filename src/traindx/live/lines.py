"""The lines a judge speaks: one write each, on stderr, never in the middle of a progress bar's line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from traindx.live.settled import Word
from traindx.plain import safe

LONG = 100  # characters of a message; beyond, what follows its first clause is left to the page
_CLEAR = "\r\x1b[K"  # back to the beginning of the line, and away with the bar that stands there: it is drawn again below


def told(word: Word, shown: str) -> str:
    """A finding in one line: step, severity, what, where, what to do, where to read more."""
    d, f = word.diagnosis, word.story.root
    step = d.run.steps[1] if d.run.steps else 0
    what = safe(f.message, 300)
    if len(what) > LONG:
        what = what.partition("; ")[0].partition(": ")[0]
    if word.back:
        return f"traindx · step {step} · taken back: {what.rstrip('.')}. It no longer holds."
    where = next((f" ({safe(place(w), 80)})" for w in f.where if safe(w, 80) not in what), "")
    first = d.stories and d.stories[0].root.code == f.code
    do = " ".join(filter(None, (safe(f.fix, 300), d.verdict_.start if first else "")))
    return (
        f"traindx · step {step} · {word.story.severity.value}: {what.rstrip('.')}{where}. {do} More: traindx diagnose {shown}"
    )


def place(where: str) -> str:
    """A place as short as it is clear: a file's name with its line, a module's name as it is.

    >>> place("/home/me/train.py:10")
    'train.py:10'
    """
    head, colon, line = where.rpartition(":")
    return f"{Path(head).name}:{line}" if colon and line.isdigit() else where


class Stderr:
    """The stderr that a judge shares with the program it watches. A line that cannot be written is dropped."""

    def __init__(self, fd: int = 2) -> None:
        self.fd = fd

    def __call__(self, text: str) -> None:
        try:
            os.write(self.fd, (self._lead() + text + "\n").encode("utf-8", "replace"))
        except OSError:
            return  # closed, full, or without a reader: nobody to tell

    def _lead(self) -> str:
        """What has to stand before a line of ours, so that it is a line of its own."""
        if os.isatty(self.fd):
            return "\n" if os.environ.get("TERM", "dumb") == "dumb" else _CLEAR
        if not stat.S_ISREG(os.fstat(self.fd).st_mode):
            return ""
        try:  # a file: its last byte tells
            with open(f"/proc/self/fd/{self.fd}", "rb") as file:
                file.seek(-1, os.SEEK_END)
                return "" if file.read(1) == b"\n" else "\n"
        except OSError:
            return ""
