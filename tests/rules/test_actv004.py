"""ACTV004: the scale of the signal over depth and time."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.actv004_signal_scale import signal_scale as rule
from traindx.run import Run


def deep(factor: float, n: int = 10, **facts: object) -> Run:
    return a_run({"act_rms/module": {f"l{i}": [factor**i] for i in range(n)}}, facts={"finetune": False, **facts})


@pytest.mark.parametrize(("factor", "say"), [(0.4, "fades"), (3.0, "explodes")])
def test_names_the_ends_and_the_size(factor: float, say: str) -> None:
    [found] = rule.findings(deep(factor))
    assert found.variant == say and found.severity is Severity.WARNING
    assert found.facts["decades"] == pytest.approx(8 * abs(np.log10(factor)))


def test_a_residual_stream_that_grows_with_the_root_of_depth_is_fine() -> None:
    run = a_run({"act_rms/module": {f"l{i}": [np.sqrt(1 + i)] for i in range(24)}})
    assert rule.outcome(run).status is Status.CLEAR


def test_the_limit() -> None:
    assert not list(rule.findings(deep(0.7)))
    assert list(rule.findings(deep(0.7), decades=1.0))


def test_branches_that_start_at_zero_are_not_counted() -> None:
    run = a_run({"act_rms/module": {f"l{i}": [0.0 if i % 2 else 1.0] for i in range(12)}})
    assert rule.outcome(run).status is Status.CLEAR


def test_pretrained_models_are_not_judged_at_the_start() -> None:
    assert not list(rule.findings(deep(0.3, finetune=True)))


def test_only_weight_layers_count_when_the_outline_is_known() -> None:
    kinds = ["Linear", "ReLU"] * 5
    outline = [{"name": f"l{i}", "class": k, "params": 9 * (k == "Linear"), "order": i} for i, k in enumerate(kinds)]
    rms = {f"l{i}": [1.0 if k == "Linear" else 1e-3**i] for i, k in enumerate(kinds)}
    assert not list(rule.findings(a_run({"act_rms/module": rms}, facts={"model.outline": outline})))


@pytest.mark.parametrize(("factor", "severity"), [(500, Severity.WARNING), (20, Severity.INFO)])
def test_growth_over_the_run(factor: float, severity: Severity) -> None:
    values = {"a": 2 * np.geomspace(1, factor, 100), "b": steady(100), "head": steady(100)}
    [found] = rule.findings(a_run({"act_rms/module": values}, steps=np.arange(100) * 10))
    assert found.variant == "grows" and found.where == ("a",) and found.severity is severity


def test_growth_that_has_ended_is_quiet() -> None:
    values = {"a": np.r_[np.geomspace(1, 200, 40), steady(60, 200)], "b": steady(100), "head": steady(100)}
    assert not list(rule.findings(a_run({"act_rms/module": values}, steps=np.arange(100) * 10)))
