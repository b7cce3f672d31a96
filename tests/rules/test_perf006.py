"""PERF006: compiled again and again."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Confidence, Severity, Status
from traindx.rules.perf006_recompilation import recompilation as rule


def test_counts_what_came_after_the_warm_up() -> None:
    [found] = rule.findings(a_run(recompiles=np.arange(200) // 10))
    assert found.severity is Severity.WARNING and found.confidence is Confidence.EXACT and found.facts["count"] == 14
    assert rule.outcome(a_run(recompiles=np.minimum(np.arange(200), 60) // 3)).status is Status.CLEAR


def test_early_compilations_are_normal() -> None:
    assert rule.outcome(a_run(recompiles=np.minimum(np.arange(200), 8))).status is Status.CLEAR


def test_slow_steps_of_many_shapes_are_a_remark() -> None:
    times = steady(400, 0.05)
    times[60::20] = 1.0
    run = a_run({"time/step": times}, facts={"perf.compiled": True, "perf.shapes": 30})
    [found] = rule.findings(run)
    assert found.variant == "slow" and found.severity is Severity.INFO
    assert rule.outcome(a_run({"time/step": times}, facts={"perf.compiled": True, "perf.shapes": 1})).status is Status.CLEAR


def test_a_compiler_that_gave_up_is_told_with_its_reason() -> None:
    gave_up = {"step": 8, "graphs": 8.0, "reason": "tensor 'x' size mismatch at index 0. expected 39, actual 46"}
    [found] = rule.findings(a_run(recompiles=np.minimum(np.arange(200), 8)).with_(facts={"perf.uncompiled": gave_up}))
    assert found.variant == "limit" and found.severity is Severity.WARNING and found.steps == (8, 199)
    assert "after 8 versions" in found.message and "expected 39" in found.message


def test_the_limit_is_the_users() -> None:
    assert not list(rule.findings(a_run(recompiles=np.arange(200) // 10), most=20))
