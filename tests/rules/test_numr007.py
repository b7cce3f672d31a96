"""NUMR007: low-precision weights swallow updates."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.numr007_lost_updates import lost_updates as rule
from traindx.run import Run


def lost(big: object, small: object = None, **facts: object) -> Run:
    columns = {"big": big, "small": small if small is not None else np.zeros(20)}
    shapes = {"big": [100, 100], "small": [10]}
    return a_run({"lost_updates/param": columns}, facts={"model.param_shapes": shapes, **facts})


def test_names_the_tensors_and_the_share() -> None:
    [found] = rule.findings(lost(np.full(20, 0.7)))
    assert found.where == ("big",) and "70%" in found.message and found.severity is Severity.WARNING


def test_what_still_learns_is_fine_and_the_limit_decides() -> None:
    assert rule.outcome(lost(np.full(20, 0.22))).status is Status.CLEAR
    assert list(rule.findings(lost(np.full(20, 0.22)), share=0.2))


def test_small_tensors_do_not_speak_for_the_model() -> None:
    assert not list(rule.findings(lost(np.zeros(20), np.ones(20))))


def test_the_tail_of_a_schedule_is_not_the_run() -> None:
    assert not list(rule.findings(lost(np.r_[np.full(16, 0.2), np.ones(4)])))


def test_only_narrow_weights_count() -> None:
    run = lost(np.ones(20), np.zeros(20), **{"model.param_dtypes": {"small": "bfloat16"}})
    assert not list(rule.findings(run))
