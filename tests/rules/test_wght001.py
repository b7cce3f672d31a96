"""WGHT001: weights that run away."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.wght001_weight_growth import weight_growth as rule
from traindx.run import Run

T = np.arange(100)


def weights(values: np.ndarray, scale: float = 100.0, **facts: object) -> Run:
    shapes = {"fc.weight": [100, 100], "other.weight": [100, 100]}
    table = {"weight_norm/param": {"fc.weight": scale * values, "other.weight": steady(100, 10.0, 0.001)}}
    return a_run(table, steps=T * 50, facts={"model.param_shapes": shapes, **facts})


def test_growth_in_proportion_to_time_is_named() -> None:
    [found] = rule.findings(weights(1 + 0.3 * T))
    assert found.where == ("fc.weight",) and found.severity is Severity.WARNING and found.facts["ratio"] > 10


def test_looks_that_grow_rare_are_enough() -> None:
    steps = np.array([0, 1, 2, 3, 5, 10, 20, 40, 80, 160, 320, 640])
    shapes = {"model.param_shapes": {"fc.weight": [100, 100]}}
    fast, slow = ({"weight_norm/param": {"fc.weight": 60 * (1 + rise)}} for rise in (0.08 * steps, 0.3 * np.sqrt(steps)))
    [found] = rule.findings(a_run(fast, steps=steps, facts=shapes))
    assert found.facts["ratio"] > 10
    assert not list(rule.findings(a_run(slow, steps=steps, facts=shapes)))


def test_the_slow_growth_without_weight_decay_is_normal() -> None:
    assert rule.outcome(weights(1 + 3 * np.sqrt(T))).status is Status.CLEAR


def test_growth_from_a_tiny_initialisation_to_a_usual_scale_is_normal() -> None:
    assert not list(rule.findings(weights(1 + 0.3 * T, scale=0.5)))


def test_the_limits() -> None:
    run = weights(1 + 0.05 * T)
    assert not list(rule.findings(run))
    assert list(rule.findings(run, growth=4.0))


def test_embeddings_have_their_own_scale() -> None:
    assert not list(rule.findings(weights(1 + 0.3 * T, **{"model.embeddings": ["fc.weight"]})))


def test_heavy_tails_are_info() -> None:
    run = weights(np.ones(100)).with_(a_run({"weight_kurtosis/param": {"fc.weight": np.full(10, 90.0)}}).signals)
    [found] = rule.findings(run)
    assert found.severity is Severity.INFO and found.variant == "tails"


def test_one_direction_that_takes_over_is_info() -> None:
    shapes = {"fc.weight": [4000, 4000]}
    run = a_run(
        {"weight_norm/param": {"fc.weight": np.full(30, 100.0)}, "weight_sigma/param": {"fc.weight": np.linspace(20, 99, 30)}},
        facts={"model.param_shapes": shapes},
    )
    [found] = rule.findings(run)
    assert found.variant == "spectral" and found.severity is Severity.INFO
