"""How loud a finding may be: one table from the harm it does and whether the run learned. No rule decides this itself.

A rule says how large its finding is (info, warning, critical). The table caps that: a run that learned as it should gets no
alarm from a statistic; an exact fault of the program stays a warning, never lower, so that what was said early is not taken
back; what makes the result wrong stays as loud as it is. Where nothing was learned, an exact fault is critical. Speed and
memory are no fault of what is computed: a remark once it learned.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace

from traindx.course import Learned, State
from traindx.finding import Confidence, Finding, Outcome, Severity

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO


class Harm(enum.Enum):
    """What a condition does to the run."""

    RESULT_WRONG = "the number shown or the weights kept are not what they claim to be"
    PROGRAM_WRONG = "the program computes something else than was meant: an exact fact"
    GAIN_LOST = "what had been learned before is lost again"
    BROKE_OFF = "the program died of it"
    NOT_LEARNED = "the judgement itself: it had the time and has nothing to show for it"
    KIND = "evidence of its own kind of training: two players, an agent, experts"
    COST = "it takes more time, memory or money than it needs, or cannot be repeated"
    HINDERS = "it may hold learning back: it matters only where nothing is learned"
    TREND = "a statistic that goes with runs that fail"


class Course(enum.Enum):
    """Whether it learned, as far as the table minds."""

    WELL = "it learned as it should"
    PART = "it learned in part"
    UNKNOWN = "nothing shows whether it learned"
    OWN = "its loss is not meant to fall, and its own evidence does not contradict it"
    EARLY = "too early to say"
    NOT = "it did not, though it had the time"


POLICY: tuple[tuple[Harm, tuple[Course, ...], Severity, Severity], ...] = (
    # read top down, the first line that fits: what a warning becomes, and what a critical finding becomes
    (Harm.RESULT_WRONG, tuple(Course), WARNING, CRITICAL),
    (Harm.BROKE_OFF, tuple(Course), WARNING, CRITICAL),
    (Harm.NOT_LEARNED, tuple(Course), WARNING, CRITICAL),
    (Harm.PROGRAM_WRONG, (Course.NOT,), CRITICAL, CRITICAL),  # it may be why nothing was learned
    (Harm.PROGRAM_WRONG, (Course.WELL,), WARNING, WARNING),
    (Harm.GAIN_LOST, (Course.WELL,), WARNING, WARNING),
    (Harm.COST, (Course.WELL, Course.PART, Course.OWN), INFO, INFO),
    (Harm.HINDERS, (Course.WELL, Course.PART, Course.OWN, Course.EARLY), INFO, INFO),
    (Harm.TREND, (Course.WELL, Course.OWN, Course.EARLY), INFO, INFO),
    (Harm.KIND, (Course.WELL, Course.EARLY), INFO, INFO),
    *((harm, tuple(Course), WARNING, CRITICAL) for harm in Harm),  # else as large as the rule says
)
HARM: dict[str, Harm] = {  # a variant, a code, or a family; else an exact finding is PROGRAM_WRONG, any other a TREND
    **dict.fromkeys(("ACTV008", "DATA003", "DATA006", "DATA007", "DATA008", "WIRE005", "WIRE013"), Harm.RESULT_WRONG),
    **dict.fromkeys(("EVAL001", "EVAL003", "EVAL006", "EVAL008", "EVAL009"), Harm.RESULT_WRONG),
    **dict.fromkeys(("DIST001", "DIST002", "DIST007"), Harm.RESULT_WRONG),
    **dict.fromkeys(("REPR002", "REPR003", "REPR005"), Harm.PROGRAM_WRONG),  # workers draw alike; what a resume left behind
    "PERF003:oom": Harm.BROKE_OFF,
    "EVAL009:grad": Harm.COST,  # the numbers are the same
    "EVAL004:chance": Harm.HINDERS,  # a loss that fell says more than accuracy
    "TUNE001": Harm.GAIN_LOST,
    "LOSS013": Harm.NOT_LEARNED,
    "NUMR001:passing": Harm.GAIN_LOST,  # at most: the run lived on
    "SPEC": Harm.KIND,
    **dict.fromkeys(("PERF", "REPR", "DIST004"), Harm.COST),
    **dict.fromkeys(
        ("ACTV003", "DATA002", "GRAD001", "GRAD007", "LOSS004", "LOSS010", "OPTM001", "OPTM002", "OPTM006", "OPTM008"),
        Harm.HINDERS,
    ),
}


def harm_of(finding: Finding) -> Harm:
    """What a finding does to the run, from its code and how sure it is."""
    keys = (f"{finding.code}:{finding.variant}", finding.code, finding.code[:4])
    listed = next((HARM[k] for k in keys if k in HARM), Harm.TREND)
    program = listed in (Harm.TREND, Harm.HINDERS) and finding.confidence is Confidence.EXACT
    return Harm.PROGRAM_WRONG if program else listed


def _allowed(finding: Finding, course: Course) -> dict[Severity, Severity]:
    """What each severity becomes, by the first line of the table that fits."""
    harm = harm_of(finding)
    warning, critical = next((w, c) for of, courses, w, c in POLICY if of is harm and course in courses)
    return {INFO: INFO, WARNING: warning, CRITICAL: critical}


def lasting(finding: Finding) -> bool:
    """Whether it stays an alarm even if the run turns out to learn as it should."""
    return _allowed(finding, Course.WELL)[WARNING] >= WARNING


def course_of(learned: Learned) -> Course:
    if learned.well:
        return Course.WELL
    if learned.no:
        return Course.NOT
    if learned.state is State.TOO_EARLY:
        return Course.EARLY
    if learned.own:
        return Course.OWN
    return Course.PART if learned.yes else Course.UNKNOWN


def capped(outcomes: Sequence[Outcome], learned: Learned) -> tuple[Outcome, ...]:
    """The outcomes with every finding as loud as the table lets it be."""
    course = course_of(learned)

    def cap(f: Finding) -> Finding:
        return replace(f, severity=_allowed(f, course)[f.severity])

    return tuple(replace(o, findings=tuple(cap(f) for f in o.findings)) if o.findings else o for o in outcomes)
