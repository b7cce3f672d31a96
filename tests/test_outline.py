"""What a run knows about its model."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace

from runs import a_run
from traindx import outline
from traindx.finding import Evidence
from traindx.rule import catalogue

SHAPES = {"body.0.weight": [8, 4], "body.0.bias": [8], "head.weight": [2, 8], "head.bias": [2]}
OUTLINE = [
    {"name": "", "class": "Net", "params": 58, "order": 0},
    {"name": "body", "class": "Sequential", "params": 40, "order": 1},
    {"name": "body.0", "class": "Linear", "params": 40, "order": 2},
    {"name": "head", "class": "Linear", "params": 18, "order": 3},
    {"name": "spare", "class": "Linear", "params": 9, "order": None},
]


def test_the_examples_hold() -> None:
    assert doctest.testmod(outline).failed == 0


def test_shares_are_counted_in_entries() -> None:
    run = a_run(facts={"model.param_shapes": SHAPES})
    assert outline.share(run, ["head.weight", "head.bias"]) == 18 / 58
    assert math.isnan(outline.share(a_run(), ["head.weight"]))


def test_the_last_called_layer_is_the_head() -> None:
    run = a_run(facts={"model.param_shapes": SHAPES, "model.outline": OUTLINE})
    assert outline.last_called(run) == "head"
    assert outline.is_hidden(run, "body.0.weight")
    assert not outline.is_hidden(run, "head.weight") and not outline.is_hidden(run, "body.0.bias")


def test_a_copy_has_a_counterpart_size_by_size() -> None:
    twin = {f"teacher.{n}": s for n, s in SHAPES.items()}
    run = a_run(facts={"model.param_shapes": SHAPES | twin})
    assert outline.is_copy(run, twin)
    assert not outline.is_copy(run, ["body.0.weight", "head.bias", "teacher.head.bias"])


def test_gradients_of_any_step_count() -> None:
    run = a_run({"grad_norm/param": {"a": [float("nan"), 1.0], "b": [float("nan"), float("nan")], "c": [0.0, 0.0]}})
    assert outline.with_gradient(run) == {"a"}
    assert outline.latest(run.matrix("grad_norm/param")) == {"a": 1.0, "c": 0.0}


def test_precision_is_read_from_autocast_or_from_the_weights() -> None:
    assert outline.low_precision(a_run(facts={"amp.autocast": "torch.float16"})) == "float16"
    assert outline.low_precision(a_run(facts={"model.param_dtypes": {"a": "bfloat16"}})) == "bfloat16"
    assert outline.low_precision(a_run(facts={"amp.half_model": True})) == "float16"
    assert outline.low_precision(a_run(facts={"amp.autocast": None})) == ""


def test_a_layer_that_is_only_a_number_is_named_with_its_class() -> None:
    run = a_run(
        facts={"model.outline": [{"name": "1", "class": "Tanh"}, {"name": "encoder.3", "class": "Linear"}]},
    )
    said = [outline.spoken(run, name) for name in ("1", "encoder.3", "1.weight", "fc1", "7")]
    assert said == ["1 (Tanh)", "encoder.3 (Linear)", "1.weight", "fc1", "7"]
    rule = replace(
        catalogue()["ACTV003"], look=lambda run: iter([Evidence({"level": 0.9, "before": 0.1}, ("1",), (0, 9), "tails")])
    )
    [found] = rule.findings(run)
    assert found.message.startswith("outputs of 1 (Tanh) are") and found.where == ("1",)
