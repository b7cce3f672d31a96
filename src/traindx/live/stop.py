"""`--stop-on`: the judge names a step some steps ahead, and every rank stops after it, as if by Ctrl-C."""

from __future__ import annotations

import _thread
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traindx import opening

ORDER = "stop.json"
MOST_BYTES = 4096
EVERY_S = 0.5  # between two questions whether there is an order


def order(record: Path, step: int, why: str) -> None:
    """Let the ranks of this record stop after `step`."""
    made = record / f".{ORDER}-{os.getpid()}"
    with os.fdopen(opening.private(made, os.O_WRONLY | os.O_TRUNC), "w", encoding="utf-8") as out:
        json.dump({"step": step, "why": why[:1000]}, out)
    made.replace(record / ORDER)


def ordered(record: Path) -> int | None:
    """The step after which to stop, if there is such an order."""
    try:
        found = opening.parsed(opening.whole(record / ORDER, MOST_BYTES))
        return int(found["step"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None  # there is none, or it cannot be read: this rank continues


class Obeys:
    """Called after each update; raises KeyboardInterrupt in the main thread when the ordered step is made."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink  # its path is the record's
        self.step: int | None = None
        self._next = 0.0

    def __call__(self, step: int, row: Mapping[str, Any]) -> None:
        if self.step is None:
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + EVERY_S
            self.step = ordered(self._sink.path)
        if self.step is not None and step >= self.step:
            self.step = 1 << 62  # once
            _thread.interrupt_main()
