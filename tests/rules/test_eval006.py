"""EVAL006: validation better than training."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, learning, noise
from traindx.finding import Severity, Status
from traindx.rules.eval006_val_better_than_train import val_better_than_train as rule
from traindx.run import Run, Series

AT = np.arange(100, 1001, 100)


def _run(offset: float, facts: dict[str, Any] | None = None, **signals: Any) -> Run:
    train = learning(1001, sd=0.05)
    val = learning(1001, sd=0.0)[AT] + offset + noise(10, 0.005)
    table = {name.replace("__", "/"): value for name, value in signals.items()}
    return a_run({"loss/train": train, "loss/val": Series(AT, val), **table}, facts=facts)


def test_below_training_throughout_is_a_remark() -> None:
    [found] = rule.findings(_run(-0.15))
    assert found.severity is Severity.INFO and found.facts["count"] >= 9


def test_dropout_is_named_as_the_likely_reason() -> None:
    outline = [{"name": "drop", "class": "Dropout", "params": 0, "order": 1}]
    [found] = rule.findings(_run(-0.15, {"model.outline": outline}))
    assert "dropout" in found.message


def test_equal_or_worse_is_clear() -> None:
    for offset in (0.0, -0.003, 0.2):
        assert rule.outcome(_run(offset)).status is Status.CLEAR


def test_the_lag_of_an_epoch_average_is_not_an_advantage() -> None:
    epochs = np.arange(1, 13)
    curve = np.exp(-np.arange(0, 13, 0.1) / 3)
    train = np.array([curve[10 * (e - 1) : 10 * e].mean() for e in epochs])  # mean over the epoch that ended
    val = curve[10 * epochs - 1] + 0.01
    run = a_run({"loss/train": Series(epochs, train), "loss/val": Series(epochs, val)}, facts={"step_unit": "epoch"})
    assert rule.outcome(run).status is Status.CLEAR


def test_epoch_logs_that_stay_below_the_next_epoch_are_found() -> None:
    epochs = np.arange(1, 13)
    run = a_run(
        {"loss/train": Series(epochs, 2 + 1 / epochs), "loss/val": Series(epochs, 1.7 + 1 / epochs)},
        facts={"step_unit": "epoch"},
    )
    assert rule.outcome(run).status is Status.FOUND


def test_clean_training_batches_make_it_a_warning() -> None:
    clean = Series(np.array([1000, 1000, 1000]), np.array([0.62, 0.63, 0.64]))
    [found] = rule.findings(_run(-0.15, eval__train_in_eval=clean))
    assert found.variant == "clean" and found.severity is Severity.WARNING
    clean = Series(np.array([1000, 1000, 1000]), np.array([0.2, 0.21, 0.22]))
    assert rule.outcome(_run(-0.15, eval__train_in_eval=clean)).status is Status.CLEAR


def test_training_data_evaluated_after_every_epoch_are_compared_with_the_validation_of_their_own_step() -> None:
    fell = learning(1001, sd=0.0)[AT]
    healthy = a_run({"loss/train": learning(1001), "loss/val": Series(AT, fell + 0.01), "eval/train_in_eval": Series(AT, fell)})
    assert rule.outcome(healthy).status is Status.CLEAR  # the last validation is far below the training loss of the first half
    easier = a_run({"loss/train": learning(1001), "loss/val": Series(AT, fell * 0.8), "eval/train_in_eval": Series(AT, fell)})
    assert [f.variant for f in rule.findings(easier)] == ["clean"]


def test_the_limit_is_the_users() -> None:
    assert not list(rule.findings(_run(-0.15), margin=0.5))


def test_gan_losses_are_not_compared() -> None:
    assert not list(rule.findings(_run(-0.15, {"adversarial": True})))


def test_a_factor_that_is_there_from_the_start_is_a_divisor_not_a_regulariser() -> None:
    train = learning(1001, sd=0.02)
    [found] = rule.findings(a_run({"loss/train": train, "loss/val": Series(AT, learning(1001, sd=0.0)[AT] / 32)}))
    assert found.variant == "scale" and found.severity is Severity.WARNING and 25 < found.facts["ratio"] < 40
    growing = learning(1001, sd=0.0)[AT] / np.geomspace(2, 32, 10)  # mixup, dropout: the more is learned, the larger the ratio
    [found] = rule.findings(a_run({"loss/train": train, "loss/val": Series(AT, growing)}))
    assert found.variant == "" and found.severity is Severity.INFO
    half = a_run({"loss/train": train, "loss/val": Series(AT, learning(1001, sd=0.0)[AT] / 4)})
    assert [f.variant for f in rule.findings(half)] == [""]
    assert [f.variant for f in rule.findings(half, factor=3.0)] == ["scale"]


def test_losses_that_the_script_reduces_by_itself_are_not_compared() -> None:
    run = a_run({"loss/train": np.linspace(30, 24, 200), "loss/val": Series(np.arange(9, 200, 10), np.linspace(0.5, 0.3, 20))})
    assert list(rule.findings(run))
    assert rule.outcome(run.with_(facts={"loss.reduction": "none"})).status is Status.MUTED
    assert rule.outcome(run.with_(facts={"loss.reduction": "sum"})).status is Status.MUTED  # our own average divides it
