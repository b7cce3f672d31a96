"""DATA011: classes too rare to be met."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.data011_class_imbalance_feed import class_imbalance_feed as rule
from traindx.run import Run

RARE = {"0": 4900, "1": 100}


def _run(counts: Any = None, recall: float | None = None, accuracy: float | None = None, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    signals: dict[str, Any] = {"batch/size": np.full(50, 32.0)}
    if recall is not None:
        signals["eval/recall/class"] = {"0": np.full(4, 0.99), "1": np.full(4, recall)}
        signals["eval/support/class"] = {"0": np.full(4, 980.0), "1": np.full(4, 40.0)}
    if accuracy is not None:
        signals["accuracy/val"] = np.full(4, accuracy)
    return a_run(signals, facts={"data.class_counts": RARE if counts is None else counts, **named})


def test_imbalance_alone_is_a_remark() -> None:
    [found] = rule.findings(_run())
    assert found.severity is Severity.INFO and found.where == ("class 1",)
    assert "49 times" in found.message and "0.64" in found.message


def test_a_rare_class_that_is_never_found_is_a_warning() -> None:
    [found] = rule.findings(_run(recall=0.0))
    assert found.variant == "harm" and found.severity is Severity.WARNING and "recall of class 1 is 0%" in found.message


def test_accuracy_at_the_majority_is_harm() -> None:
    [found] = rule.findings(_run(accuracy=0.98, data__val_class_counts={"0": 980, "1": 20}))
    assert found.variant == "harm"


def test_a_rare_class_that_is_found_is_no_harm() -> None:
    [found] = rule.findings(_run(recall=0.8, accuracy=0.995, data__val_class_counts={"0": 980, "1": 20}))
    assert found.variant == "" and found.severity is Severity.INFO


def test_weights_and_samplers_treat_it() -> None:
    assert rule.outcome(_run(loss__weighted=True)).status is Status.CLEAR
    [found] = rule.findings(_run(recall=0.0, loss__weighted=True))
    assert found.severity is Severity.INFO


def test_mild_imbalance_is_clear() -> None:
    assert rule.outcome(_run({"0": 900, "1": 100})).status is Status.CLEAR
    assert list(rule.findings(_run({"0": 900, "1": 100}, accuracy=0.95), ratio=5.0))


def test_vocabularies_and_many_classes_are_not_judged() -> None:
    zipf = {str(i): 10_000 / (i + 1) for i in range(200)}
    assert rule.outcome(_run(zipf)).status is Status.MUTED
    letters = {"0": 9000, "1": 300, "2": 10}
    assert rule.outcome(_run(letters, data__token={"vocab": 3}, loss__next_target_share=1.0)).status is Status.MUTED
    few = {str(i): 10_000 / (i + 1) ** 2 for i in range(30)}
    assert rule.outcome(_run(few, data__token={"vocab": 30})).status is Status.MUTED


def test_few_labels_leave_it_unsure() -> None:
    assert rule.outcome(_run({"0": 98, "1": 2})).status is Status.UNSURE


def test_the_same_answer_to_every_training_sample_is_harm_too() -> None:
    run = a_run({"batch/size": np.full(150, 32.0), "output_top_share": np.ones(130)}, facts={"data.class_counts": RARE})
    [found] = rule.findings(run)
    assert found.variant == "harm" and found.severity is Severity.WARNING
    early = a_run({"batch/size": np.full(50, 32.0), "output_top_share": np.ones(30)}, facts={"data.class_counts": RARE})
    assert [f.severity for f in rule.findings(early)] == [Severity.INFO]  # every run begins with the commonest class
    mixed = a_run({"batch/size": np.full(50, 32.0), "output_top_share": np.full(30, 0.95)}, facts={"data.class_counts": RARE})
    assert [f.severity for f in rule.findings(mixed)] == [Severity.INFO]


def test_none_of_a_dozen_is_harm_and_none_of_three_is_not() -> None:
    for n, variant in ((12.0, "harm"), (3.0, "")):
        run = _run(recall=0.0)
        rare = a_run({"eval/support/class": {"0": np.full(4, 980.0), "1": np.full(4, n)}})
        [found] = rule.findings(run.with_(rare.signals))
        assert found.variant == variant


def test_counts_come_from_batches_or_evaluations_where_no_table_was_kept() -> None:
    batches = {"0": np.full(60, 31.5), "1": np.full(60, 0.5)}
    [found] = rule.findings(a_run({"batch/labels/class": batches, "batch/size": np.full(60, 32.0)}))
    assert found.where == ("class 1",)
    seen = {"eval/support/class": {"0": np.full(4, 780.0), "1": np.full(4, 18.0)}}
    never = {"eval/recall/class": {"0": np.ones(4), "1": np.zeros(4)}}
    assert [f.severity for f in rule.findings(a_run({**seen, **never}))] == [Severity.WARNING]


def test_classes_in_clumps_of_which_a_part_was_read_are_not_counted() -> None:
    clumps = {"data.label_dispersion": 16.0, "data.label_dispersion_p": 1e-99}
    run = a_run({"batch/size": np.full(4000, 16.0)}, facts={"data.class_counts": RARE, **clumps})
    assert rule.outcome(run).status is Status.UNSURE
