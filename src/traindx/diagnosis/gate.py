"""How a run fares against one requirement of a team."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gate:
    """How a run fares against one requirement."""

    requirement: str
    result: str  # passed, failed, cannot-tell
    message: str
    signal: str = ""
    value: float | None = None
    limit: float | None = None
