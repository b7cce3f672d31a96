"""WIRE016: updates with nothing to apply."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Finding, Severity, Status
from traindx.rules.wire016_step_without_gradient import step_without_gradient as rule
from traindx.run import Event


@pytest.mark.parametrize(("how", "variant"), [("cleared", "cleared"), ("unreached", "unreached"), ("", "none")])
def test_without_any_gradient_it_says_what_became_of_them(how: str, variant: str) -> None:
    run = a_run(
        {"loop/empty_step": np.ones(10), "loop/backwards": np.ones(10), "loss/train": np.ones(10)},
        events=[Event(0, "grad_all_none", {"count": 1, "how": ""}), Event(1, "grad_all_none", {"count": 9, "how": how})],
    )
    [found] = rule.findings(run)
    assert found.variant == variant and found.severity is Severity.CRITICAL and found.steps == (0, 9)
    assert ("zero_grad came between" in found.message) == (how == "cleared")


def test_a_forgotten_backward() -> None:
    [found] = rule.findings(a_run({"loop/empty_step": np.ones(10), "loop/backwards": np.zeros(10)}))
    assert found.variant == "no-backward"


def test_two_empty_steps_are_not_enough_and_the_limit_decides() -> None:
    run = a_run({"loop/empty_step": [1, 1, 0, 0, 0]})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, least=2))


def test_a_satisfied_loss_has_no_gradient() -> None:
    empty = np.r_[np.zeros(50), np.ones(50)]
    assert not list(rule.findings(a_run({"loop/empty_step": empty, "loss/train": 1.0 - empty})))


def test_batches_without_valid_targets_belong_to_another_rule() -> None:
    events = [Event(i, "empty_targets") for i in range(5)]
    assert not list(rule.findings(a_run({"loop/empty_step": [1] * 5 + [0] * 5}, events=events)))


def test_now_and_then_is_less_bad() -> None:
    empty = np.zeros(100)
    empty[::10] = 1
    [found] = rule.findings(a_run({"loop/empty_step": empty, "loop/backwards": np.ones(100)}))
    assert found.severity is Severity.INFO


def test_an_optimizer_that_is_called_no_more() -> None:
    def left(count: int, usual: float = 1.0) -> list[Finding]:
        facts = {"loop.unused_backwards": count, "optimizer.steps": [40]}
        return list(rule.findings(a_run({"loop/empty_step": np.zeros(40), "loop/backwards": np.full(40, usual)}, facts=facts)))

    [found] = left(900)
    assert found.variant == "stopped" and found.severity is Severity.CRITICAL and "after 40 updates" in found.message
    assert left(30)[0].severity is Severity.WARNING
    assert not left(10) and not left(30, usual=8.0)  # an update that was accumulated and not made
