"""EVAL003: a metric that is not what the predictions say."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.eval003_metric_contradicts_loss import metric_contradicts_loss as rule
from traindx.run import Run, Series


def _run(reported: float, recomputed: float, n: float = 1000.0, name: str = "accuracy") -> Run:
    return a_run({"eval/samples": np.full(3, n)}, facts={"eval.metric_recomputed": {name: [reported, recomputed]}})


def test_names_the_metric_and_both_values() -> None:
    [found] = rule.findings(_run(0.10, 0.93))
    assert found.message == "accuracy was reported as 0.1; the predictions give 0.93"
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT and found.where == ("accuracy",)


def test_a_small_difference_beyond_chance_is_a_warning() -> None:
    [found] = rule.findings(_run(0.90, 0.93))
    assert found.severity is Severity.WARNING


def test_predictions_are_not_recomputed_from_what_a_wrong_loss_was_given() -> None:
    """Keras takes probabilities where from_logits is not set: raw outputs are divided by their sum, which may be negative."""
    keras = {"loss.kind": "nll", "loss.log_probabilities": False, "loss.input_range": [-16.1, 0.0]}
    for reported, recomputed in ((0.525, 0.1125), (0.115, 0.265)):  # a negative sum turns the order round
        assert not rule.outcome(_run(reported, recomputed).with_(facts=keras)).findings
    assert rule.outcome(_run(0.525, 0.1125).with_(facts=keras | {"loss.log_probabilities": True})).findings


def test_rounding_and_chance_are_clear() -> None:
    assert rule.outcome(_run(0.9304, 0.93)).status is Status.CLEAR
    assert rule.outcome(_run(0.925, 0.93, n=200)).status is Status.CLEAR


def test_without_a_reported_metric_it_is_blind() -> None:
    assert rule.outcome(_run(0.5, 0.9, name="loss")).status is Status.BLIND  # the loss is EVAL008's
    assert rule.outcome(a_run({"loss/val": np.ones(5)})).status is Status.BLIND


def _logged(loss: float, accuracy: float, **facts: Any) -> Run:
    at = np.arange(4) * 10
    base = {"loss.kind": "ce", "loss.reduction": "mean"}
    signals = {"loss/val": Series(at, np.full(4, loss)), "metric/val/acc": Series(at, np.full(4, accuracy))}
    return a_run(signals, facts={**base, **{k.replace("__", "."): v for k, v in facts.items()}})


def test_an_accuracy_that_the_loss_rules_out() -> None:
    [found] = rule.findings(_logged(0.2, 0.4))
    assert found.variant == "bound" and "71" in found.message and found.where == ("metric/val/acc",)


def test_what_is_possible_is_clear() -> None:
    assert rule.outcome(_logged(0.2, 0.75)).status is Status.CLEAR
    for more in ({"loss__weighted": True}, {"loss__kind": "unknown"}, {"data__token": {"vocab": 9}}):
        assert rule.outcome(_logged(0.2, 0.4, **more)).status is Status.BLIND


def test_the_limit_is_the_users() -> None:
    assert not list(rule.findings(_run(0.90, 0.93), least=0.1))


def test_a_printed_accuracy_that_never_moves_is_told() -> None:
    real = np.array([0.51, 0.53, 0.52, 0.55, 0.54])
    [found] = rule.findings(a_run({"eval/claimed_accuracy": np.zeros(5), "accuracy/val": real}))
    assert found.variant == "constant" and found.severity is Severity.CRITICAL
    near = a_run({"eval/claimed_accuracy": np.full(5, 0.54), "accuracy/val": real})
    assert not rule.outcome(near).findings


def test_where_two_axes_could_be_the_classes_the_metric_is_not_blamed() -> None:
    table = {"eval.metric_recomputed": {"accuracy": [0.21, 0.14]}, "loss.kind": "ce", "loss.classes": 12}
    assert list(rule.findings(a_run(facts=table)))
    assert not list(rule.findings(a_run(facts={**table, "loss.input_shape": [50, 12, 12]})))


def test_a_printed_accuracy_that_never_meets_the_predictions() -> None:
    rising = Series(np.arange(8) * 50, np.linspace(0.7, 0.98, 8))
    wrong = Series(np.arange(8) * 50, 0.2 + 0.02 * np.cos(np.arange(8)))
    [found] = rule.findings(a_run({"accuracy/val": rising, "eval/claimed_accuracy": wrong}))
    assert found.variant == "printed" and found.severity is Severity.WARNING and "8 times out of 8" in found.message
    of_training = {"accuracy/val": wrong, "eval/claimed_accuracy": rising, "accuracy/train": rising}
    for sound in (of_training, {"accuracy/val": rising, "eval/claimed_accuracy": rising}):
        assert rule.outcome(a_run(sound)).status is Status.BLIND


def test_a_threshold_of_one_half_on_probabilities_is_no_wrong_metric() -> None:
    def told(**facts: Any) -> Run:
        base = {"eval.metric_recomputed": {"accuracy": [0.97, 0.67]}, "loss.kind": "bce_logits"}
        return a_run({"eval/samples": np.full(3, 1000.0)}, facts=base | {k.replace("__", "."): v for k, v in facts.items()})

    assert rule.outcome(told(loss__unit_interval=True)).status is Status.CLEAR  # WIRE006 speaks
    assert [f.variant for f in rule.findings(told(loss__unit_interval=False))] == [""]


def test_arithmetic_that_explains_every_evaluation_needs_no_error_bar() -> None:
    for how, words in (("half", "compared with 0.5"), ("padded", "padding")):
        run = _run(0.84, 0.85, n=600).with_(facts={"eval.metric_formula": {"accuracy": how}})
        [found] = rule.findings(run)
        assert found.variant == how and words in found.message and found.severity is Severity.WARNING
    assert rule.outcome(_run(0.84, 0.85, n=600)).status is Status.CLEAR


def test_one_half_is_right_for_probabilities_that_go_into_a_loss_for_logits() -> None:
    facts = {"eval.metric_formula": {"accuracy": "half"}, "loss.kind": "bce_logits", "loss.unit_interval": True}
    assert rule.outcome(_run(0.70, 0.93).with_(facts=facts)).status is Status.CLEAR
