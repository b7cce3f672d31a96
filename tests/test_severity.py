"""How loud a finding may be: one table from harm and whether the run learned."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.course import Learned, State
from traindx.diagnosis import diagnose
from traindx.diagnosis.severity import Harm, capped, harm_of
from traindx.finding import Confidence, Finding, Outcome, Severity, Status
from traindx.rule import catalogue
from traindx.run import Event, Series


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

    codes = set(catalogue())
    variants = {f"{code}:{variant}" for code, r in catalogue().items() for variant in r.says}
    assert set(severity.HARM) <= codes | variants | {code[:4] for code in codes}


def test_memory_that_ended_the_program_is_critical_however_well_it_had_learned() -> None:
    curve = [2.3 * 0.97**i + 0.01 for i in range(300)]
    accuracy = {"accuracy/val": Series(np.arange(0, 300, 30), np.linspace(0.3, 0.99, 10)), "loss/train": curve}
    died = {"ended": "exception", "exception": {"type": "OutOfMemoryError", "message": "CUDA out of memory"}}
    at = {"ended": "closed"}
    for facts, step, loud in ((died, 299, Severity.CRITICAL), (at, 100, Severity.INFO)):
        run = a_run(
            accuracy, facts={"loss.kind": "ce", "loss.classes": 10, **facts}, events=[Event(step, "oom", {"message": ""})]
        )
        [found] = [f for f in diagnose(run).findings if f.code == "PERF003"]
        assert found.severity is loud, found
    assert harm_of(finding("PERF001")) is Harm.COST


def test_a_statistic_is_no_alarm_where_the_loss_is_not_meant_to_fall() -> None:
    balanced = Learned(State.LEARNING, 0.1, 1.0, own=True)
    assert after("WGHT004", balanced) is Severity.INFO
    assert after("SPEC001", balanced) is Severity.CRITICAL  # evidence of its own kind
    assert after("WIRE004", balanced, confidence=Confidence.EXACT) is Severity.CRITICAL
    assert after("WGHT004", Learned(State.GOT_WORSE, own=True)) is Severity.CRITICAL
