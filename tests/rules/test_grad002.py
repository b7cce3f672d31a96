"""GRAD002: gradient norms that grow."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Severity, Status
from traindx.rules.grad002_exploding_gradients import exploding_gradients


def the(run, **limits):
    return list(exploding_gradients.findings(run, **limits))


def norms(n: int = 1500, growth: float = 1.0, since: int = 600) -> np.ndarray:
    """Healthy at first (rising fast in the first steps, as it does), then growing by a factor."""
    start = 0.05 + 0.95 * (1 - np.exp(-np.arange(n) / 10))
    later = np.exp(np.log(growth) * np.clip((np.arange(n) - since) / (n - since), 0, 1))
    return start * later * np.exp(noise(n, 0.3))


def test_growth_is_measured_against_the_falling_phase_and_its_onset_named() -> None:
    run = a_run(loss__train=zoo.falling(1500) + noise(1500, 0.03), grad_norm=norms(growth=100))
    [found] = the(run)
    assert found.severity is Severity.WARNING and found.facts["growth"] > 10 and 600 <= found.steps[0] <= 1100
    assert 0.5 < found.facts["clip"] < 5


def test_the_rise_of_the_first_steps_is_healthy() -> None:
    assert the(a_run(loss__train=zoo.falling(1500) + noise(1500, 0.03), grad_norm=norms())) == []


def test_threefold_growth_while_memorising_is_healthy() -> None:
    assert the(a_run(loss__train=zoo.falling(1500) + noise(1500, 0.03), grad_norm=norms(growth=3))) == []


def test_an_absolute_size_means_nothing() -> None:
    big = a_run(loss__train=zoo.falling(1500) + noise(1500, 0.03), grad_norm=1e5 * norms())
    assert the(big) == []


def test_single_bursts_are_another_rule() -> None:
    grads = norms()
    grads[::97] *= 200
    assert the(a_run(loss__train=zoo.falling(1500) + noise(1500, 0.03), grad_norm=grads)) == []


def test_a_burst_before_the_run_broke_is_critical() -> None:
    loss = zoo.falling(300) + noise(300, 0.03)
    loss[280:] = np.nan
    grads = norms(300)
    grads[272:280] *= np.geomspace(5, 1e6, 8)
    grads[280:] = np.nan
    [found] = the(a_run(loss__train=loss, grad_norm=grads))
    assert (found.variant, found.severity) == ("burst", Severity.CRITICAL) and 268 <= found.steps[0] <= 276


def test_a_loss_that_never_fell_is_judged_from_the_start() -> None:
    n = 200
    grads = np.geomspace(1, 1e4, n) * np.exp(noise(n, 0.2))
    [found] = the(a_run(loss__train=np.linspace(2.3, 60, n), grad_norm=grads))
    assert found.variant == "early"


def test_the_layers_that_carry_it_are_named() -> None:
    n = 1500
    run = a_run(loss__train=zoo.falling(n) + noise(n, 0.03), grad_norm=norms(growth=100))
    table = a_run({"grad_norm/param": {"a": np.full(n, 1.0), "b": np.full(n, 90.0)}})
    assert the(run.with_(table.signals))[0].where[0] == "b"


def test_too_few_records_are_unsure() -> None:
    assert exploding_gradients.outcome(a_run(grad_norm=np.ones(30))).status is Status.UNSURE


def test_its_limit_is_the_factor() -> None:
    run = a_run(loss__train=zoo.falling(1500) + noise(1500, 0.03), grad_norm=norms(growth=100))
    assert the(run, limit=1e4, flat_limit=1e4) == []
