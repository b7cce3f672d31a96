"""PERF005: many tiny operations."""

from __future__ import annotations

from typing import Any

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.perf005_launch_bound_or_underused import launch_bound_or_underused as rule
from traindx.run import Run


def _run(wait: float = 0.001, **profile: Any) -> Run:
    base = {"device": "cuda", "busy": 0.4, "median_kernel_us": 4.0, "ops_per_step": 900}
    return a_run({"time/data": [wait] * 60, "time/step": [0.1] * 60}, facts={"perf.profile": {**base, **profile}})


def test_an_idle_device_with_short_operations() -> None:
    [found] = rule.findings(_run())
    assert found.severity is Severity.WARNING and "40%" in found.message and "900" in found.message


def test_a_busy_device_long_operations_or_a_wait_for_data_are_clear() -> None:
    for run in (_run(busy=0.95), _run(median_kernel_us=80.0), _run(wait=0.05)):
        assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(_run(busy=0.8), busy=0.9))


def test_a_cpu_is_not_judged() -> None:
    assert rule.outcome(_run(device="cpu")).status is Status.MUTED
