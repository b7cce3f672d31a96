"""WIRE007: loss and head do not fit each other."""

from __future__ import annotations

import pytest

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.wire007_loss_head_mismatch import loss_head_mismatch as rule
from traindx.run import Run

IDS = {"loss.target_integral": True, "loss.target_unique": 10, "loss.target_range": [0, 9]}


def loss(kind: str, **facts: object) -> Run:
    table = {"loss.kind": kind, "loss.reduction": "mean"}
    return a_run(loss__train=[2.3, 2.2], facts=table | facts)


def test_cross_entropy_over_one_class() -> None:
    [found] = rule.findings(loss("ce", **{"loss.classes": 1}))
    assert found.severity is Severity.CRITICAL and found.variant == "one-class"


def test_the_class_axis_in_the_wrong_place_shows_the_shape() -> None:
    [found] = rule.findings(loss("ce", **{"loss.wrong_class_axis": {"shape": [32, 20, 100], "classes": 100}}))
    assert "(32, 20, 100)" in found.message and found.severity is Severity.CRITICAL


@pytest.mark.parametrize(("share", "severity"), [(0.4, Severity.CRITICAL), (0.03, Severity.WARNING)])
def test_targets_beyond_the_head_are_counted(share: float, severity: Severity) -> None:
    head = {"kind": "tanh", "module": "out", "range": [-1, 1]}
    [found] = rule.findings(loss("mse", **{"model.head_activation": head, "loss.unreachable_share": share}))
    assert found.severity is severity and "out" in found.where and "-1 to 1" in found.message


def test_the_limit_on_unreachable_targets() -> None:
    run = loss("mse", **{"model.head_activation": {"kind": "tanh", "range": [-1, 1]}, "loss.unreachable_share": 0.005})
    assert not list(rule.findings(run))
    assert list(rule.findings(run, unreachable=0.001))


def test_a_relu_head_for_targets_that_are_never_negative_is_fine() -> None:
    head = {"kind": "relu", "module": "out", "range": [0, float("inf")]}
    run = loss("mse", **{"model.head_activation": head, "loss.unreachable_share": 0.0})
    assert rule.outcome(run).status is Status.CLEAR


def test_tanh_on_logits() -> None:
    [found] = rule.findings(loss("ce", **{"loss.classes": 10, "model.head_activation": {"kind": "tanh", "module": "out"}}))
    assert found.variant == "bounded-logits" and found.severity is Severity.WARNING


def test_evenly_frequent_whole_numbers_under_mse_look_like_class_ids() -> None:
    [found] = rule.findings(loss("mse", **IDS, **{"data.class_counts": [100] * 10}))
    assert found.severity is Severity.WARNING and found.confidence is Confidence.STRONG


def test_counts_have_tails_and_are_only_asked_about() -> None:
    [found] = rule.findings(loss("mse", **IDS, **{"data.class_counts": [400, 300, 200, 100, 50, 20, 10, 5, 2, 1]}))
    assert found.severity is Severity.INFO and found.confidence is Confidence.SUGGESTIVE


def test_ratings_from_one_to_five_are_left_alone() -> None:
    facts = {"loss.target_integral": True, "loss.target_unique": 5, "loss.target_range": [1, 5]}
    assert not list(rule.findings(loss("mse", **facts, **{"data.class_counts": [10] * 5})))


def test_least_squares_gans_are_left_alone() -> None:
    facts = {"loss.target_integral": True, "loss.target_unique": 3, "loss.target_range": [0, 2], "adversarial": True}
    assert not list(rule.findings(loss("mse", **facts)))


@pytest.mark.parametrize("facts", [{"loss.reduction": "sum"}, {"loss.target_one_hot": True}])
def test_remarks_stay_info(facts: dict[str, object]) -> None:
    [found] = rule.findings(loss("bce_logits", **facts))
    assert found.severity is Severity.INFO


def test_a_sum_that_is_divided_by_its_targets_is_a_mean() -> None:
    assert not list(rule.findings(loss("ce", **{"loss.reduction": "sum", "loss.divided": True})))


def test_an_unbounded_side_is_said_as_such() -> None:
    head = {"kind": "relu", "module": None, "range": [0.0, None]}
    [found] = rule.findings(loss("mse", **{"model.head_activation": head, "loss.unreachable_share": 0.5}))
    assert "(0 to inf)" in found.message


def test_binary_targets_beyond_the_unit_interval() -> None:
    [found] = rule.findings(loss("bce_logits", **{"loss.unreachable_share": 0.3}))
    assert found.variant == "unreachable" and "(0 to 1)" in found.message


def test_as_many_outputs_as_whole_numbers_are_classes_whatever_their_frequency() -> None:
    [found] = rule.findings(loss("mse", **IDS, **{"loss.input_shape": [50, 10]}))
    assert found.variant == "one-output-each" and found.severity is Severity.WARNING
    [single] = rule.findings(loss("mse", **IDS, **{"loss.input_shape": [50, 1]}))
    assert single.severity is Severity.INFO


def test_two_axes_that_could_be_the_classes_and_an_accuracy_that_takes_the_other() -> None:
    seen = {"loss.kind": "ce", "loss.classes": 12, "loss.input_shape": [50, 12, 12], "loss.target_shape": [50, 12]}
    other = {"eval.metric_recomputed": {"accuracy": [0.21, 0.14]}}
    [found] = rule.findings(a_run(facts={**seen, **other}))
    assert found.variant == "either-axis" and found.severity is Severity.CRITICAL and "(50, 12, 12)" in found.message
    assert not list(rule.findings(a_run(facts={**seen, "eval.metric_recomputed": {"accuracy": [0.8, 0.8]}})))
    assert not list(rule.findings(a_run(facts={**seen, **other, "loss.input_shape": [50, 12, 9]})))


def test_outputs_that_are_reshaped_across_the_classes() -> None:
    told = {"shape": [16, 3, 8, 8], "classes": 3, "torn": True}
    run = a_run(facts={"loss.kind": "ce", "loss.classes": 3, "loss.site": "train.py:17", "loss.wrong_class_axis": told})
    [found] = rule.findings(run)
    assert found.variant == "torn" and found.severity is Severity.CRITICAL and found.where == ("train.py:17",)
