"""LOSS009: both losses high and close."""

from __future__ import annotations

import math

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss009_underfitting import underfitting


def the(run, **limits):
    return list(underfitting.findings(run, **limits))


def close(level: float = 1.0, **facts):
    n = 1500
    train = level + 0.8 * np.exp(-np.arange(n) / 50) + noise(n, 0.015)
    val = level * 1.01 + 0.4 * np.exp(-np.arange(15) / 1) + noise(15, 0.003, 1)
    return zoo.evaluated(train, val, 100, facts=facts)


def test_chance_is_a_reference() -> None:
    [found] = the(zoo.fits_nothing())
    assert (found.variant, found.severity) == ("chance", Severity.WARNING)


def test_a_missed_target_is_a_reference() -> None:
    [found] = the(close(**{"budget.target": {"signal": "loss/val", "value": 0.4}}))
    assert (found.variant, found.severity) == ("target", Severity.WARNING)


def test_a_reached_target_is_fine() -> None:
    assert the(close(**{"budget.target": {"signal": "loss/val", "value": 1.2}})) == []


def test_without_a_reference_it_only_hints() -> None:
    [found] = the(close())
    assert found.confidence is Confidence.SUGGESTIVE


def test_a_curve_that_flattens_early_and_high_gets_the_hint_from_sixty_records() -> None:
    level = 1.9 + 0.4 * np.exp(-np.arange(60) / 4)
    curves = {"loss__train": level + noise(60, 0.005), "loss__val": level + 0.02 + noise(60, 0.005, 1)}
    [found] = the(a_run(**curves))
    assert (found.variant, found.confidence) == ("", Confidence.SUGGESTIVE)


def test_well_below_chance_is_fine() -> None:
    assert the(close(0.4, **zoo.CE10)) == []


def test_a_gap_or_a_falling_loss_is_another_matter() -> None:
    assert the(zoo.overfits()) == [] and the(zoo.plain()) == []


def test_without_validation_it_is_unsure() -> None:
    assert underfitting.outcome(a_run(loss__train=math.log(10) + noise(500, 0.02))).status is Status.UNSURE


def test_its_limit_is_how_close_is_close() -> None:
    assert the(close(**{"budget.target": {"signal": "loss/val", "value": 0.4}}), close=1e-6) == []
