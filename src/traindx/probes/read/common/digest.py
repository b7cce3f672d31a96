"""Content hashes: xxhash where it is installed; a program in an environment without it gets those of the standard library."""

from __future__ import annotations

import hashlib
from typing import Any

try:
    import xxhash
except ModuleNotFoundError:
    xxhash = None  # type: ignore[assignment]


def hasher(data: Any = b"") -> Any:
    """Takes bytes bit by bit (`update`); 64 bits come out (`digest`, `hexdigest`)."""
    return hashlib.blake2b(data, digest_size=8) if xxhash is None else xxhash.xxh3_64(data)


def number(data: Any) -> int:
    """64 bits of what is in `data`."""
    return int.from_bytes(hasher(data).digest(), "big")
