"""DATA006: validation samples that were trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.data006_split_overlap import split_overlap as rule
from traindx.run import Run, Series


def _run(shared: int, val: int = 1000, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    return a_run(facts={"data.shared": shared, "data.seen": {"train": 5000, "val": val}, **named})


def test_says_how_many_samples_are_shared() -> None:
    [found] = rule.findings(_run(200))
    assert found.message == "200 of 1000 validation samples (20.0%) were also trained on"
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT


def test_a_few_shared_samples_are_a_warning() -> None:
    [found] = rule.findings(_run(5))
    assert found.severity is Severity.WARNING


def test_one_batch_of_one_pass_is_no_validation_set() -> None:
    def seen(val: int, *passes: float) -> Status:
        evaluated = {"eval/samples": Series(np.arange(len(passes)) * 20, np.array(passes))}
        late = Series(np.array([0, 39]), np.ones(2))
        run = a_run(evaluated | {"batch/size": [32.0] * 40, "loss/val": late, "loss/train": [1.0] * 40})
        return rule.outcome(run.with_(facts={"data.shared": 32, "data.seen": {"train": 640, "val": val}})).status

    assert seen(32, 32.0) is seen(32, 32.0, 160.0) is Status.UNSURE
    assert seen(32, 32.0, 32.0) is seen(160, 160.0, 160.0) is Status.FOUND


def test_two_shared_samples_or_less_than_a_thousandth_are_clear() -> None:
    assert rule.outcome(_run(2)).status is Status.CLEAR
    assert rule.outcome(_run(8, val=10_000)).status is Status.CLEAR
    assert list(rule.findings(_run(8, val=10_000), share=1e-4))


def test_short_texts_that_repeat_anyway_are_a_remark() -> None:
    [found] = rule.findings(_run(200, data__duplicate_share=0.15))
    assert found.variant == "chance" and found.severity is Severity.INFO


def test_validating_on_the_training_set_is_a_warning() -> None:
    [found] = rule.findings(a_run(facts={"data.same_set": True}))
    assert found.variant == "same" and found.severity is Severity.WARNING


def test_without_a_validation_sample_it_is_blind() -> None:
    assert rule.outcome(a_run(facts={"data.shared": 0, "data.seen": {"train": 100, "val": 0}})).status is Status.BLIND


def test_an_input_that_does_not_name_a_sample_decides_nothing() -> None:
    ids = _run(90, val=90, data__conflicts=4000)  # item ids of a recommender: every one has many ratings
    assert rule.outcome(ids).status is Status.BLIND and list(rule.findings(ids, ambiguous=0.9))
    pairs = _run(900).with_(
        {"loop/forwards": Series(np.arange(50), np.full(50, 2.0)), "loop/backwards": Series(np.arange(50), np.full(50, 1.0))}
    )
    assert rule.outcome(pairs).status is Status.BLIND
    accumulated = _run(900).with_(
        {"loop/forwards": Series(np.arange(50), np.full(50, 4.0)), "loop/backwards": Series(np.arange(50), np.full(50, 4.0))}
    )
    assert rule.outcome(accumulated).status is Status.FOUND


def test_forwards_before_training_are_no_validation() -> None:
    teacher = _run(900, val=4000).with_({"eval/samples": Series(np.arange(10), np.full(10, 500.0))})
    assert rule.outcome(teacher).status is Status.BLIND
    assert rule.outcome(teacher.with_(facts={"data.val_loader": {"samples": 4000}})).status is Status.FOUND


def test_copies_made_before_the_split_are_told_from_inputs_of_few_values() -> None:
    measured = {"min": -3.7213, "max": 4.1181, "std": 1.0}
    facts = {"data__duplicate_share": 0.4, "data__channel_stats": {"mean": [0.1] * 20}}
    [copies] = rule.findings(_run(280, data__input_stats=measured, **facts))
    assert copies.variant == "copies" and copies.severity is Severity.WARNING
    [counts] = rule.findings(_run(280, data__input_stats={"min": 0.0, "max": 9.0, "std": 2.0}, **facts))
    assert counts.variant == "chance" and counts.severity is Severity.INFO


def test_short_words_are_drawn_again_by_nature() -> None:
    words = _run(600, data__token={"vocab": 25}).with_({"batch/length": Series(np.arange(9), np.full(9, 12.0))})
    assert [f.variant for f in rule.findings(words)] == ["chance"]
    texts = _run(600, data__token={"vocab": 25}).with_({"batch/length": Series(np.arange(9), np.full(9, 200.0))})
    assert [f.severity for f in rule.findings(texts)] == [Severity.CRITICAL]


def test_inputs_of_which_only_a_few_exist_are_met_by_nature() -> None:
    few = _run(8, val=8).with_({"eval/samples": Series(np.arange(10), np.full(10, 300.0))})
    assert [(f.variant, f.severity) for f in rule.findings(few)] == [("chance", Severity.INFO)]


def test_a_few_equal_samples_of_coarse_inputs_are_met_by_chance() -> None:
    counts = {"data__input_stats": {"min": 0.0, "max": 0.5, "std": 0.1}, "data__channel_stats": {"mean": [0.1] * 20}}
    sizes = {"eval/samples": Series(np.arange(10), np.full(10, 1001.0))}  # one validation sample in 1,001 is there twice
    [found] = rule.findings(_run(8, **counts).with_(sizes))
    assert found.variant == "chance" and "chance explains" in found.message and "No action needed" in found.fix
    measured = {**counts, "data__input_stats": {"min": -3.7213, "max": 4.1181, "std": 1.0}}
    assert [f.severity for f in rule.findings(_run(8, **measured).with_(sizes))] == [Severity.WARNING]
    # Training that never repeats itself in 5,000 samples leaves chance nothing to explain.
    assert [f.severity for f in rule.findings(_run(9, data__duplicate_share=0.0, **counts).with_(sizes))] == [Severity.WARNING]
    assert [f.severity for f in rule.findings(_run(80, **counts).with_(sizes))] == [Severity.CRITICAL]
    repeating = {"eval/samples": Series(np.arange(10), np.full(10, 1100.0))}  # a tenth of them is there twice
    assert [f.variant for f in rule.findings(_run(800, **counts).with_(repeating))] == ["chance"]


def test_known_batches_beside_new_ones_are_only_asked_about() -> None:
    facts = {"data.shared": 0, "data.seen": {"train": 2000, "val": 400}, "data.shared_apart": 400}
    [found] = rule.findings(a_run({"loss/train": np.ones(200), "loss/val": np.ones(4)}, facts=facts))
    assert found.variant == "apart" and found.severity is Severity.INFO


def test_answers_that_were_scaled_are_still_answers() -> None:
    facts = {"data__input_stats": {"min": -1.4286, "max": 1.4286, "std": 1.0}, "data__channel_stats": {"mean": [0.1] * 4}}
    survey = a_run(
        {"loss/train": np.ones(500), "loss/val": np.ones(20), "eval/samples": np.full(20, 150.0)},
        facts={
            "data.shared": 82,
            "data.seen": {"train": 380, "val": 132},
            **{k.replace("__", "."): v for k, v in facts.items()},
        },
    )
    assert [f.severity for f in rule.findings(survey)] == [Severity.CRITICAL]
    assert [f.variant for f in rule.findings(survey.with_(facts={"data.continuous": False}))] == ["chance"]
