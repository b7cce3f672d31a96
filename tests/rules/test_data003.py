"""DATA003: labels that do not fit the head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.data003_label_encoding import label_encoding as rule
from traindx.run import Event, Matrix, Run, Series

CE = {
    "loss.kind": "ce",
    "loss.classes": 10,
    "loss.target_dtype": "int64",
    "loss.ignore_index": -100,
    "loss.site": "train.py:40",
}


def _run(**facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    return a_run(facts={**CE, **named})


def test_labels_beyond_the_head_name_the_loss_call() -> None:
    [found] = rule.findings(_run(loss__target_range=[1, 10]))
    assert found.variant == "range" and found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert (
        found.where == ("train.py:40",)
        and found.message == "targets range from 1 to 10, but the model's output has classes 0 to 9"
    )


def test_the_event_is_enough() -> None:
    event = Event(0, "label_out_of_range", {"min": -1, "max": 9, "classes": 10})
    [found] = rule.findings(a_run(events=[event]))
    assert found.variant == "range" and found.steps == (0, 0)


@pytest.mark.parametrize("span", [[0, 9], [-100, 9], [3, 7]])
def test_labels_in_range_and_the_ignored_one_are_clear(span: list[int]) -> None:
    assert rule.outcome(_run(loss__target_range=span)).status is Status.CLEAR


def test_minus_one_is_wrong_unless_it_is_ignored() -> None:
    assert list(rule.findings(_run(loss__target_range=[-1, 9])))
    assert not list(rule.findings(_run(loss__target_range=[-1, 9], loss__ignore_index=-1)))


def test_float_targets_of_a_softmax_loss_are_no_indexes() -> None:
    run = _run(loss__target_range=[0.0, 1.0], loss__target_dtype="float32", loss__target_row_sum=[1.0, 1.0])
    assert rule.outcome(run).status is Status.CLEAR


def test_multi_hot_rows_in_a_softmax_loss() -> None:
    run = _run(loss__target_range=[0.0, 1.0], loss__target_dtype="float32", loss__target_row_sum=[0.0, 3.0])
    [found] = rule.findings(run)
    assert found.variant == "rows" and "BCEWithLogits" in found.fix


def test_binary_targets_outside_the_unit_interval() -> None:
    facts = {"loss.kind": "bce_logits", "loss.target_dtype": "float32"}
    [found] = rule.findings(a_run(facts={**facts, "loss.target_range": [0.0, 2.0]}))
    assert found.variant == "binary"
    assert not list(rule.findings(a_run(facts={**facts, "loss.target_range": [0.0, 1.0]})))


def test_labels_that_start_at_one_are_a_remark() -> None:
    counts = {str(c): 100 for c in range(1, 10)}
    [found] = rule.findings(_run(loss__target_range=[1, 9], data__class_counts=counts))
    assert found.variant == "one-based" and found.severity is Severity.INFO


def test_what_the_loss_is_asked_for_counts_before_what_the_loader_brings() -> None:
    run = _run(loss__target_range=[1, 9], data__class_counts={str(c): 100 for c in range(9)})
    [found] = rule.findings(run.with_({"batch/labels/class": _labels([0, *[10] * 9])}))
    assert found.variant == "one-based"


def _labels(counts: list[float], times: int = 10) -> Matrix:
    return Matrix(np.arange(times), tuple(str(i) for i in range(len(counts))), np.tile(np.array(counts, float), (times, 1)))


@pytest.mark.parametrize(
    ("asked", "shown", "told"),
    [
        ([0, 20, 20, 20], [60, 60, 60], True),  # from 1 in training, from 0 in validation
        ([20, 20, 20], [0, 60, 60, 60], True),  # and the other way round
        ([0, 20, 20, 20], [0, 60, 60, 60], False),  # from 1 in both
        ([20, 20, 20], [60, 60, 60], False),
        ([20, 20, 20], [0, 60, 60], False),  # a class that is rare in validation
        ([0, 30, 29, 1], [4, 3, 1, 0], False),  # so few that a class may be missing
    ],
)
def test_labels_that_are_off_by_one_between_training_and_validation(asked: list[float], shown: list[float], told: bool) -> None:
    run = _run(loss__target_range=[0, 9]).with_(
        {"batch/labels/class": _labels(asked), "eval/support/class": _labels(shown, times=1)}
    )
    found = [f for f in rule.findings(run) if f.variant == "apart"]
    assert bool(found) is told
    if told:
        assert found[0].severity is Severity.CRITICAL and "the label tables differ by one" in found[0].message


def test_a_head_far_too_wide_is_a_remark_and_a_vocabulary_is_not() -> None:
    facts = {"loss.classes": 50, "loss.target_range": [0, 4], "data.class_counts": [600] * 5}
    [found] = rule.findings(a_run(facts={**CE, **facts}))
    assert found.variant == "unused" and found.facts["unused"] == 45
    assert not list(rule.findings(a_run(facts={**CE, **facts, "data.token": {"vocab": 50}})))


def _confusion(answers: list[int], right: float = 0.9) -> list[list[float]]:
    n = len(answers)
    table = np.full((n, n), 100 * (1 - right) / (n - 1))
    table[np.arange(n), answers] = 100 * right
    return table.tolist()


def test_a_permuted_validation_set_is_recognised() -> None:
    [found] = rule.findings(_run(loss__target_range=[0, 4], eval__confusion=_confusion([1, 2, 3, 4, 0])))
    assert found.variant == "permuted" and found.confidence is Confidence.STRONG and "0 answered as 1" in found.where


def test_an_ordinary_confusion_is_not_a_permutation() -> None:
    for table in (_confusion([0, 1, 2, 3, 4]), np.full((5, 5), 20.0).tolist(), _confusion([0, 1, 2, 4, 3], 0.4)):
        assert not list(rule.findings(_run(loss__target_range=[0, 4], eval__confusion=table)))


def test_the_gain_is_the_users() -> None:
    table = _confusion([1, 0, 2, 3, 4])
    assert list(rule.findings(_run(loss__target_range=[0, 4], eval__confusion=table)))
    assert not list(rule.findings(_run(loss__target_range=[0, 4], eval__confusion=table), gain=0.5))


@pytest.mark.parametrize("odd", ["text", [[1, 2]], [[1, "x"], [2, 3]], None, [[float("nan"), 1], [1, 1]]])
def test_a_confusion_of_odd_shape_is_left_alone(odd: Any) -> None:
    assert rule.outcome(_run(loss__target_range=[0, 9], eval__confusion=odd)).status is Status.CLEAR


def test_classes_that_were_once_answered_right_are_not_renamed() -> None:
    table = _confusion([1, 2, 3, 4, 0])
    run = _run(loss__target_range=[0, 4], eval__confusion=table)
    forgotten = run.with_({"accuracy/val": Series(np.arange(6), np.array([0.2, 0.6, 0.9, 0.9, 0.1, 0.0]))})
    assert list(rule.findings(run)) and not list(rule.findings(forgotten))


def test_labels_that_training_does_not_answer_either_are_no_permutation() -> None:
    run = _run(loss__target_range=[0, 4], eval__confusion=_confusion([1, 2, 3, 4, 0]))
    for level, told in ((0.1, False), (0.9, True)):
        trained = run.with_({"accuracy/train": Series(np.arange(40), np.full(40, level))})
        assert bool(list(rule.findings(trained))) is told


def test_classes_of_texts_are_counted_and_words_are_not() -> None:
    counts = {str(c): 300 for c in range(1, 6)}
    told = {"loss__kind": "ce", "loss__classes": 6, "data__class_counts": counts, "loss__target_range": [1, 5]}
    assert [f.variant for f in rule.findings(_run(**told, data__token={"vocab": 200}))] == ["one-based"]
    assert not list(rule.findings(_run(**told, data__token={"vocab": 8})))


def rows(first: float) -> Run:
    facts = {"loss.kind": "ce", "loss.target_range": [0.0, 1.0], "loss.target_dtype": "float32", "loss.classes": 5}
    return a_run(loss__train=[1.0], facts={**facts, "loss.target_row_sum": [0.0, 1.0], "loss.target_first_class": first})


def test_one_hot_rows_of_labels_that_start_at_one() -> None:
    assert next(rule.findings(rows(0.0))).variant == "cut"
    [found] = rule.findings(rows(1.0))
    assert found.variant == "blank" and found.severity is Severity.INFO


def test_labels_that_are_all_the_same() -> None:
    facts = {"loss.kind": "ce", "loss.target_range": [1.0, 1.0], "loss.classes": 5, "loss.straight": True}
    run = a_run({"batch/labels/class": {str(k): np.full(40, 50.0 * (k == 1)) for k in range(5)}}, facts=facts)
    [found] = rule.findings(run)
    assert found.variant == "only" and found.severity is Severity.WARNING
    similar = a_run(
        {"batch/labels/class": {str(k): np.full(40, 50.0 * (k == 0)) for k in range(5)}}, facts=facts | {"loss.straight": False}
    )
    assert all(f.severity is Severity.INFO for f in rule.findings(similar))
