"""NUMR005: the gradient scaler skips the updates."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.numr005_amp_scale_collapse import amp_scale_collapse as rule


def test_a_collapse_takes_no_update_at_all() -> None:
    skipped = np.ones(60)
    [found] = rule.findings(a_run(amp__skipped=skipped, amp__scale=65536.0 * 0.5 ** np.arange(60)))
    assert found.severity is Severity.CRITICAL and found.variant == "never" and "all 60 updates" in found.message


def test_no_update_at_all_is_told_wherever_the_scale_stands() -> None:
    for scale in (2.0**120 * 0.99 ** np.arange(30), np.full(30, 65536.0)):
        [found] = rule.findings(a_run(amp__skipped=np.ones(30), amp__scale=scale))
        assert found.variant == "never" and "init_scale" in found.fix


def test_calibration_at_the_start_is_normal() -> None:
    skipped = np.r_[np.ones(12), np.zeros(100)]
    scale = np.r_[65536.0 * 0.5 ** np.arange(12), np.full(100, 16.0)]
    assert rule.outcome(a_run(amp__skipped=skipped, amp__scale=scale)).status is Status.CLEAR


def test_a_storm_later_is_not() -> None:
    skipped = np.zeros(200)
    skipped[100:140:2] = 1
    [found] = rule.findings(a_run(amp__skipped=skipped))
    assert found.severity is Severity.WARNING and found.steps == (100, 138)


def test_the_limit_on_a_storm() -> None:
    skipped = np.zeros(200)
    skipped[100:115:3] = 1
    assert not list(rule.findings(a_run(amp__skipped=skipped)))
    assert list(rule.findings(a_run(amp__skipped=skipped), skips=4))


def test_a_short_growth_interval_balances_skips_and_doublings() -> None:
    skipped, scale, level = np.zeros(1500), np.zeros(1500), 1024.0
    for i in range(1500):
        skipped[i] = i % 10 == 9
        level = 1024.0 if skipped[i] else 2048.0 if i % 10 == 8 else level
        scale[i] = level
    assert rule.outcome(a_run(amp__skipped=skipped, amp__scale=scale)).status is Status.CLEAR


def test_many_skips_without_balance_are_counted() -> None:
    skipped = (np.arange(1500) % 10 == 0).astype(float)
    [found] = rule.findings(a_run(amp__skipped=skipped))
    assert found.severity is Severity.WARNING
