"""Evidence, findings and outcomes: what a rule saw, in numbers and in words."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import total_ordering
from typing import Any


@total_ordering
class Severity(enum.Enum):
    """How bad: critical — going on wastes the run or the result is wrong; warning — it costs you; info — worth knowing."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    def __lt__(self, other: Severity) -> bool:
        order = list(Severity)
        return order.index(self) < order.index(other)


class Confidence(enum.Enum):
    """How sure: exact — a fact; strong — a statistic with stated error; suggestive — a hypothesis, never above info."""

    EXACT = "exact"
    STRONG = "strong"
    SUGGESTIVE = "suggestive"


@dataclass(frozen=True)
class Evidence:
    """Where and when a condition holds, in numbers. The sentence is made from `facts` by the rule's `says`."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    where: tuple[str, ...] = ()  # parameters, modules, columns, source lines; worst first
    steps: tuple[int, int] | None = None
    say: str = ""  # which of the rule's sentences, when it has several
    severity: Severity | None = None  # overrides the rule's default
    confidence: Confidence | None = None
    rank: int | None = None
    fix: str = ""  # overrides the rule's fix


@dataclass(frozen=True)
class Finding:
    """A rule's evidence in words."""

    code: str
    name: str
    severity: Severity
    confidence: Confidence
    message: str
    where: tuple[str, ...]
    steps: tuple[int, int] | None
    facts: Mapping[str, Any]
    signals: tuple[str, ...]
    fix: str
    rank: int | None = None
    variant: str = ""  # the Evidence's `say`


class Status(enum.Enum):
    """How a rule fared. Neither unsure nor blind is ever shown as clear."""

    FOUND = "found"
    CLEAR = "clear"
    UNSURE = "unsure"
    BLIND = "blind"
    MUTED = "muted"
    BROKEN = "broken"


@dataclass(frozen=True)
class Outcome:
    """How one rule fared on one run."""

    code: str
    status: Status
    findings: tuple[Finding, ...] = ()
    reason: str = ""  # what is lacking, why muted, the traceback
    lacks: tuple[str, ...] = ()  # signals, facts or events it would need
    resolution: float | None = None  # unsure: the smallest effect it could have seen
    needs_steps: int | None = None  # unsure: how many more steps it needs


class Unsure(Exception):
    """Raised by a rule that looked and cannot decide."""

    def __init__(self, why: str = "", *, resolution: float | None = None, needs_steps: int | None = None) -> None:
        super().__init__(why)
        self.resolution = resolution
        self.needs_steps = needs_steps


class Blind(Exception):
    """Raised by a rule that finds, while looking, that it lacks something `needs` could not express."""

    def __init__(self, why: str, *lacks: str) -> None:
        super().__init__(why)
        self.lacks = lacks


class Muted(Exception):
    """Raised by a rule that does not apply in this regime."""
