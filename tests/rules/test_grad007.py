"""GRAD007: a gradient norm that swings ever wider."""

from __future__ import annotations

import numpy as np

from runs import a_run, judged, noise
from traindx.finding import Severity, Status
from traindx.rules.grad007_oscillating_grad_norm import oscillating_grad_norm


def the(run, **limits):
    return judged(oscillating_grad_norm, run, **limits)


def layers(n: int = 1200, wild: tuple[str, ...] = ("b",), **more):
    width = np.where(np.arange(n) < n // 2, 0.2, 1.2)
    table = {k: np.exp(noise(n, 1.0, i) * (width if k in wild else 0.2)) for i, k in enumerate("abcdef")}
    return a_run({"grad_norm/param": table, "loss/train": 1 + noise(n, 0.1), **more})


def test_the_layer_is_named() -> None:
    [found] = the(layers())
    assert found.where == ("b",) and found.facts["ratio"] > 3


def test_harm_to_the_loss_makes_it_a_warning() -> None:
    n = 1200
    loss = 1 + noise(n, 0.05) * np.where(np.arange(n) < n // 2, 1, 4)
    run = layers()
    [found] = the(run.with_(a_run(loss__train=loss).signals))
    assert found.severity is Severity.WARNING


def test_steady_swings_are_clear() -> None:
    assert the(layers(wild=())) == []


def test_bursts_are_another_rule() -> None:
    run = layers(wild=())
    values = run["grad_norm/param"].values.copy()
    values[700::60, 1] *= 100
    table = run["grad_norm/param"]
    assert the(run.with_({"grad_norm/param": type(table)(table.steps, table.names, values)})) == []


def test_another_learning_rate_is_not_compared() -> None:
    rate = np.where(np.arange(1200) < 600, 0.001, 0.1)
    assert the(layers(lr=rate)) == []


def test_the_global_norm_will_do() -> None:
    n = 1200
    norm = np.exp(noise(n, 1.0) * np.where(np.arange(n) < 600, 0.1, 0.9))
    [found] = the(a_run(grad_norm=norm, loss__train=1 + noise(n, 0.1)))
    assert found.where == ("all parameters",)


def test_the_global_norm_alone_is_no_more_than_a_remark() -> None:
    n = 1200
    wide = np.where(np.arange(n) < n // 2, 1, 4)
    run = a_run(grad_norm=np.exp(noise(n, 0.2) * wide), loss__train=1 + noise(n, 0.05, 3) * wide)
    [found] = the(run)
    assert found.severity is Severity.INFO


def test_too_few_records_are_blind() -> None:
    assert oscillating_grad_norm.outcome(a_run(grad_norm=np.ones(30))).status is Status.BLIND


def test_its_limit_is_the_factor() -> None:
    assert the(layers(), wider=50.0) == []


def test_a_short_log_of_steady_norms_is_clear_however_its_windows_fall() -> None:
    """A window of twelve records is calm by chance in one log of ten; such logs are the usual ones."""
    for n in (100, 140, 300):
        found = [bool(the(a_run(grad_norm=np.exp(noise(n, 0.3, seed)), loss__train=1 + noise(n, 0.1)))) for seed in range(60)]
        assert sum(found) <= 1, n


def test_a_short_log_of_widening_norms_is_still_found() -> None:
    for seed in range(10):
        width = np.where(np.arange(140) < 84, 0.05, 0.5)
        assert the(a_run(grad_norm=np.exp(noise(140, 1.0, seed) * width), loss__train=1 + noise(140, 0.1))), seed
