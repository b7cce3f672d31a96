"""DATA010: conflicting, repeated and wrong labels."""

from __future__ import annotations

from typing import Any

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.data010_duplicates_conflicts_noise import duplicates_conflicts_noise as rule
from traindx.run import Run


def _run(conflicts: int = 0, repeats: float = 0.0, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    seen = {"train": 2000, "val": 0}
    return a_run(facts={"data.conflicts": conflicts, "data.duplicate_share": repeats, "data.seen": seen, **named})


def test_conflicts_are_counted() -> None:
    [found] = rule.findings(_run(100))
    assert found.message == "100 inputs occur with more than one label (5.0% of those seen)"
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
