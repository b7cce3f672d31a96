"""PERF010: moving instead of computing."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.perf010_memory_bound_or_copying import memory_bound_or_copying as rule


def test_copies_name_the_operations() -> None:
    profile = {"copy_share": 0.35, "h2d_share": 0.02, "top": [{"op": "aten::copy_", "share": 0.3}, {"op": "aten::permute"}]}
    [found] = rule.findings(a_run(facts={"perf.profile": profile}))
    assert found.variant == "copies" and found.severity is Severity.WARNING and "aten::copy_" in found.where


def test_transfers_are_a_remark() -> None:
    [found] = rule.findings(a_run(facts={"perf.profile": {"copy_share": 0.0, "h2d_share": 0.15}}))
    assert found.variant == "transfer" and found.severity is Severity.INFO


def test_a_little_moving_is_clear() -> None:
    run = a_run(facts={"perf.profile": {"copy_share": 0.05, "h2d_share": 0.05}})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, most=0.01))
