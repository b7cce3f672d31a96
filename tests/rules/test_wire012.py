"""WIRE012: tied weights have come apart."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire012_tying_broken import tying_broken as rule

BROKEN = {"model.tying_broken": [["embedding.weight", "head.weight"]]}


def test_names_both_halves() -> None:
    [found] = rule.findings(a_run(loss__train=[1.0], facts=BROKEN))
    assert found.where == ("embedding.weight", "head.weight") and found.severity is Severity.WARNING


def test_whole_ties_are_clear() -> None:
    assert rule.outcome(a_run(facts={"model.tying_broken": []})).status is Status.CLEAR


def test_sharded_copies_are_not_judged() -> None:
    assert rule.outcome(a_run(facts={**BROKEN, "distributed": "fsdp"})).status is Status.MUTED
