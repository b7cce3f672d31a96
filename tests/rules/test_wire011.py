"""WIRE011: updates that count double."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire011_accumulation_or_double_step import accumulation_or_double_step as rule
from traindx.run import Event, Run


def loop(kind: str, *, optimizer: str = "SGD", facts: dict[str, object] | None = None, **data: object) -> Run:
    return a_run(loss__train=[1.0] * 50, facts={"optimizer.name": optimizer, **(facts or {})}, events=[Event(2, kind, data)])


def test_a_repeated_step_is_counted() -> None:
    [found] = rule.findings(loop("double_step", count=48))
    assert found.variant == "double" and found.steps == (2, 49) and "48 times" in found.message


def test_a_lone_extra_step_is_no_habit_and_the_limit_decides() -> None:
    assert not list(rule.findings(loop("double_step", count=2)))
    assert list(rule.findings(loop("double_step", count=2), least=2))


@pytest.mark.parametrize("name", ["LBFGS", "SAM"])
def test_optimizers_that_evaluate_twice_are_left_alone(name: str) -> None:
    assert rule.outcome(loop("double_step", optimizer=name, count=100)).status is Status.MUTED


@pytest.mark.parametrize(("optimizer", "severity"), [("SGD", Severity.WARNING), ("AdamW", Severity.INFO)])
def test_undivided_accumulation_hurts_plain_sgd(optimizer: str, severity: Severity) -> None:
    [found] = rule.findings(loop("accumulation_undivided", optimizer=optimizer, k=8))
    assert found.severity is severity and "8× too large" in found.message


def test_summed_losses_are_divided_elsewhere() -> None:
    [found] = rule.findings(loop("accumulation_undivided", facts={"loss.reduction": "sum"}, k=4))
    assert found.severity is Severity.INFO


def test_two_halves_of_a_discriminators_step_are_no_accumulation() -> None:
    assert not list(rule.findings(loop("accumulation_undivided", facts={"adversarial": True}, k=2)))


def test_a_watched_loop_without_such_events_is_clear() -> None:
    run = a_run(loss__train=[1.0], facts={"watched": ["double_step", "accumulation_undivided"]})
    assert rule.outcome(run).status is Status.CLEAR


def test_without_any_backward_it_is_another_fault() -> None:
    run = loop("double_step", count=48).with_(a_run({"loop/backwards": [0.0] * 50}).signals)
    assert not list(rule.findings(run))


def cleared(backwards: float, zero_grads: float, **facts: object) -> Run:
    run = loop("accumulation_undivided", optimizer="AdamW", facts={k.replace("__", "."): v for k, v in facts.items()}, k=70)
    return run.with_(a_run({"loop/backwards": [backwards] * 30, "loop/zero_grads": [zero_grads] * 30}).signals)


def test_gradients_that_are_cleared_before_each_backward_are_thrown_away() -> None:
    [found] = rule.findings(cleared(70, 70))
    assert found.variant == "discarded" and found.severity is Severity.CRITICAL and "99% of the gradients" in found.message


@pytest.mark.parametrize(
    ("run", "variant"),
    [(cleared(70, 1), "undivided"), (cleared(2, 2), "undivided"), (cleared(70, 70, optimizer__count=2), "undivided")],
    ids=["true accumulation", "two passes by design", "several optimizers"],
)
def test_what_is_not_thrown_away(run: Run, variant: str) -> None:
    assert [f.variant for f in rule.findings(run)] == [variant]


def test_backwards_between_which_gradients_are_cleared_do_not_add_up() -> None:
    assert not list(rule.findings(loop("accumulation_undivided", optimizer="SGD", k=2, anew=True)))
    assert [f.variant for f in rule.findings(loop("accumulation_undivided", optimizer="SGD", k=2, anew=False))] == ["undivided"]


def test_gradients_cleared_before_each_of_the_accumulated_backwards() -> None:
    run = a_run({"loop/backwards": np.full(40, 4.0)}, events=[Event(0, "accumulation_discarded", {"k": 4, "count": 40})])
    [found] = rule.findings(run)
    assert found.variant == "discarded" and found.severity is Severity.CRITICAL and "75%" in found.message
    once = a_run({"loop/backwards": np.full(40, 4.0)}, events=[Event(0, "accumulation_discarded", {"k": 4, "count": 1})])
    assert not list(rule.findings(once))
