"""SPEC004: a policy that stopped exploring or leaps."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise, steady
from traindx.finding import Severity, Status
from traindx.rules.spec004_rl_entropy_collapse import rl_entropy_collapse as rule


def test_entropy_gone_early() -> None:
    [found] = rule.findings(a_run(rl__entropy=np.r_[np.geomspace(1.4, 0.01, 30), np.full(170, 0.01)]))
    assert found.variant == "entropy" and found.severity is Severity.WARNING


def test_entropy_that_falls_when_the_task_is_solved_is_fine() -> None:
    assert rule.outcome(a_run(rl__entropy=np.geomspace(1.4, 0.01, 200))).status is Status.CLEAR


def test_differential_entropy_may_be_negative() -> None:
    assert not list(rule.findings(a_run(rl__entropy=np.linspace(1.4, -8, 200))))


def test_updates_that_leap_and_the_limit() -> None:
    assert next(rule.findings(a_run(rl__kl=steady(100, 0.3)))).variant == "kl"
    assert not list(rule.findings(a_run(rl__kl=steady(100, 0.02))))
    assert list(rule.findings(a_run(rl__kl=steady(100, 0.02)), kl=0.01))


def test_a_value_function_that_explains_nothing_is_info() -> None:
    [found] = rule.findings(a_run(rl__explained_variance=steady(60, -0.5)))
    assert found.severity is Severity.INFO


def test_a_return_that_was_good_and_is_gone_and_the_limit() -> None:
    rise = np.linspace(20, 170, 70)
    gone = np.r_[rise, np.full(80, 12.0)] + noise(150, 6.0)
    [found] = rule.findings(a_run(rl__return=gone))
    assert found.variant == "return" and found.severity is Severity.WARNING and 55 < found.facts["best_step"] < 72
    half = np.r_[rise, np.full(80, 110.0)] + noise(150, 6.0)  # 40 % of the gain
    dip = np.r_[rise, np.full(30, 12.0), np.full(50, 165.0)] + noise(150, 6.0)
    never = 20 + noise(150, 6.0)
    assert not [f for paid in (half, dip, never, rise) for f in rule.findings(a_run(rl__return=paid))]
    assert list(rule.findings(a_run(rl__return=half), lost=0.3))


def test_a_policy_that_keeps_a_high_return_need_not_explore() -> None:
    entropy = np.r_[np.geomspace(1.4, 0.01, 30), np.full(170, 0.01)]
    solved = np.r_[np.linspace(0.3, 0.95, 40), np.full(160, 0.97)] + noise(200, 0.002)
    assert next(rule.findings(a_run(rl__entropy=entropy, rl__return=solved))).severity is Severity.INFO
    poor = next(rule.findings(a_run(rl__entropy=entropy, rl__return=0.3 + noise(200, 0.02))))
    assert poor.severity is Severity.WARNING
