"""NUMR010: a saved tensor was changed in place."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.numr010_inplace_change import inplace_change as rule
from traindx.run import Event


def test_names_both_lines() -> None:
    event = Event(0, "inplace_error", {"forward": "net.py:20", "inplace": "net.py:21", "op": "ExpBackward"})
    [found] = rule.findings(a_run(events=[event]))
    assert found.where == ("net.py:21", "net.py:20") and found.severity is Severity.CRITICAL
    assert "saved at net.py:20 was changed in place at net.py:21" in found.message


def test_knows_the_error_by_its_message() -> None:
    message = (
        "one of the variables needed for gradient computation has been modified by an inplace operation: [torch.FloatTensor"
    )
    error = {"type": "RuntimeError", "message": message, "file": "net.py", "line": 9}
    [found] = rule.findings(a_run(facts={"exception": error}))
    assert found.where == ("net.py:9",)


def test_other_errors_are_not_ours() -> None:
    assert rule.outcome(a_run(facts={"exception": {"type": "ValueError", "message": "no"}})).status is Status.CLEAR
