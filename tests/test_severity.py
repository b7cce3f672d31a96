"""How loud a finding may be: one table from harm and whether the run learned."""

from __future__ import annotations

import pytest

from traindx.course import Learned, State
from traindx.diagnosis.severity import Harm, capped, harm_of
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.rule import catalogue


def finding(code: str, severity: Severity = Severity.CRITICAL, confidence: Confidence = Confidence.STRONG) -> Finding:
    return Finding(code, "", severity, confidence, "", (), None, {}, (), "")


def after(code: str, learned: Learned, **kind) -> Severity:
    [outcome] = capped([Outcome(code, Status.FOUND, (finding(code, **kind),))], learned)
    return outcome.findings[0].severity


WELL, NOT = Learned(State.LEARNED, 0.9, 1.0), Learned(State.NOT_LEARNING, 0.0, 0.05)


@pytest.mark.parametrize(
    ("code", "confidence", "well", "lost"),
    [
        ("DATA006", Confidence.EXACT, Severity.CRITICAL, Severity.CRITICAL),  # the result is wrong
        ("WIRE006", Confidence.EXACT, Severity.WARNING, Severity.CRITICAL),  # the program is wrong
        ("GRAD002", Confidence.STRONG, Severity.INFO, Severity.CRITICAL),  # a statistic
    ],
)
def test_a_statistic_is_a_remark_once_it_learned_and_a_fact_never_is(code, confidence, well, lost) -> None:
    assert after(code, WELL, confidence=confidence) is well
    assert after(code, NOT, confidence=confidence) is lost


def test_nothing_is_made_louder_than_its_rule_says() -> None:
    assert after("DATA006", NOT, severity=Severity.INFO) is Severity.INFO


def test_too_early_a_statistic_is_no_alarm() -> None:
    assert after("LOSS009", Learned(State.TOO_EARLY)) is Severity.INFO


def test_the_table_names_only_rules_that_exist() -> None:
    from traindx.diagnosis import severity

    named = severity.RESULT_WRONG | severity.GAIN_LOST | severity.COST | severity.PROGRAM_WRONG
    assert named <= set(catalogue())
    assert harm_of(finding("PERF001")) is Harm.COST
