"""PERF004: the host waits for the device."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.perf004_sync_points import sync_points as rule


def test_many_waits_on_an_idle_device_are_a_warning() -> None:
    run = a_run(sync_calls=[12.0] * 5, facts={"device": "cuda:0", "perf.profile": {"busy": 0.6}})
    [found] = rule.findings(run)
    assert found.severity is Severity.WARNING and "12 calls" in found.message and "40%" in found.message


def test_without_a_profile_it_is_a_remark() -> None:
    [found] = rule.findings(a_run(sync_calls=[12.0] * 5, facts={"device": "cuda:0"}))
    assert found.severity is Severity.INFO


def test_one_read_a_step_is_fine() -> None:
    run = a_run(sync_calls=[1.0, 1.0, 9.0, 1.0, 1.0], facts={"device": "cuda:0"})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, most=0))


def test_a_cpu_has_nothing_to_wait_for() -> None:
    assert rule.outcome(a_run(sync_calls=[12.0] * 5, facts={"device": "cpu"})).status is Status.MUTED
