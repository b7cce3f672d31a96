"""ACTV001: units that never fire."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.actv001_dead_units import dead_units as rule
from traindx.run import Run


def layer(dead: list[float], samples: float = 4000, **facts: object) -> Run:
    counted = np.full(len(dead), samples)
    return a_run({"dead_fraction/module": {"act1": dead}, "dead_samples/module": {"act1": counted}}, facts=facts)


def test_names_the_layer_and_the_share() -> None:
    [found] = rule.findings(layer([0.6, 0.62, 0.65]))
    assert found.where == ("act1",) and found.severity is Severity.WARNING
    assert found.message == "65% of the units of act1 never fired in 4000 samples"


def test_narrow_healthy_nets_have_a_quarter_of_them() -> None:
    assert rule.outcome(layer([0.15, 0.2, 0.25, 0.25])).status is Status.CLEAR


def test_growth_is_told_apart_from_a_bad_start() -> None:
    [found] = rule.findings(layer([0.1, 0.3, 0.45, 0.47]))
    assert found.variant == "growth" and "10% at the start" in found.message


def test_the_last_two_windows_must_agree() -> None:
    assert rule.outcome(layer([0.2, 0.2, 0.9])).status is Status.CLEAR


def test_one_whole_window_is_a_statement_about_many_batches() -> None:
    assert list(rule.findings(layer([0.8])))


def test_few_samples_prove_nothing_and_the_limit_decides() -> None:
    assert rule.outcome(layer([0.9, 0.9, 0.9], samples=300)).status is Status.UNSURE
    assert list(rule.findings(layer([0.9, 0.9, 0.9], samples=300), samples=100))


def test_a_layer_that_is_gone_is_critical() -> None:
    assert next(rule.findings(layer([0.3, 0.99, 1.0]))).severity is Severity.CRITICAL


def test_the_limit_on_the_share() -> None:
    assert list(rule.findings(layer([0.25, 0.25, 0.25]), most=0.2))


@pytest.mark.parametrize("kind", ["softmax", "dropout", "sigmoid"])
def test_other_kinds_do_not_die(kind: str) -> None:
    assert not list(rule.findings(layer([0.9, 0.9, 0.9], **{"model.activations": {"act1": kind}})))


def test_experts_that_no_token_reached_are_idle_not_dead() -> None:
    run = layer([1.0, 1.0, 1.0]).with_(a_run({"expert_load/expert": {"0": [1.0], "1": [0.0]}}).signals)
    assert not list(rule.findings(run))


def test_a_whole_layer_needs_fewer_samples_than_a_part_of_it() -> None:
    [found] = rule.findings(layer([1.0], samples=432))
    assert found.severity is Severity.CRITICAL
    assert rule.outcome(layer([0.7], samples=432)).status is Status.UNSURE
    assert rule.outcome(layer([1.0], samples=200)).status is Status.UNSURE
