"""GRAD004: parameters without a gradient."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.grad004_no_gradient import no_gradient

SHAPES = {"a.weight": [64, 64], "b.weight": [64, 64], "b.bias": [64]}


def the(run, **limits):
    return list(no_gradient.findings(run, **limits))


def grads(n: int = 80, facts: dict | None = None, none: dict | None = None, **columns):
    table = {"a.weight": np.exp(noise(n, 0.2)), "b.weight": np.exp(noise(n, 0.2, 1)), "b.bias": np.exp(noise(n, 0.2, 2))}
    table.update({k.replace("__", "."): np.asarray(v) for k, v in columns.items()})
    signals = {"grad_norm/param": table}
    if none is not None:
        signals["grad_none/param"] = none
    return a_run(signals, facts={"model.param_shapes": SHAPES, **(facts or {})})


def test_a_weight_with_exact_zeros_is_a_fact() -> None:
    [found] = the(grads(a__weight=np.zeros(80)))
    assert (found.variant, found.where, found.confidence) == ("zero", ("a.weight",), Confidence.EXACT)
    assert found.severity is Severity.WARNING and 0.45 < found.facts["share"] < 0.55


def test_a_weight_without_any_gradient_is_a_fact() -> None:
    [found] = the(grads(a__weight=np.full(80, np.nan)))
    assert found.variant == "none" and found.where == ("a.weight",)
    told = {"a.weight": np.ones(80), "b.weight": np.zeros(80), "b.bias": np.zeros(80)}
    assert the(grads(a__weight=np.full(80, np.nan), none=told))[0].variant == "none"


def test_an_unused_bias_is_a_remark() -> None:
    [found] = the(grads(b__bias=np.full(80, np.nan)))
    assert found.severity is Severity.INFO


def test_all_gradients_zero_is_critical() -> None:
    zero = np.zeros(80)
    [found] = the(grads(a__weight=zero, b__weight=zero, b__bias=zero))
    assert (found.variant, found.severity) == ("all", Severity.CRITICAL)


def test_one_non_zero_gradient_clears_it() -> None:
    once = np.zeros(80)
    once[40] = 1e-9
    assert the(grads(a__weight=once)) == []


def test_frozen_parameters_and_adapters_at_their_start_are_left_out() -> None:
    assert the(grads(a__weight=np.full(80, np.nan), facts={"model.frozen": ["a.weight"]})) == []
    lora = np.r_[0.0, 0.0, np.ones(78)]
    assert the(grads(a__weight=lora)) == []


def test_too_few_steps_are_unsure() -> None:
    assert no_gradient.outcome(grads(10, a__weight=np.zeros(10))).status is Status.UNSURE


def test_its_limit_is_the_number_of_steps() -> None:
    assert the(grads(a__weight=np.zeros(80)), zero_steps=500) == []


def test_a_bias_alone_has_a_gradient_behind_dead_units() -> None:
    nothing, some = np.zeros(100), np.ones(100)
    told = {"a.weight": nothing, "a.bias": nothing, "b.weight": nothing, "b.bias": nothing, "c.weight": nothing, "c.bias": some}
    shapes = {n: [8, 8] if n.endswith("weight") else [8] for n in told}
    [found] = the(a_run({"grad_norm/param": told}, facts={"model.param_shapes": shapes}))
    assert (found.variant, found.facts["head"]) == ("dead", "c")
    told["c.weight"] = some
    assert the(a_run({"grad_norm/param": told}, facts={"model.param_shapes": shapes}))[0].variant == "zero"
