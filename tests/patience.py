"""Waiting in tests: until something is so, and never for a machine to be quick. Figures of time are measured in bench/."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONG_S = 120.0  # what a quiet machine does in a second, a busy one does in two minutes; what takes longer hangs


def until(so: Callable[[], object], every_s: float = 0.01) -> bool:
    """Wait until something is so; whether it came to be."""
    end = time.monotonic() + LONG_S
    while not so():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True


@contextmanager
def not_hanging() -> Iterator[None]:
    """What is inside comes to an end: no wait for what never comes, and no work that grows with a power of the input."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < LONG_S
