"""OPTM012: curvature beyond the stability limit."""

from __future__ import annotations

import pytest

import zoo
from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.optm012_curvature_over_limit import curvature_over_limit


def the(run, **limits):
    return list(curvature_over_limit.findings(run, **limits))


def sharp(*ratios: float, apart: int = 100, start: int = 100):
    rows = [{"step": start + i * apart, "lambda_max": r * 200.0, "limit": 200.0, "lr": 0.01} for i, r in enumerate(ratios)]
    return a_run(facts={"trial.sharpness": rows})


def test_a_sustained_excess_is_told_with_the_rate_that_fits() -> None:
    [found] = the(sharp(1.5, 1.6, 2.0))
    assert found.facts["ratio"] == pytest.approx(2.0) and found.facts["lr"] == pytest.approx(0.0025)
    assert found.severity is Severity.INFO


def test_with_jumps_of_the_loss_it_is_a_warning() -> None:
    assert the(sharp(1.5, 1.6, 2.0).with_(zoo.spiky().signals))[0].severity is Severity.WARNING


def test_hovering_at_the_limit_is_normal() -> None:
    assert the(sharp(1.0, 1.1, 1.05, 1.1)) == []


def test_an_excess_that_passed_is_no_matter() -> None:
    assert the(sharp(3.0, 2.0, 1.5, 0.9)) == []


def test_the_start_and_crowded_checkpoints_do_not_count() -> None:
    assert curvature_over_limit.outcome(sharp(9.0, 2.0, 2.0, start=0)).status is Status.UNSURE
    assert curvature_over_limit.outcome(sharp(2.0, 2.0, 2.0, apart=10)).status is Status.UNSURE


def test_without_the_trial_it_is_blind() -> None:
    assert curvature_over_limit.outcome(zoo.plain()).status is Status.BLIND


def test_its_limit_is_the_excess() -> None:
    assert the(sharp(1.5, 1.6, 2.0), excess=3.0) == []
