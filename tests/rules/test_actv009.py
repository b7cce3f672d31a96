"""ACTV009: features that are all alike."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.actv009_representation_collapse import representation_collapse as rule
from traindx.run import Run


def features(rank: np.ndarray, cosine: np.ndarray, kind: str = "contrastive") -> Run:
    return a_run({"effective_rank/module": {"z": rank}, "feature_cosine/module": {"z": cosine}}, facts={"loss.kind": kind})


FALLING, ALIKE = np.geomspace(60, 1.5, 30), np.minimum(np.linspace(0.1, 1.4, 30), 0.999)


def test_names_the_layer_and_what_is_left() -> None:
    [found] = rule.findings(features(FALLING, ALIKE))
    assert found.where == ("z",) and found.severity is Severity.WARNING and "1.5" in found.message


def test_a_classifier_may_end_in_few_directions() -> None:
    assert rule.outcome(features(FALLING, ALIKE, "ce")).status is Status.MUTED


def test_low_rank_from_the_start_is_the_data() -> None:
    assert rule.outcome(features(steady(30, 3.0), steady(30, 0.97, 0.001))).status is Status.CLEAR


def test_rank_alone_is_not_enough() -> None:
    assert not list(rule.findings(features(FALLING, steady(30, 0.3))))


def test_the_limits() -> None:
    half = features(np.geomspace(60, 25, 30), np.full(30, 0.9))
    assert not list(rule.findings(half))
    assert list(rule.findings(half, rank=0.6, cosine=0.8))


def test_a_layer_of_few_outputs_has_nothing_to_lose() -> None:
    assert not list(rule.findings(features(np.geomspace(3, 1, 30), ALIKE)))
