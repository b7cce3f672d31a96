"""WGHT004: rows that are, and stay, identical."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wght004_symmetry import symmetry as rule
from traindx.run import Run

SHAPES = {"a.weight": [64, 32], "head.weight": [10, 64]}


def rows(a: list[float], head: list[float] | None = None, steps: list[int] | None = None, **facts: object) -> Run:
    at = steps or [0, 100, 200][: len(a)]
    table = {"weight_twins/param": {"a.weight": a, "head.weight": head or [0.0] * len(a)}}
    return a_run(table, steps=np.array(at), facts={"model.param_shapes": SHAPES, **facts})


def test_a_constant_layer_is_critical() -> None:
    [found] = rule.findings(rows([1.0, 1.0, 1.0]))
    assert found.where == ("a.weight",) and found.severity is Severity.CRITICAL and "200 updates" in found.message


def test_a_head_that_starts_at_zero_parts_with_the_first_update() -> None:
    assert rule.outcome(rows([0.0, 0.0], [1.0, 0.0])).status is Status.CLEAR


def test_a_few_twins_are_a_warning_and_the_limit_decides() -> None:
    assert next(rule.findings(rows([0.2, 0.2]))).severity is Severity.WARNING
    assert not list(rule.findings(rows([0.05, 0.05])))
    assert list(rule.findings(rows([0.05, 0.05]), share=0.01))


def test_dimensions_of_an_embedding_that_stay_alike_are_told() -> None:
    [found] = rule.findings(rows([1.0, 1.0, 1.0], **{"model.embeddings": ["a.weight"]}))
    assert found.where == ("a.weight",)


def test_the_start_alone_leaves_it_unsure() -> None:
    run = a_run(loss__train=[1.0], facts={"model.twin_rows": {"a.weight": 1.0}, "model.param_shapes": SHAPES})
    assert rule.outcome(run).status is Status.UNSURE


def test_unused_embedding_rows_and_frozen_layers_are_left_out() -> None:
    start = {"model.twin_rows": {"a.weight": 1.0}, "model.param_shapes": SHAPES, "model.embeddings": ["a.weight"]}
    assert rule.outcome(a_run(loss__train=[1.0], facts=start)).status is Status.CLEAR
    assert not list(rule.findings(rows([1.0, 1.0], **{"model.frozen": ["a.weight"]})))
