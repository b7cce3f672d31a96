"""ACTV003: bounded activations in their tails."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.actv003_saturation import saturation as rule
from traindx.run import Run


def layer(values: list[float], kind: str = "tanh", **facts: object) -> Run:
    return a_run({"act_saturated/module": {"act": values}}, facts={"model.activations": {"act": kind}, **facts})


def test_names_the_layer() -> None:
    [found] = rule.findings(layer([0.2, 0.6, 0.7, 0.8]))
    assert found.where == ("act",) and found.severity is Severity.WARNING and "80%" in found.message


def test_two_looks_are_not_enough() -> None:
    assert rule.outcome(layer([0.1, 0.1, 0.6, 0.7])).status is Status.CLEAR


def test_the_limit() -> None:
    assert not list(rule.findings(layer([0.4] * 4)))
    assert list(rule.findings(layer([0.4] * 4), most=0.3))


def test_gates_that_learn_to_close_are_info() -> None:
    assert next(rule.findings(layer([0.1, 0.1, 0.1, 0.6, 0.7, 0.8], "sigmoid"))).severity is Severity.INFO


def test_gates_that_start_closed_are_not() -> None:
    assert next(rule.findings(layer([0.9, 0.9, 0.9, 0.9], "sigmoid"))).severity is Severity.WARNING


def test_the_output_activation_may_be_sure_of_itself() -> None:
    assert not list(
        rule.findings(layer([0.9] * 5, "sigmoid", **{"model.head_activation": {"kind": "sigmoid", "module": "act"}}))
    )


def test_units_that_flip_between_both_ends_are_saturated_too() -> None:
    kinds = {"model.activations": {"t": "tanh", "r": "relu"}}
    [found] = rule.findings(a_run({"act_rms/module": {"t": [0.93] * 6, "r": [0.93] * 6}}, facts=kinds))
    assert found.where == ("t",) and found.variant == "tails" and found.severity is Severity.WARNING
    healthy = a_run({"act_rms/module": {"t": [0.6] * 6}}, facts=kinds)
    assert not list(rule.findings(healthy))
    assert list(rule.findings(healthy, level=0.5))
