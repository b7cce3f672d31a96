"""Where a script's checkpoints go while it is only tried: nothing is overwritten, and what it saved it can load again."""

from __future__ import annotations

import atexit
import io
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


class Shelf:
    """Stands in for torch.save and torch.load.

    A file that is there stays as it is: what would replace it is kept in memory and loaded from there. A new file is written,
    so that a script which asks whether it exists finds it, and removed in the end.
    """

    def __init__(self, save: Any, load: Any) -> None:
        self._save, self._load = save, load
        self._kept: dict[str, bytes] = {}
        self._made: set[str] = set()
        atexit.register(self.clear)

    def save(self, obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        place = _place(f)
        if place is None:  # a buffer of the script's own harms nobody
            self._save(obj, f, *args, **kwargs)
        elif place in self._made or not os.path.lexists(place):
            self._made.add(place)
            self._save(obj, f, *args, **kwargs)
        else:
            buffer = io.BytesIO()
            self._save(obj, buffer, *args, **kwargs)
            self._kept[place] = buffer.getvalue()

    def load(self, f: Any, *args: Any, **kwargs: Any) -> Any:
        kept = self._kept.get(_place(f) or "")
        return self._load(f if kept is None else io.BytesIO(kept), *args, **kwargs)

    def clear(self) -> None:
        """Take away what was made here."""
        for place in self._made:
            with suppress(OSError):
                Path(place).unlink()
        self._made.clear()


def _place(f: Any) -> str | None:
    return str(Path(f).absolute()) if isinstance(f, str | os.PathLike) else None
