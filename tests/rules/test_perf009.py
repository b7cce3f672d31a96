"""PERF009: padding."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.perf009_padding_waste import padding_waste as rule


def test_says_how_much_is_padding() -> None:
    [found] = rule.findings(a_run({"batch/pad_share": np.full(200, 0.75)}))
    assert found.severity is Severity.WARNING and "75%" in found.message and "4.0 times" in found.fix


def test_half_is_a_remark_and_little_is_clear() -> None:
    [found] = rule.findings(a_run({"batch/pad_share": np.full(200, 0.5)}))
    assert found.severity is Severity.INFO
    assert rule.outcome(a_run({"batch/pad_share": np.full(200, 0.2)})).status is Status.CLEAR
    assert list(rule.findings(a_run({"batch/pad_share": np.full(200, 0.2)}), most=0.1))


def test_few_batches_leave_it_blind() -> None:
    assert rule.outcome(a_run({"batch/pad_share": np.full(10, 0.9)})).status is Status.BLIND
