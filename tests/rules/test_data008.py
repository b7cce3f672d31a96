"""DATA008: validation prepared differently from training."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.data008_train_val_mismatch import train_val_mismatch as rule
from traindx.run import Run, Series

UNIT = {"mean": 0.0, "std": 1.0, "min": -3.0, "max": 3.0, "n": 1000}


def _run(train: dict[str, float] | None = None, val: dict[str, float] | None = None, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    return a_run(
        facts={"data.input_stats": {**UNIT, **(train or {})}, "data.val_input_stats": {**UNIT, **(val or {})}, **named}
    )


def test_another_range_is_critical() -> None:
    pixels = {"mean": 33.0, "std": 78.0, "min": 0.0, "max": 255.0}
    [found] = rule.findings(_run({"mean": 0.13, "std": 0.31, "min": 0.0, "max": 1.0}, pixels))
    assert found.variant == "range" and found.severity is Severity.CRITICAL
    assert "0 … 255" in found.message and "0 … 1" in found.message


def test_validation_that_was_not_normalised() -> None:
    [found] = rule.findings(_run(val={"mean": 0.5, "std": 0.25, "min": 0.0, "max": 1.0}))
    assert found.variant == "scale" and found.severity is Severity.WARNING


def test_another_centre() -> None:
    [found] = rule.findings(_run(val={"mean": 0.9}))
    assert found.variant == "shift" and found.facts["shift"] == 0.9


def test_augmentation_moves_the_statistics_only_a_little() -> None:
    assert rule.outcome(_run({"mean": 0.2, "std": 1.3, "max": 5.0})).status is Status.CLEAR


def test_a_lone_outlier_in_the_range_is_not_a_mismatch() -> None:
    assert rule.outcome(_run(val={"max": 90.0, "std": 1.1})).status is Status.CLEAR


def test_features_that_moved_are_named() -> None:
    train = {"mean": [0.0] * 8, "std": [1.0] * 8}
    val = {"mean": [0.0, 3.0, 0.1, -2.0, 0.0, 0.0, 0.0, 0.0], "std": [1.0] * 8}
    [found] = rule.findings(_run(data__channel_stats=train, data__val_channel_stats=val))
    assert found.where == ("feature 1", "feature 3") and found.severity is Severity.WARNING


def test_a_constant_feature_has_only_the_rounding_of_its_mean() -> None:
    train = {"mean": [-0.3, 0.0, 0.0], "std": [1e-9, 1.0, 1.0]}
    val = {"mean": [-0.30000001, 0.0, 0.0], "std": [1e-9, 1.0, 1.0]}
    assert not list(rule.findings(_run(data__channel_stats=train, data__val_channel_stats=val)))


def test_one_feature_that_drifts_a_little_is_a_remark() -> None:
    train = {"mean": [0.0] * 20, "std": [1.0] * 20}
    val = {"mean": [0.7, *[0.0] * 19], "std": [1.0] * 20}
    [found] = rule.findings(_run(data__channel_stats=train, data__val_channel_stats=val))
    assert found.severity is Severity.INFO


def test_chance_differences_of_many_features_are_clear() -> None:
    rng = np.random.default_rng(0)
    train = {"mean": [0.0] * 64, "std": [1.0] * 64}
    for _ in range(50):
        val = {"mean": (rng.normal(size=64) / 10).tolist(), "std": [1.0] * 64}
        run = _run(val={"n": 100}, data__channel_stats=train, data__val_channel_stats=val)
        assert rule.outcome(run).status is Status.CLEAR


def test_few_samples_leave_it_unsure() -> None:
    assert rule.outcome(_run(val={"n": 30, "mean": 2.0})).status is Status.UNSURE


def test_a_class_that_training_never_saw() -> None:
    run = _run(data__class_counts={"a": 900, "b": 900}, data__val_class_counts={"a": 50, "b": 50, "c": 20})
    [found] = rule.findings(run)
    assert found.variant == "classes" and found.where == ("class c",)


def test_balanced_training_against_natural_validation_is_a_remark() -> None:
    run = _run(data__class_counts={"a": 900, "b": 900}, data__val_class_counts={"a": 95, "b": 5})
    [found] = rule.findings(run)
    assert found.variant == "prior" and found.severity is Severity.INFO


def test_the_limit_is_the_users() -> None:
    assert list(rule.findings(_run(val={"mean": 0.3}), shift=0.2))


def test_a_second_stage_on_other_data_is_no_mismatch() -> None:
    train = {"mean": [0.0] * 4, "std": [1.0] * 4}
    val = {"mean": [1.5, -1.2, 0.0, 0.0], "std": [1.0] * 4}
    facts = {"data.input_stats": UNIT, "data.val_input_stats": UNIT, "data.channel_stats": train, "data.val_channel_stats": val}
    stage = np.repeat([0.0, 1.0], 20)
    late = {"batch/channel_mean": {str(i): m * stage for i, m in enumerate(val["mean"])}}
    assert rule.outcome(a_run(late, facts=facts)).status is Status.CLEAR
    assert (
        rule.outcome(a_run({k: {c: 0 * v for c, v in m.items()} for k, m in late.items()}, facts=facts)).status is Status.FOUND
    )


def test_ids_of_two_tables_have_the_same_frequencies_in_another_order() -> None:
    [found] = rule.findings(a_run(facts={"data.token_shift": {"distance": 0.7, "sorted": 0.08}}))
    assert found.variant == "tokens" and found.severity is Severity.WARNING
    for told in ({"distance": 0.5, "sorted": 0.1}, {"distance": 0.7, "sorted": 0.6}):  # other words; other padding
        assert rule.outcome(a_run(facts={"data.token_shift": told})).status is Status.CLEAR


def test_classes_in_clumps_of_which_a_part_was_read_are_not_missed() -> None:
    seen = {"data.class_counts": {"0": 900, "1": 0}, "data.val_class_counts": {"0": 100, "1": 100}}
    clumps = {"data.label_dispersion": 16.0, "data.label_dispersion_p": 1e-99}
    part, whole = ({"batch/size": np.full(n, 16.0)} for n in (2000, 56))
    assert list(rule.findings(a_run(part, facts=seen)))  # shuffled: what was read stands for all
    assert not list(rule.findings(a_run(part, facts=seen | clumps)))
    assert list(rule.findings(a_run(whole, facts=seen | clumps)))  # every batch was read


def test_resampled_training_moves_features_by_intent() -> None:
    stats = {"data__channel_stats": {"mean": [0.0] * 8, "std": [1.0] * 8}}
    stats |= {"data__val_channel_stats": {"mean": [0.6, -0.7, *[0.0] * 6], "std": [1.0] * 8}}
    [found] = rule.findings(_run(**stats))
    assert found.severity is Severity.WARNING
    [found] = rule.findings(_run(**stats, data__loader={"sampler": "WeightedRandomSampler"}))
    assert found.severity is Severity.INFO


def test_validation_targets_on_another_scale() -> None:
    n = 200
    signals = {
        "loss/train": 0.04 + np.exp(-np.arange(n) / 20),
        "loss/val": np.full(6, 6.7e10),
        "batch/label_std": np.ones(n),
        "batch/label_mean": np.zeros(n),
    }
    [found] = rule.findings(a_run(signals, facts={"loss.kind": "mse"}))
    assert found.variant == "target" and found.severity is Severity.CRITICAL and "6.7e+10 times" in found.message
    overfit = {**signals, "loss/val": np.full(6, 3.0)}  # bad, but what a wrong guess may cost
    assert not list(rule.findings(a_run(overfit, facts={"loss.kind": "mse"})))
    exploding = {**signals, "loss/train": np.full(n, 50.0)}
    assert not list(rule.findings(a_run(exploding, facts={"loss.kind": "mse"})))


def test_a_few_broken_samples_are_not_the_scale_of_training() -> None:
    wide = {"std": 96.0, "max": 9000.0}
    assert (
        rule.outcome(_run(wide).with_({"batch/input_std": a_run(x=np.array([1.0] * 40 + [400.0] * 4)).series("x")})).status
        is Status.CLEAR
    )
    assert list(rule.findings(_run(wide).with_({"batch/input_std": a_run(x=np.full(44, 96.0)).series("x")})))


def test_classes_that_validation_never_asks_for() -> None:
    train = {str(c): 150 for c in range(10)}
    [found] = rule.findings(_run(data__class_counts=train, data__val_class_counts={"0": 72}))
    assert found.variant == "unexamined" and found.severity is Severity.WARNING and len(found.where) == 9
    most = {str(c): 40 for c in range(7)}
    assert not list(rule.findings(_run(data__class_counts=train, data__val_class_counts=most)))
    assert not list(rule.findings(_run(data__class_counts=train, data__val_class_counts={"0": 20})))


def test_a_pixel_that_is_hardly_ever_lit_is_no_measure_of_its_own() -> None:
    train = {"mean": [0.3] * 6 + [0.0002, 0.0001], "std": [0.3] * 6 + [0.003, 0.002]}
    val = {"mean": [0.31] * 6 + [0.0102, 0.0101], "std": [0.3] * 8}
    assert not list(rule.findings(_run(data__channel_stats=train, data__val_channel_stats=val)))
    apart = {**val, "mean": [0.31] * 6 + [0.2, 0.2]}
    assert list(rule.findings(_run(data__channel_stats=train, data__val_channel_stats=apart)))


def _by_time(end: float, shift: float = 0.9) -> Run:
    """A split by time: inputs have moved on; the validation loss ends at `end`, that of training at .1 from 1."""
    facts = {"data.input_stats": UNIT, "data.val_input_stats": {**UNIT, "mean": shift}}
    at = np.arange(0, 300, 30)
    signals = {"loss/train": 0.1 + 0.9 * np.exp(-np.arange(300) / 30), "loss/val": Series(at, np.full(len(at), end))}
    return a_run(signals, facts=facts)


def test_drift_that_the_model_copes_with_is_a_remark() -> None:
    [found] = rule.findings(_by_time(end=0.13))
    assert found.variant == "shift" and found.severity is Severity.INFO


def test_drift_that_costs_validation_is_none() -> None:
    assert [f.severity for f in rule.findings(_by_time(end=0.5))] == [Severity.WARNING]
    assert [f.severity for f in rule.findings(_by_time(end=0.13, shift=2.5))] == [Severity.CRITICAL]


def _unread(**facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    signals = {
        "loss/train": np.linspace(1.1, 0.05, 300),
        "loss/val": Series(np.arange(29, 300, 30), np.linspace(1.2, 2.6, 10)),
        "accuracy/val": Series(np.arange(29, 300, 30), np.full(10, 0.36)),
    }
    balanced = {"0": 500, "1": 500, "2": 500}
    told = {
        "loss.kind": "ce",
        "loss.classes": 3,
        "data.class_counts": balanced,
        "data.val_class_counts": {"0": 140, "1": 130, "2": 130},
        "data.label_probe": {"n": 1000, "kind": "class", "score": 0.8, "null_mean": 0.34, "null_sd": 0.02},
    }
    return a_run(signals, facts={**told, **named})


def test_labels_that_hold_within_training_and_for_nothing_in_validation() -> None:
    [found] = rule.findings(_unread())
    assert found.variant == "unread" and found.severity is Severity.WARNING and "can be learned (80%" in found.message
    empty = {"n": 1000, "kind": "class", "score": 0.35, "null_mean": 0.34, "null_sd": 0.02}
    assert not list(rule.findings(_unread(data__label_probe=empty)))  # labels say nothing: DATA004
    better = _unread().with_({"accuracy/val": Series(np.arange(29, 300, 30), np.full(10, 0.6))})
    assert not list(rule.findings(better))
    frozen = _unread().with_({"loss/val": Series(np.arange(29, 300, 30), np.full(10, 1.0986))})  # a copy that never learns
    assert not list(rule.findings(frozen))
    layers = [{"name": "0", "class": "BatchNorm1d", "order": 0}]
    assert not list(rule.findings(_unread(model__outline=layers)))
