"""How loud a finding may be: one table from the harm it does and whether the run learned. No rule decides this itself.

A rule says how large its finding is (info, warning, critical). The table caps that: a run that learned as it should gets no
alarm from a statistic; an exact fault of the program stays a warning, never lower, so that what was said early is not taken
back; what makes the result wrong stays as loud as it is. Where nothing was learned, an exact fault is critical.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace

from traindx.course import Learned, State
from traindx.finding import Confidence, Finding, Outcome, Severity


class Harm(enum.Enum):
    """What a condition does to the run."""

    RESULT_WRONG = "the number shown or the weights kept are not what they claim to be"
    PROGRAM_WRONG = "the program computes something else than was meant: an exact fact"
    COST = "it takes more time, memory or money than it needs, or cannot be repeated"
    GAIN_LOST = "what had been learned is lost again"
    TREND = "a statistic that goes with runs that fail"


class Course(enum.Enum):
    """Whether it learned, as far as the table minds."""

    WELL = "it learned as it should"
    EARLY = "too early to say"
    NOT = "it did not, though it had the time"
    OTHER = "only in part, or nobody knows"


POLICY: dict[tuple[Harm, Course], Severity] = {
    (Harm.RESULT_WRONG, Course.WELL): Severity.CRITICAL,
    (Harm.PROGRAM_WRONG, Course.WELL): Severity.WARNING,
    (Harm.COST, Course.WELL): Severity.INFO,
    (Harm.GAIN_LOST, Course.WELL): Severity.WARNING,
    (Harm.TREND, Course.WELL): Severity.INFO,
    (Harm.TREND, Course.EARLY): Severity.INFO,
}  # every other pair: as large as the rule says

RESULT_WRONG = frozenset(
    [
        "ACTV008",
        "DATA003",
        "DATA006",
        "DATA007",
        "DATA008",
        "EVAL001",
        "EVAL003",
        "EVAL006",
        "EVAL008",
        "EVAL009",
        "WIRE005",
        "WIRE013",
        "DIST001",
        "DIST002",
        "DIST007",
    ]
)
GAIN_LOST = frozenset(["LOSS001", "LOSS008", "TUNE001"])
PROGRAM_WRONG = frozenset(("DATA005",))  # besides every finding that is exact: the order of samples is read, not inferred
COST_FAMILIES = ("PERF", "REPR")
COST = frozenset(("DIST004",))
RESUME = frozenset(["REPR003", "REPR005"])  # what a resume left behind: the steps after it are not those that were meant


def harm_of(finding: Finding) -> Harm:
    """What a finding does to the run, from its code and how sure it is."""
    if finding.code in RESULT_WRONG:
        return Harm.RESULT_WRONG
    if finding.code in GAIN_LOST:
        return Harm.GAIN_LOST
    if finding.code in RESUME:
        return Harm.PROGRAM_WRONG
    if finding.code in COST or finding.code.startswith(COST_FAMILIES):
        return Harm.COST
    exact = finding.confidence is Confidence.EXACT or finding.code in PROGRAM_WRONG
    return Harm.PROGRAM_WRONG if exact else Harm.TREND


def course_of(learned: Learned) -> Course:
    if learned.well:
        return Course.WELL
    if learned.no:
        return Course.NOT
    return Course.EARLY if learned.state is State.TOO_EARLY else Course.OTHER


def capped(outcomes: Sequence[Outcome], learned: Learned) -> tuple[Outcome, ...]:
    """The outcomes with every finding as loud as the table lets it be."""
    course = course_of(learned)

    def cap(f: Finding) -> Finding:
        harm = harm_of(f)
        if harm is Harm.PROGRAM_WRONG and course is Course.NOT and f.severity is Severity.WARNING:
            return replace(f, severity=Severity.CRITICAL)  # it may be why nothing was learned
        most = POLICY.get((harm, course), Severity.CRITICAL)
        return f if f.severity <= most else replace(f, severity=most)

    return tuple(replace(o, findings=tuple(cap(f) for f in o.findings)) if o.findings else o for o in outcomes)
