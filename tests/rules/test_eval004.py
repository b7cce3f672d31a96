"""EVAL004: a good average over a failed class or slice."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.eval004_majority_or_slice_failure import majority_or_slice_failure as rule
from traindx.run import Matrix, Run, Series

AT = np.arange(100, 601, 100)


def _run(accuracy: Any, counts: dict[str, int], recall: dict[str, float] | None = None, last: int = 600) -> Run:
    at = AT * last // 600
    table: dict[str, Any] = {"accuracy/val": Series(at, np.broadcast_to(accuracy, 6)), "loss/train": np.ones(last)}
    if recall:
        names = tuple(recall)
        table["eval/recall/class"] = Matrix(at, names, np.tile(list(recall.values()), (6, 1)))
        table["eval/support/class"] = Matrix(at, names, np.tile([counts[n] for n in names], (6, 1)))
    return a_run(table, facts={"data.val_class_counts": counts})


def test_the_majority_class_is_named() -> None:
    [found] = rule.findings(_run(0.95, {"ok": 950, "fraud": 50}))
    assert found.variant == "majority" and found.where == ("ok",) and found.severity is Severity.WARNING
    assert "95.0%" in found.message


def test_balanced_classes_at_chance_point_to_training() -> None:
    [found] = rule.findings(_run(0.1, {str(c): 100 for c in range(10)}))
    assert found.variant == "chance" and found.where == ()


def test_a_largest_class_that_is_small_deceives_nobody() -> None:
    counts = {"8": 215, **{str(c): 87 for c in (0, 1, 2, 3, 4, 5, 6, 7, 9)}}
    [found] = rule.findings(_run(0.21, counts))
    assert found.variant == "chance" and "Fix training first" in found.fix


def test_better_than_the_majority_is_clear() -> None:
    assert rule.outcome(_run(0.85, {"a": 500, "b": 500})).status is Status.CLEAR


def test_an_unsuited_metric_is_a_remark() -> None:
    [found] = rule.findings(_run(0.99, {"ok": 950, "fraud": 50}))
    assert found.variant == "unsuited" and found.severity is Severity.INFO


def test_a_class_that_is_never_found() -> None:
    counts = {"a": 300, "b": 300, "c": 60}
    [found] = rule.findings(_run(0.88, counts, {"a": 0.97, "b": 0.96, "c": 0.0}))
    assert found.variant == "class" and found.where == ("c",) and found.severity is Severity.WARNING
    [common] = rule.findings(_run(0.65, {**counts, "c": 300}, {"a": 0.97, "b": 0.96, "c": 0.0}))
    assert common.variant == "common" and "as frequent" in common.message
    assert rule.outcome(_run(0.88, {**counts, "c": 12}, {"a": 0.97, "b": 0.96, "c": 0.0})).status is Status.CLEAR
    assert not list(rule.findings(_run(0.88, counts, {"a": 0.97, "b": 0.96, "c": 0.2})))


def test_a_class_that_is_not_learned_yet() -> None:
    counts = {"a": 100, "b": 100, "c": 100}
    run = _run(0.65, counts, {"a": 0.97, "b": 0.96, "c": 0.0})
    at = run["accuracy/val"].steps
    rising = run.with_({"accuracy/val": Series(at, np.linspace(0.3, 0.8, len(at)))})
    assert rule.outcome(rising).status is Status.UNSURE
    rare = _run(0.88, {**counts, "c": 30}, {"a": 0.97, "b": 0.96, "c": 0.0})
    assert list(rule.findings(rare.with_({"accuracy/val": rising["accuracy/val"]})))  # a rarity is told at once


def test_the_start_of_a_run_is_unsure() -> None:
    run = _run(0.1, {str(c): 100 for c in range(10)}, last=60)
    early = a_run({"accuracy/val": Series(np.array([20, 40]), np.array([0.1, 0.1]))}, facts=dict(run.facts))
    assert rule.outcome(early).status is Status.UNSURE
    often = {"accuracy/val": Series(np.arange(4, 40, 5), np.full(8, 0.1)), "loss/train": Series(np.arange(40), np.ones(40))}
    assert rule.outcome(a_run(often, facts=dict(run.facts))).status is Status.UNSURE
    epochs = {"accuracy/val": Series(np.arange(30), np.full(30, 0.1)), "loss/train": Series(np.arange(30), np.ones(30))}
    assert [f.variant for f in rule.findings(a_run(epochs, facts=dict(run.facts)))] == ["chance"]


def test_a_slice_beyond_chance_is_a_remark() -> None:
    rows = [
        {"slice": "length > 80", "n": 120, "loss": 2.4, "mean_loss": 0.8, "p": 1e-9},
        {"slice": "length < 5", "n": 120, "loss": 2.4, "mean_loss": 0.8, "p": 0.01},
        {"slice": "dark", "n": 10, "loss": 9.0, "mean_loss": 0.8, "p": 1e-9},
    ]
    [found] = rule.findings(a_run(facts={"eval.slices": rows}))
    assert found.where == ("length > 80",) and found.severity is Severity.INFO


def test_the_limit_is_the_users() -> None:
    counts = {"a": 300, "b": 300, "c": 60}
    assert list(rule.findings(_run(0.9, counts, {"a": 0.97, "b": 0.96, "c": 0.1}), recall=0.12))


def test_a_dozen_samples_cannot_tell_a_model_from_chance() -> None:
    few = _run(0.58, {"a": 8, "b": 4})
    assert rule.outcome(few).status is Status.CLEAR
    assert list(rule.findings(few, resolution=0.5))


def _logged(val: np.ndarray, train: np.ndarray, loss: np.ndarray) -> Run:
    return a_run({"accuracy/val": val, "accuracy/train": train, "loss/val": loss})


def test_an_accuracy_that_never_moves_is_one_answer_for_all() -> None:
    moving = 0.25 + 0.001 * np.sin(np.arange(30))
    same, near = np.full(30, 0.931), np.full(30, 0.9312)
    [found] = rule.findings(_logged(same, near, moving))
    assert found.variant == "same" and found.severity is Severity.WARNING and "all 30 evaluations" in found.message
    late = np.r_[0.9, 0.92, np.full(28, 0.975)]  # a small validation set that is learned
    assert not list(rule.findings(_logged(late, near, moving)))
    assert not list(rule.findings(_logged(same, np.linspace(0.6, 0.99, 30), moving)))  # training learns: EVAL001, EVAL007
    assert not list(rule.findings(_logged(same, near, np.full(30, 0.25))))  # a cached evaluation: EVAL001
    assert not list(rule.findings(_logged(np.full(30, 0.1), np.full(30, 0.1), moving)))  # chance: LOSS002


def test_a_class_without_weight_in_the_loss_is_told_as_that() -> None:
    counts = {"0": 300, "1": 300, "2": 290}
    run = _run(0.65, counts, {"0": 0.97, "1": 0.96, "2": 0.0})
    assert [f.variant for f in rule.findings(run)] == ["common"]
    [found] = rule.findings(run.with_(facts={"loss.weightless": [2], "loss.site": "train.py:7"}))
    assert (
        found.variant == "weightless"
        and found.where == ("2", "train.py:7")
        and "weight in the training loss is 0" in found.message
    )
    [found] = rule.findings(run.with_(facts={"loss.weightless": [1]}))  # a class that does well without
    assert found.variant == "common"
