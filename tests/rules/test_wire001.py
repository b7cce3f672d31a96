"""WIRE001: a trainable parameter that no optimizer holds."""

from __future__ import annotations

import pytest

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.wire001_param_not_owned import param_not_owned as rule
from traindx.run import Run

SHAPES = {"body.weight": [30, 20], "body.bias": [30], "head.weight": [10, 30], "head.bias": [10]}


def seen(*unowned: str, **facts: object) -> Run:
    table = {"model.unowned": list(unowned), "model.param_shapes": SHAPES, "optimizer.count": 1, **facts}
    return a_run(loss__train=[1.0, 1.0], facts=table)


def test_names_the_parameters_largest_first() -> None:
    [found] = rule.findings(seen("head.bias", "head.weight"))
    assert found.where == ("head.weight", "head.bias")
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert "2 trainable parameters (33.0% of them)" in found.message


def test_a_trifle_is_a_warning() -> None:
    [found] = rule.findings(seen("head.bias"))
    assert found.severity is Severity.WARNING


def test_the_limit_moves_the_border() -> None:
    [found] = rule.findings(seen("head.bias"), critical_share=0.01)
    assert found.severity is Severity.CRITICAL


def test_an_optimizer_of_another_model_is_critical_however_small() -> None:
    [found] = rule.findings(seen("head.bias", **{"model.foreign_params": 2}))
    assert found.variant == "stale" and found.severity is Severity.CRITICAL


def test_a_backbone_left_out_while_fine_tuning_is_intent() -> None:
    [found] = rule.findings(seen("body.weight", "body.bias", finetune=True))
    assert found.severity is Severity.INFO and "requires_grad_(False)" in found.fix


def test_a_forgotten_head_while_fine_tuning_is_not_intent() -> None:
    [found] = rule.findings(seen("head.weight", "head.bias", finetune=True))
    assert found.severity is Severity.CRITICAL


def test_the_same_from_scratch_is_not_intent() -> None:
    [found] = rule.findings(seen("body.weight", "body.bias", finetune=False))
    assert found.severity is Severity.CRITICAL


def test_all_owned_is_clear() -> None:
    assert rule.outcome(seen()).status is Status.CLEAR


def test_manual_updates_have_no_owner() -> None:
    assert rule.outcome(seen("head.weight", **{"optimizer.count": 0})).status is Status.MUTED


@pytest.mark.parametrize("share", [0.0005, 0.25])
def test_the_observers_share_is_believed(share: float) -> None:
    [found] = rule.findings(seen("x.unknown", **{"model.unowned_share": share}))
    assert (found.severity is Severity.CRITICAL) is (share > 0.05)
