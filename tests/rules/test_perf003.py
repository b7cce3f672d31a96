"""PERF003: memory nearly full, fragmented, or gone."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.perf003_memory_pressure import memory_pressure as rule
from traindx.run import Event

GB = 1e9


def test_running_out_is_a_warning_with_the_message() -> None:
    event = Event(42, "oom", {"message": "tried to allocate 2 GiB"})
    [found] = rule.findings(a_run(events=[event]))
    assert found.variant == "oom" and found.steps == (42, 42) and "2 GiB" in found.message
    assert found.severity is Severity.WARNING


def test_nearly_full_and_retries() -> None:
    run = a_run({"mem/peak": [18 * GB, 19 * GB]}, facts={"memory.total": 20 * GB, "memory.alloc_retries": 3})
    assert {f.variant for f in rule.findings(run)} == {"full", "retries"}


def test_fragmentation_is_a_remark() -> None:
    run = a_run({"mem/peak": [6 * GB] * 3, "mem/reserved": [14 * GB] * 3}, facts={"memory.total": 20 * GB})
    [found] = rule.findings(run)
    assert found.variant == "fragmented" and found.severity is Severity.INFO


def test_room_to_spare_is_clear() -> None:
    run = a_run(
        {"mem/peak": [6 * GB] * 3, "mem/reserved": [7 * GB] * 3}, facts={"memory.total": 20 * GB, "memory.alloc_retries": 0}
    )
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, full=0.2))
