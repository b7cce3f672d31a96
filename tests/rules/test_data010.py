"""DATA010: conflicting, repeated and wrong labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.data010_duplicates_conflicts_noise import duplicates_conflicts_noise as rule
from traindx.run import Run, Series


def _run(conflicts: int = 0, repeats: float = 0.0, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    seen = {"train": 2000, "val": 0}
    return a_run(facts={"data.conflicts": conflicts, "data.duplicate_share": repeats, "data.seen": seen, **named})


def test_conflicts_are_counted() -> None:
    [found] = rule.findings(_run(100))
    assert found.message == "100 inputs occur with more than one label (5.0% of the inputs seen)"
    assert found.severity is Severity.WARNING


def test_a_handful_is_clear() -> None:
    assert rule.outcome(_run(4)).status is Status.CLEAR
    assert rule.outcome(_run(9)).status is Status.CLEAR
    assert list(rule.findings(_run(9), conflicts=0.001))


def test_inputs_with_few_possible_values_conflict_by_nature() -> None:
    found = list(rule.findings(_run(100, repeats=0.8)))
    assert all(f.severity is Severity.INFO for f in found)


def test_duplicates_are_a_remark_unless_drawn_with_replacement() -> None:
    [found] = rule.findings(_run(repeats=0.3))
    assert found.variant == "duplicates" and "70%" in found.fix
    assert rule.outcome(_run(repeats=0.3, data__loader={"sampler": "WeightedRandomSampler"})).status is Status.CLEAR


def test_estimated_noise() -> None:
    [found] = rule.findings(_run(data__label_noise={"share": 0.2, "n": 3000, "method": "knn"}))
    assert found.variant == "noise" and found.severity is Severity.WARNING
    assert rule.outcome(_run(data__label_noise={"share": 0.2, "n": 300})).status is Status.CLEAR


def test_labels_that_are_places_in_the_batch_do_not_conflict() -> None:
    facts = {"data.seen": {"train": 1000, "val": 0}, "data.conflicts": 60}
    places = {"batch/labels/class": {str(c): [1.0, 1.0, 1.0] for c in range(16)}, "batch/size": [16.0, 16.0, 16.0]}
    assert not list(rule.findings(a_run(places, facts=facts)))
    places["batch/labels/class"]["3"] = [2.0, 1.0, 1.0]
    assert [f.variant for f in rule.findings(a_run(places, facts=facts))] == ["conflicts"]


def test_answers_of_a_few_kinds_have_several_labels_by_nature() -> None:
    facts = {"data.conflicts": 38, "data.seen": {"train": 380, "val": 132}}
    assert [f.severity for f in rule.findings(a_run(facts=facts))] == [Severity.WARNING]
    assert [f.severity for f in rule.findings(a_run(facts={**facts, "data.continuous": False}))] == [Severity.INFO]


def _by_heart(sure: float, following: float, val_end: float = 2.5) -> Run:
    signals = {
        "loss/train": np.linspace(1.6, 0.2, 400),
        "loss/val": Series(np.arange(19, 400, 20), np.r_[np.linspace(1.5, 1.3, 5), np.linspace(1.3, val_end, 15)]),
    }
    probe = {"n": 1000, "kind": "class", "score": 0.5, "null_mean": 0.2, "null_sd": 0.01}
    return a_run(signals, facts={"data.label_probe": {**probe, "sure_errors": sure, "next_errors": following}})


def test_labels_that_contradict_clear_inputs_and_are_learned_by_heart() -> None:
    [found] = rule.findings(_by_heart(0.4, 0.42))
    assert found.variant == "doubt" and found.severity is Severity.WARNING and "40%" in found.message
    for other in (_by_heart(0.05, 0.22), _by_heart(0.05, 0.06), _by_heart(0.25, 0.4), _by_heart(0.4, 0.42, val_end=1.3)):
        assert rule.outcome(other).status is Status.CLEAR  # classes that overlap, few wrong labels, weak signs, no overfitting


@pytest.mark.parametrize(
    ("noise", "spread", "low", "high"), [(0.0, 0.6, 0.0, 0.1), (0.05, 1.6, 0.0, 0.1), (0.5, 1.6, 0.3, 0.5)]
)
def test_wrong_labels_are_told_from_classes_that_overlap(noise: float, spread: float, low: float, high: float) -> None:
    contents = pytest.importorskip("traindx.probes.read.data.contents", exc_type=ImportError)  # it needs torch
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 1000)
    x = spread * rng.normal(size=(5, 16))[y] + rng.normal(size=(1000, 16))
    y = np.where(rng.random(1000) < noise, rng.integers(0, 5, 1000), y)
    told = contents.label_doubt(x, y.astype(float), contents._ridge_folds(x))
    assert low <= told["sure_errors"] <= high
    assert (told["next_errors"] - told["sure_errors"] < 0.1) is (spread > 1)


@pytest.mark.parametrize(
    ("length", "conflicts", "severity"), [(8, 20, Severity.INFO), (8, 80, Severity.WARNING), (60, 20, Severity.WARNING)]
)
def test_a_few_names_belong_to_several_classes(length: int, conflicts: int, severity: Severity) -> None:
    facts = {"data.conflicts": conflicts, "data.seen": {"train": 400, "val": 100}}
    run = a_run({"batch/length": np.full(20, float(length))}, facts=facts)
    assert [f.severity for f in rule.findings(run)] == [severity]
