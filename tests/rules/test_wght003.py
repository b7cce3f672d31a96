"""WGHT003: gains that switch off or blow up."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wght003_norm_gain_drift import norm_gain_drift as rule


def test_names_the_layer_that_is_switched_off() -> None:
    [found] = rule.findings(a_run({"weight_tiny/param": {"n.weight": np.linspace(0, 0.6, 20), "m.weight": np.zeros(20)}}))
    assert found.where == ("n.weight",) and found.variant == "off" and found.severity is Severity.WARNING


def test_gains_that_start_at_zero_are_by_design() -> None:
    assert rule.outcome(a_run({"weight_tiny/param": {"n.weight": np.ones(20)}})).status is Status.CLEAR


def test_the_limit() -> None:
    run = a_run({"weight_tiny/param": {"n.weight": np.linspace(0, 0.2, 20)}})
    assert not list(rule.findings(run))
    assert list(rule.findings(run, off=0.1))


def test_large_gains_that_still_rise() -> None:
    values = {"weight_maxabs/param": {"n.weight": np.linspace(1, 40, 20), "fc.weight": np.linspace(1, 40, 20)}}
    [found] = rule.findings(a_run(values, facts={"model.norm_gains": ["n.weight"]}))
    assert found.where == ("n.weight",) and found.variant == "large"


def test_embedding_rows_that_run_away_are_info() -> None:
    run = a_run(
        {
            "weight_tiny/param": {"n": np.zeros(20)},
            "row_norm_p99/param": {"emb": np.full(20, 30.0)},
            "row_norm_p50/param": {"emb": np.ones(20)},
        }
    )
    [found] = rule.findings(run)
    assert found.variant == "rows" and found.severity is Severity.INFO
