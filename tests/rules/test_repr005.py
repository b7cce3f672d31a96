"""REPR005: checkpoints that cannot resume."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.repr005_checkpoint_incomplete import checkpoint_incomplete as rule
from traindx.run import Event


def test_a_training_checkpoint_without_the_optimizer() -> None:
    [found] = rule.findings(a_run(facts={"checkpoint.missing": ["optimizer", "rng"], "checkpoint.saves": 5}))
    assert found.severity is Severity.WARNING and found.where == ("optimizer",) and found.confidence is Confidence.EXACT


def test_the_scheduler_is_forgotten() -> None:
    events = [Event(100, "checkpoint", {"keys": ["model", "optimizer"], "missing": ["scheduler", "step"]})]
    [found] = rule.findings(a_run(events=events))
    assert found.where == ("scheduler",) and found.steps == (100, 100) and found.severity is Severity.INFO
    [found] = rule.findings(a_run(events=events), least_saves=1)
    assert found.severity is Severity.WARNING


def test_going_on_from_such_a_checkpoint_is_a_warning_and_another_stage_is_not() -> None:
    events = [Event(100, "checkpoint", {"missing": ["optimizer"]}), Event(100, "load", {"missing": [], "unexpected": []})]
    for after, severity in ((1e-3, Severity.WARNING), (1e-4, Severity.INFO)):
        [found] = rule.findings(a_run(lr=np.r_[np.full(100, 1e-3), np.full(100, after)], events=events))
        assert found.severity is severity


def test_weights_alone_are_a_remark() -> None:
    [found] = rule.findings(a_run(facts={"checkpoint.missing": ["optimizer", "scheduler", "step", "rng"]}))
    assert found.variant == "weights" and found.severity is Severity.INFO


def test_complete_checkpoints_are_clear() -> None:
    assert rule.outcome(a_run(facts={"checkpoint.missing": []})).status is Status.CLEAR
    assert rule.outcome(a_run(facts={"checkpoint.missing": ["rng"]})).status is Status.CLEAR


def test_a_weights_file_beside_complete_checkpoints_is_clear() -> None:
    events = [
        Event(100, "checkpoint", {"missing": ["optimizer", "scheduler", "step"]}),
        Event(100, "checkpoint", {"missing": []}),
    ]
    assert rule.outcome(a_run(events=events)).status is Status.CLEAR
