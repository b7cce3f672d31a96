"""WIRE008: outputs and targets are broadcast against each other."""

from __future__ import annotations

import pytest

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules import wire008_loss_broadcast
from traindx.rules.wire008_loss_broadcast import loss_broadcast as rule
from traindx.run import Run


def shapes(mine: list[int], theirs: list[int]) -> Run:
    facts = {"loss.broadcast": True, "loss.input_shape": mine, "loss.target_shape": theirs, "loss.site": "fit.py:9"}
    return a_run(loss__train=[1.0], facts=facts)


@pytest.mark.parametrize(("mine", "theirs"), [([32, 1], [32]), ([32], [32, 1]), ([8, 5, 1], [8, 5])])
def test_every_prediction_meets_every_target(mine: list[int], theirs: list[int]) -> None:
    [found] = rule.findings(shapes(mine, theirs))
    assert found.severity is Severity.CRITICAL and found.where == ("fit.py:9",)


def test_says_the_shapes() -> None:
    [found] = rule.findings(shapes([32, 1], [32]))
    assert "(32, 1) and targets (32,) are broadcast to (32, 32)" in found.message


@pytest.mark.parametrize("theirs", [[], [1]])
def test_one_label_for_the_whole_batch_is_meant(theirs: list[int]) -> None:
    assert not list(rule.findings(shapes([64, 1], theirs)))


def test_a_target_repeated_over_outputs_is_a_question() -> None:
    [found] = rule.findings(shapes([32, 4], [32, 1]))
    assert found.severity is Severity.INFO


def test_equal_shapes_are_clear() -> None:
    assert rule.outcome(a_run(loss__train=[1.0], facts={"loss.broadcast": False})).status is Status.CLEAR


def test_unknown_shapes_are_a_warning() -> None:
    [found] = rule.findings(a_run(facts={"loss.broadcast": True}))
    assert found.severity is Severity.WARNING


def test_shapes_go_together_as_in_torch() -> None:
    assert wire008_loss_broadcast._together((32,), (32, 1)) == (32, 32)
    assert wire008_loss_broadcast._together((), (3, 1)) == (3, 1)
