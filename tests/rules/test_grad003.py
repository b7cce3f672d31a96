"""GRAD003: bursts of the gradient norm."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run, noise
from traindx.finding import Confidence, Severity
from traindx.rules.grad003_grad_spike import grad_spike


def the(run, **limits):
    return list(grad_spike.findings(run, **limits))


def norms(n: int = 2000, at: tuple[int, ...] = (), height: float = 50.0) -> np.ndarray:
    out = np.exp(noise(n, 0.3))
    out[list(at)] *= height
    return out


def test_a_burst_is_a_remark_with_place_height_and_threshold() -> None:
    [found] = the(a_run(grad_norm=norms(at=(1200,))))
    assert found.severity is Severity.INFO and found.facts["worst"] == 1200 and found.facts["height"] > 20
    assert found.facts["p95"] == pytest.approx(np.exp(0.3 * 1.645), rel=0.15) and "clip" in found.fix.lower()


def test_many_bursts_are_a_warning() -> None:
    [found] = the(a_run(grad_norm=norms(at=tuple(range(300, 2000, 100)))))
    assert found.severity is Severity.WARNING and found.facts["count"] == 17


def test_a_heavy_tail_is_not_an_event() -> None:
    rng = np.random.default_rng(0)
    heavy = np.exp(0.5 * rng.standard_t(4, 3000))
    assert not [f for f in the(a_run(grad_norm=heavy)) if f.severity > Severity.INFO]


def test_norms_that_scatter_as_a_whole_are_told() -> None:
    wide = np.exp(noise(2000, 1.0) * np.linspace(0.5, 2.0, 2000))
    [found] = the(a_run(grad_norm=wide))
    assert (found.variant, found.severity) == ("scatter", Severity.INFO) and found.facts["factor"] > 3


def test_healthy_norms_are_clear() -> None:
    assert the(a_run(grad_norm=norms())) == []


def test_the_layers_that_carry_the_burst_are_named() -> None:
    n = 2000
    layers = {"a": np.ones(n), "b": np.ones(n), "c": np.ones(n)}
    layers["b"] = layers["b"].copy()
    layers["b"][1200] = 40.0
    [found] = the(a_run({"grad_norm": norms(at=(1200,)), "grad_norm/param": layers}))
    assert found.where == ("b",)


def test_warm_up_and_raised_rates_are_left_out() -> None:
    rate = np.r_[np.linspace(0, 1, 400), np.ones(1600)]
    assert the(a_run(grad_norm=norms(at=(100, 200)), lr=rate)) == []


def test_a_coarse_log_gives_a_hint() -> None:
    [found] = the(a_run(grad_norm=norms(60, at=(30,))))
    assert found.confidence is Confidence.SUGGESTIVE


def test_its_limits_are_deviations_and_height() -> None:
    run = a_run(grad_norm=norms(at=(1200,)))
    assert the(run, deviations=1e3) == [] and the(run, least_height=1e3) == []
