"""WGHT002: weights that die away."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.wght002_weight_collapse import weight_collapse as rule
from traindx.run import Run


def weights(first: float = 10.0, last: float = 0.01, decay: float | None = None, size: int = 100, **facts: object) -> Run:
    table = {"weight_norm/param": {"fc.weight": np.geomspace(first, last, 40), "other.weight": steady(40, 10.0, 0.001)}}
    if decay is not None:
        table["decay_share/param"] = {"fc.weight": np.full(40, decay)}
    shapes = {"fc.weight": [size, 50], "other.weight": [100, 50]}
    return a_run(table, facts={"model.param_shapes": shapes, **facts})


def test_names_the_weights_and_what_is_left() -> None:
    [found] = rule.findings(weights())
    assert found.where == ("fc.weight",) and found.severity is Severity.WARNING and "0.001" in found.message


def test_decay_is_blamed_when_it_outweighs_the_gradient() -> None:
    [found] = rule.findings(weights(decay=4.0))
    assert found.variant == "decay" and "4.0×" in found.message


def test_most_of_the_model_is_critical() -> None:
    assert next(rule.findings(weights(size=400))).severity is Severity.CRITICAL


def test_a_shrinking_that_leaves_something_is_clear_and_the_limit_decides() -> None:
    assert rule.outcome(weights(last=0.5)).status is Status.CLEAR
    assert list(rule.findings(weights(last=0.5), share=0.1))


def test_what_started_at_zero_has_not_collapsed() -> None:
    assert not list(rule.findings(weights(first=1e-6, last=1e-9)))


def test_norm_gains_belong_to_another_rule() -> None:
    assert not list(rule.findings(weights(**{"model.norm_gains": ["fc.weight"]})))
