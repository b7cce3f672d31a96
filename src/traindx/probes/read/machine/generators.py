"""Which global generators a script drew from: those of Python and numpy start from the system's entropy unless they are seeded.

States are compared with those before the script began, so nothing is counted and nothing is slowed. Without a launch of ours
(`watch`) nobody knows what was before, and nothing is said.
"""

from __future__ import annotations

import random
import sys
from typing import Any

_UNDRAWN = 623  # the place of numpy's Mersenne twister when it has just been made from the system's entropy
_launched: dict[str, int] = {}


def remember() -> None:
    """The script is about to begin."""
    _launched.update(_states())


def untouched() -> set[str]:
    """Generators that are as they were at launch; one that was not there yet, as it is before its first draw."""
    if not _launched:
        return set()
    now = _states()
    same = {name for name, state in now.items() if _launched.get(name) == state}
    if "numpy" not in now or ("numpy" not in _launched and _undrawn()):
        same.add("numpy")
    return same


def _undrawn() -> bool:
    """Whether numpy's generator, made in the meantime, has not been drawn from."""
    mtrand: Any = sys.modules["numpy.random.mtrand"]
    _, _, place, gauss, _ = mtrand._rand.get_state()
    return place == _UNDRAWN and not gauss


def _states() -> dict[str, int]:
    found = {"python": hash(random.getstate())}
    mtrand: Any = sys.modules.get("numpy.random.mtrand")
    if mtrand is not None:
        kind, key, place, *rest = mtrand._rand.get_state()
        found["numpy"] = hash((kind, key.tobytes(), place, *rest))
    return found
