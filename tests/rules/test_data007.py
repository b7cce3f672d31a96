"""DATA007: one feature gives the label away."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.data007_target_leak import target_leak as rule

HONEST = {"0": 0.61, "1": 0.7, "2": 0.55, "3": 0.82, "4": 0.5}


def test_the_leaking_feature_is_named() -> None:
    [found] = rule.findings(a_run(facts={"data.feature_auc": {**HONEST, "7": 1.0}}))
    assert found.where == ("feature 7",) and found.severity is Severity.WARNING
    assert "0.82" in found.message


def test_features_that_know_nothing_are_clear() -> None:
    assert rule.outcome(a_run(facts={"data.feature_auc": {str(i): 0.02 * i for i in range(8)}})).status is Status.CLEAR


def test_an_easy_task_is_a_hypothesis() -> None:
    for scores in ({"0": 0.995, "1": 0.97}, {**HONEST, "5": 0.995, "6": 0.993}, {**HONEST, "5": 0.995, "6": 0.96}):
        [found] = rule.findings(a_run(facts={"data.feature_auc": scores}))
        assert found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO


def test_strong_but_honest_features_are_clear() -> None:
    assert rule.outcome(a_run(facts={"data.feature_auc": {**HONEST, "5": 0.98}})).status is Status.CLEAR


def test_a_vote_of_neighbours_errs_at_the_borders_between_classes() -> None:
    ten = {"data.class_counts": {str(c): 100 for c in range(10)}, "data.label_probe": {"kind": "class", "n": 1000}}
    honest = {str(i): 0.1 for i in range(8)}
    assert [f.where for f in rule.findings(a_run(facts={"data.feature_auc": {**honest, "9": 0.97}, **ten}))] == [("feature 9",)]
    assert not list(rule.findings(a_run(facts={"data.feature_auc": {**honest, "9": 0.9}, **ten})))


def test_the_limit_is_the_users() -> None:
    assert list(rule.findings(a_run(facts={"data.feature_auc": {**HONEST, "5": 0.98}}), auc=0.95))


def test_a_target_that_is_made_from_one_feature_is_a_remark() -> None:
    two = {"data.class_counts": {"0": 500, "1": 500}, "data.label_probe": {"kind": "class", "n": 1000}}
    toy = {"0": 0.51, "1": 0.53, "2": 0.5, "3": 0.52, "4": 1.0}
    [found] = rule.findings(a_run(facts={"data.feature_auc": toy, **two}))
    assert found.variant == "rule" and found.severity is Severity.INFO
    [found] = rule.findings(a_run(facts={"data.feature_auc": {**toy, "1": 0.62}, **two}))
    assert found.severity is Severity.WARNING
    numbers = {"data.label_probe": {"kind": "regression", "n": 1000}}
    [found] = rule.findings(a_run(facts={"data.feature_auc": {"0": 0.002, "1": 0.004, "2": 0.0, "3": 1.0}, **numbers}))
    assert found.severity is Severity.INFO
    [found] = rule.findings(a_run(facts={"data.feature_auc": {"0": 0.3, "1": 0.004, "2": 0.0, "3": 1.0}, **numbers}))
    assert found.severity is Severity.WARNING
