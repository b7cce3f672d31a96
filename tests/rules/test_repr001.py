"""REPR001: the same run, other numbers."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.repr001_nondeterministic import nondeterministic as rule


def test_the_first_operation_that_differs_is_named() -> None:
    trial = {"equal": False, "step": 1, "op": "aten::scatter_add", "module": "pool", "kind": "value"}
    [found] = rule.findings(a_run(facts={"trial.determinism": trial}))
    assert found.where == ("pool", "aten::scatter_add") and found.severity is Severity.WARNING
    assert found.confidence is Confidence.EXACT


def test_equal_runs_are_clear() -> None:
    assert rule.outcome(a_run(facts={"trial.determinism": {"equal": True, "steps": 3}})).status is Status.CLEAR


def test_an_unseeded_source_that_was_used_is_a_remark() -> None:
    facts = {
        "seeds": {"torch": True, "numpy": False, "python": False},
        "rng.used": {"torch": True, "numpy": True, "python": False},
    }
    [found] = rule.findings(a_run(facts=facts))
    assert found.variant == "unseeded" and found.where == ("numpy",) and found.severity is Severity.INFO


def test_unseeded_sources_that_nobody_uses_are_clear() -> None:
    assert rule.outcome(a_run(facts={"seeds": {"torch": True, "numpy": False, "python": False}})).status is Status.CLEAR


def test_torch_is_always_used() -> None:
    [found] = rule.findings(a_run(facts={"seeds": {"torch": False, "numpy": True}}))
    assert found.where == ("torch",)
