"""OPTM004: a missing warm-up."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm004_warmup_missing import warmup_missing


def the(run, **limits):
    return list(warmup_missing.findings(run, **limits))


def cold(bump: float = 3.0, rate: np.ndarray | None = None, early: float | None = 0.2, n: int = 2000, tau: float = 60, **facts):
    t = np.arange(n)
    loss = zoo.falling(n, 2.3, 0.3, 100) + bump * (t / 15) * np.exp(1 - t / 15) * (t < 600) + noise(n, 0.02)
    signals = {"loss/train": loss, "lr": np.full(n, 1e-3) if rate is None else rate}
    if early is not None:
        signals["update_ratio/param"] = {"a": np.r_[np.full(10, early), np.full(n - 10, 1e-3)]}
    return a_run(signals, facts={"optimizer.name": "Adam", **zoo.CE10, **facts})


def test_a_set_back_at_full_rate_that_heals_is_told_with_its_cost() -> None:
    [found] = the(cold())
    assert found.facts["peak"] > 4 and found.facts["back"] > found.facts["within"] and "steps" in found.fix


def test_with_a_warm_up_it_is_clear() -> None:
    assert the(cold(rate=np.r_[np.linspace(0, 1e-3, 200), np.full(1800, 1e-3)])) == []


def test_a_smooth_start_is_clear() -> None:
    assert the(cold(bump=0.0)) == []


def test_small_first_steps_are_another_story() -> None:
    assert the(cold(early=0.01)) == []


def test_a_run_that_never_recovers_is_another_rule() -> None:
    n = 2000
    run = a_run({"loss/train": np.r_[2.3, 2.3, 2.3, np.full(n - 3, 6.0)] + noise(n, 0.02), "lr": np.full(n, 1e-3)})
    assert the(run) == []


def test_without_recorded_updates_it_is_a_hint() -> None:
    [found] = the(cold(early=None))
    assert found.confidence is Confidence.SUGGESTIVE


def test_a_costly_set_back_with_adam_is_a_warning() -> None:
    assert the(cold(), costly=0.001)[0].severity is Severity.WARNING


def test_a_log_without_the_first_steps_is_blind() -> None:
    run = a_run(loss__train=zoo.falling(200), lr=np.full(200, 1e-3), steps=np.arange(200) * 100)
    assert warmup_missing.outcome(run).status is Status.BLIND
