"""Which global generators a script drew from: those of Python and numpy start from the system's entropy unless they are seeded.

States are compared with those before the script began, so nothing is counted and nothing is slowed. Without a launch of ours
(`watch`) nobody knows what was before, and nothing is said.
"""

from __future__ import annotations

import random
import sys
from typing import Any

_launched: dict[str, int] = {}


def remember() -> None:
    """The script is about to begin."""
    _launched.update(_states())


def untouched() -> set[str]:
    """Generators that are as they were at launch."""
    return {name for name, state in _states().items() if _launched.get(name) == state}


def _states() -> dict[str, int]:
    found = {"python": hash(random.getstate())}
    mtrand: Any = sys.modules.get("numpy.random.mtrand")
    if mtrand is not None:
        kind, key, place, *rest = mtrand._rand.get_state()
        found["numpy"] = hash((kind, key.tobytes(), place, *rest))
    return found
