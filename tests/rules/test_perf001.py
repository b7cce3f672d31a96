"""PERF001: training waits for data."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, steady
from traindx.finding import Confidence, Severity, Status
from traindx.rules.perf001_input_bound import input_bound as rule
from traindx.run import Event, Run

N = 200


def _run(wait_ms: float, step_ms: float, events: list[Event] | None = None, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    signals = {"time/data": steady(N, wait_ms / 1e3), "time/step": steady(N, step_ms / 1e3)}
    return a_run(signals, facts={"data.loader": {"num_workers": 0}, **named}, events=events)


def test_says_how_long_a_step_waits() -> None:
    [found] = rule.findings(_run(60, 100))
    assert found.severity is Severity.WARNING and found.confidence is Confidence.STRONG
    assert "60%" in found.message and "0 workers" in found.message


def test_a_millisecond_on_a_cpu_toy_is_only_a_remark() -> None:
    [found] = rule.findings(_run(2, 4))
    assert found.severity is Severity.INFO
    assert rule.outcome(_run(0.4, 0.8)).status is Status.CLEAR


def test_a_short_wait_is_clear() -> None:
    assert rule.outcome(_run(10, 100)).status is Status.CLEAR
    assert list(rule.findings(_run(10, 100), share=0.05))


def test_a_cached_batch_settles_it_both_ways() -> None:
    [found] = rule.findings(_run(20, 100, perf__cached_speedup=1.25))
    assert found.variant == "cached" and found.severity is Severity.WARNING
    assert rule.outcome(_run(60, 100, perf__cached_speedup=1.02)).status is Status.CLEAR


def test_behind_an_accelerator_it_is_a_hypothesis() -> None:
    [found] = rule.findings(_run(60, 100, device="cuda:0"))
    assert found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO


def test_it_is_never_critical() -> None:
    assert all(f.severity < Severity.CRITICAL for f in rule.findings(_run(990, 1000)))


def test_workers_that_start_every_epoch_are_told_apart() -> None:
    wait, step = steady(N, 0.001), steady(N, 0.05)
    wait[::20] += 2.0
    step[::20] += 2.0
    events = [Event(i, "epoch", {"index": i // 20}) for i in range(0, N, 20)]
    [found] = rule.findings(a_run({"time/data": wait, "time/step": step}, events=events))
    assert found.variant == "boundary" and "persistent_workers" in found.fix


def test_the_warm_up_is_left_out() -> None:
    wait, step = steady(N, 0.001), steady(N, 0.1)
    wait[:15] = 3.0
    assert not [f for f in rule.findings(a_run({"time/data": wait, "time/step": step})) if f.variant == ""]
    assert np.isfinite(wait).all()


def test_a_moderate_wait_of_a_short_run_is_a_remark() -> None:
    [short] = rule.findings(_run(45, 100))
    assert short.severity is Severity.INFO
    [long] = rule.findings(_run(45, 100), lost_s=5.0)
    assert long.severity is Severity.WARNING
    [most] = rule.findings(_run(45, 100), most=0.4)
    assert most.severity is Severity.WARNING


def _loose(rest_ms: float, step_ms: float, own_ms: float = 0.0, **facts: Any) -> Run:
    times = {"data": 0.0, "step": step_ms, "rest": rest_ms, "traindx": own_ms}
    signals = {f"time/{name}": steady(N, ms / 1e3, 0.01) for name, ms in times.items()}
    return a_run(signals, facts={"data.brought_by": "loss call", **facts})


def test_without_a_loader_what_passes_outside_the_network_is_a_remark() -> None:
    [found] = rule.findings(_loose(3.2, 3.8))
    assert found.variant == "outside" and found.severity is Severity.INFO and "84%" in found.message
    for quiet in (_loose(1.0, 3.8), _loose(0.4, 0.5), _loose(3.2, 3.8, own_ms=3.1), _loose(3.2, 3.8, rl=True)):
        assert rule.outcome(quiet).status is not Status.FOUND
