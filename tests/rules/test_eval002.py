"""EVAL002: differences below what chance makes."""

from __future__ import annotations

import numpy as np

from runs import a_run, learning, noise
from traindx.finding import Severity, Status
from traindx.rules.eval002_eval_too_noisy import eval_too_noisy as rule
from traindx.run import Series

AT = np.arange(100, 2001, 100)


def test_says_what_the_set_can_resolve() -> None:
    val = Series(AT, 1.0 + noise(20, 0.02))
    [found] = rule.findings(a_run({"loss/val": val, "eval/samples": Series(AT, np.full(20, 100.0))}))
    assert found.severity is Severity.INFO and 0.03 < found.facts["resolution"] < 0.1
    assert "about" in found.fix


def test_the_spread_of_samples_is_used_where_known() -> None:
    run = a_run({"loss/val": Series(AT, 1.0 + noise(20, 0.05)), "eval/loss_se": Series(AT, np.full(20, 0.04))})
    [found] = rule.findings(run)
    assert found.facts["se"] == 0.04 and "enlarge the validation set" in found.fix


def test_a_clear_lead_or_a_calm_curve_is_clear() -> None:
    assert rule.outcome(a_run({"loss/val": Series(AT, 1.0 + noise(20, 0.002))})).status is Status.CLEAR
    assert rule.outcome(a_run({"loss/val": Series(AT, learning(20, sd=0.002))})).status is Status.CLEAR


def test_the_limit_is_the_users() -> None:
    run = a_run({"loss/val": Series(AT, 1.0 + noise(20, 0.005))})
    assert not list(rule.findings(run))
    assert list(rule.findings(run, relative=0.001))


def test_few_evaluations_leave_it_blind() -> None:
    assert rule.outcome(a_run({"loss/val": Series(AT[:5], np.ones(5))})).status is Status.BLIND


def test_noise_that_is_small_beside_the_gain_misleads_nobody() -> None:
    falls = np.r_[[3.0, 2.0, 1.5], np.full(17, 1.0)]
    run = a_run({"loss/val": Series(AT, falls + noise(20, 0.03))})
    assert not list(rule.findings(run))
    assert list(rule.findings(run, of_gain=0.01))


def test_a_handful_of_samples_is_said_to_be_one() -> None:
    val = 0.6 + 0.1 * np.random.default_rng(0).standard_normal(20)
    few = {"loss/val": val, "eval/samples": np.full(20, 10.0), "eval/loss_se": np.full(20, 0.1)}
    [found] = rule.findings(a_run(few))
    assert found.variant == "few" and "only 10 samples" in found.message
    [found] = rule.findings(a_run({**few, "eval/samples": np.full(20, 400.0)}))
    assert found.variant == ""


def test_evaluations_that_jump_by_their_own_size_and_win_nothing_are_an_alarm() -> None:
    jumps = np.array([1.2, 0.4, 4.5, 0.5, 3.9, 2.7, 0.4, 4.4, 0.5, 3.4, 2.2, 0.6, 3.8, 2.0])
    [found] = rule.findings(a_run({"loss/val": Series(AT[:14], jumps)}))
    assert found.variant == "wild" and found.severity is Severity.WARNING and "model.eval()" in found.fix
    [better] = rule.findings(a_run({"loss/val": Series(AT[:14], np.r_[9.0, jumps[1:]])}))
    assert better.severity is Severity.INFO
