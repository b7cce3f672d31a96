"""WIRE006: an activation before a loss that applies it again."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.wire006_double_activation import double_activation as rule
from traindx.run import Run


def loss(kind: str, **facts: object) -> Run:
    table = {"loss.kind": kind, "loss.classes": 10, "loss.checked_batches": 5, "loss.site": "train.py:31"}
    return a_run(loss__train=[2.3, 2.2], facts=table | {k.replace("__", "."): v for k, v in facts.items()})


def test_softmax_into_cross_entropy_names_the_line_and_the_floor() -> None:
    [found] = rule.findings(loss("ce", loss__probabilities=True, loss__unit_interval=True))
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert found.where == ("train.py:31",) and "1.4612" in found.message


def test_plain_logits_are_clear() -> None:
    run = loss("ce", loss__probabilities=False, loss__unit_interval=False, loss__log_probabilities=False)
    assert rule.outcome(run).status is Status.CLEAR


def test_log_softmax_with_nll_is_right() -> None:
    assert not list(rule.findings(loss("nll", loss__log_probabilities=True, loss__input_range=[-9.0, -0.1])))


def test_log_softmax_with_cross_entropy_is_harmless() -> None:
    [found] = rule.findings(loss("ce", loss__log_probabilities=True))
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(("probabilities", "what"), [(True, "probabilities"), (False, "raw outputs")])
def test_nll_wants_log_probabilities(probabilities: bool, what: str) -> None:
    facts = {"loss__log_probabilities": False, "loss__probabilities": probabilities, "loss__input_range": [0.0, 0.9]}
    [found] = rule.findings(loss("nll", **facts))
    assert found.severity is Severity.CRITICAL and what in found.message


def test_a_sigmoid_into_bce_with_logits_is_a_fact_when_the_sigmoid_is_known() -> None:
    head = {"kind": "sigmoid", "module": "act", "range": [0, 1]}
    [found] = rule.findings(loss("bce_logits", loss__unit_interval=True, model__head_activation=head))
    assert found.confidence is Confidence.EXACT and found.variant == "sigmoid"


def test_logits_that_start_inside_the_unit_interval_get_time_to_leave_it() -> None:
    inside = {"loss__unit_interval": True, "loss__input_range": [0.1, 0.4]}
    assert not list(rule.findings(loss("bce_logits", **inside)))
    [found] = rule.findings(loss("bce_logits", **inside, loss__checked_batches=12))
    assert found.confidence is Confidence.STRONG
    assert list(rule.findings(loss("bce_logits", **inside), patience=5))


def test_one_batch_is_not_enough() -> None:
    assert rule.outcome(loss("ce", loss__probabilities=True, loss__checked_batches=1)).status is Status.UNSURE


def test_distillation_with_log_probabilities_is_right_and_with_probabilities_wrong() -> None:
    assert not list(rule.findings(loss("kl", loss__log_probabilities=True, loss__input_range=[-5.0, 0.0])))
    [found] = rule.findings(loss("kl", loss__probabilities=True, loss__input_range=[0.0, 0.8], loss__log_probabilities=False))
    assert found.variant == "kl"


def test_bce_after_a_sigmoid_is_info() -> None:
    [found] = rule.findings(loss("bce", model__head_activation={"kind": "sigmoid"}))
    assert found.severity is Severity.INFO


@pytest.mark.parametrize("kind", ["mse", "contrastive", "unknown", "huber"])
def test_other_losses_are_left_alone(kind: str) -> None:
    assert rule.outcome(loss(kind, loss__probabilities=True, loss__unit_interval=True)).status is Status.CLEAR


def test_log_softmax_along_the_batch_is_not_called_raw_outputs() -> None:
    facts = {"loss__log_probabilities": False, "loss__input_range": [-9.0, -0.1]}
    assert not list(rule.findings(loss("nll", model__head_activation={"kind": "log_softmax", "dim": 0}, **facts)))
    assert list(rule.findings(loss("nll", model__head_activation={"kind": "relu"}, **facts)))
    positive = facts | {"loss__input_range": [-9.0, 3.0]}
    assert list(rule.findings(loss("nll", model__head_activation={"kind": "log_softmax", "dim": 0}, **positive)))


def test_a_divergence_below_zero_needs_no_third_batch() -> None:
    few = {"loss__checked_batches": 2, "loss__input_range": [0.0, 0.9]}
    below, above = ({"loss/train": np.full(60, v)} for v in (-9.0, 0.3))
    [found] = rule.findings(loss("kl", **few).with_(a_run(below).signals))
    assert found.variant == "kl"
    assert not list(rule.findings(loss("kl", **few).with_(a_run(above).signals)))
    right = loss("kl", loss__checked_batches=2, loss__input_range=[-9.0, 0.0])  # another term may be negative
    assert not list(rule.findings(right.with_(a_run(below).signals)))
