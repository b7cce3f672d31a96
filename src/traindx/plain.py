"""What we show: text that is safe to look at, and lines on stderr that can never fail."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import unicodedata

# ANSI escapes (CSI, OSC, single characters) and everything that can reorder or hide text
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def safe(text: object, most: int = 2000, *, lines: bool = False) -> str:
    r"""Text of somebody else's as it may be shown: no escapes, no bidi or control characters, bounded; one line unless `lines`.

    >>> safe("loss\x1b[31m\ntraindx: healthy")
    'loss traindx: healthy'
    """
    rows = _ESCAPES.sub("", str(text)).splitlines()
    cleaned = "\n".join(rows) if lines else " ".join(row.strip() for row in rows)
    cleaned = "".join(
        c if c == "\n" or unicodedata.category(c) not in _HIDDEN else "\N{REPLACEMENT CHARACTER}" for c in cleaned
    )
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + "…"


_PLACE = re.compile(r"\b([Ss])tep(s?) (?=\d)")
_LENGTH = re.compile(r"(\d(?:[\d,]*\d)?) step(s?)\b")
_NUMBERS = re.compile(r"(?<=poch )[\d,]+|(?<=pochs )[\d,]+(?:–\d+)?|[\d,]+(?= epochs?\b)")


def in_unit(text: str, unit: str, *, measured: bool = True) -> str:
    """The text with places and lengths in the unit the run is counted in: epochs, where a log counts those.

    Advice names lengths that were not measured in this run (`measured=False`): there only places are converted.

    >>> in_unit("it rose from step 6 on, for the last 44 steps", "epoch")
    'it rose from epoch 6 on, for the last 44 epochs'
    >>> in_unit("steps 1500–2000", "epoch/1000")
    'epochs 1.5–2'
    >>> in_unit("resume from step 6 and warm up over 200 steps", "epoch", measured=False)
    'resume from epoch 6 and warm up over 200 steps'
    """
    if not unit.startswith("epoch") or "step" not in text.lower():
        return text
    text = _PLACE.sub(lambda m: f"{'E' if m[1] == 'S' else 'e'}poch{m[2]} ", text)
    if measured:
        text = _LENGTH.sub(r"\1 epoch\2", text)
    return _NUMBERS.sub(_thousandths, text) if unit == "epoch/1000" else text


def _thousandths(found: re.Match[str]) -> str:
    return re.sub(r"\d+", lambda m: f"{int(m[0]) / 1000:.4g}", found[0].replace(",", ""))


def say(text: object) -> None:
    """`traindx: …` on stderr, made safe; further lines are indented, so that none can pass for another message of ours.

    It never waits: a line for which a full pipe has no room is dropped.
    """
    STDERR.put("traindx: " + safe(text, 20_000, lines=True).rstrip("\n").replace("\n", "\n  ") + "\n", wait=False)


class _Stderr:
    """The stderr of the moment as a file that never raises and keeps nothing back. There may be none."""

    @property
    def encoding(self) -> str:
        return getattr(sys.stderr, "encoding", None) or "ascii"

    def isatty(self) -> bool:
        try:
            return bool(sys.stderr.isatty())
        except (AttributeError, ValueError, OSError):
            return False

    def fileno(self) -> int:
        return sys.stderr.fileno()

    def write(self, text: str) -> int:
        """Show the text; a reader that is slow is waited for."""
        self.put(text, wait=True)
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def put(self, text: str, *, wait: bool) -> None:
        stream = sys.stderr
        try:
            if stream is not sys.__stderr__:  # a notebook's, a logger's, a test's
                stream.write(text)
                stream.flush()
                return
            fd = sys.__stderr__.fileno()
            if not os.get_inheritable(fd):
                return  # the script has closed stderr, and a file that it opened since got its number
            if wait or select.select((), (fd,), (), 0)[1]:
                put(fd, text.encode(self.encoding, "replace"))
        except Exception:  # closed, full, without a reader, none at all, or a class of the script's: nobody to tell
            return


def put(fd: int, data: bytes) -> None:
    """Write past Python's buffer. Its lock may be held, and what it cannot write fails again at the end: exit code 120.

    SIGPIPE is held back, for scripts that have asked to die of it.
    """
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BrokenPipeError:
        if signal.SIGPIPE not in held:
            signal.sigtimedwait({signal.SIGPIPE}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


STDERR = _Stderr()
