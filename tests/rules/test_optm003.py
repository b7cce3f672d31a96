"""OPTM003: a schedule that took the learning rate away."""

from __future__ import annotations

import math

import numpy as np
import pytest

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm003_schedule_collapsed import schedule_collapsed


def the(run, **limits):
    return list(schedule_collapsed.findings(run, **limits))


def scheduled(rate: np.ndarray, loss: np.ndarray | None = None, steps_called: float = 1.0, **facts):
    n = len(rate)
    loss = 1.1 + 1.2 * np.exp(-np.arange(n) / 30) + noise(n, 0.02) if loss is None else loss
    signals = {"lr": rate, "loss/train": loss, "loop/scheduler_steps": np.full(n, steps_called)}
    return a_run(signals, facts={"ended": "closed", **facts})


def cosine(n: int, length: int) -> np.ndarray:
    return 0.05 * (1 + np.cos(math.pi * np.minimum(np.arange(n), length) / length))


def test_a_rate_of_zero_is_a_fact() -> None:
    [found] = the(scheduled(np.zeros(200)))
    assert (found.variant, found.severity, found.confidence) == ("zero", Severity.CRITICAL, Confidence.EXACT)


def test_an_exponential_decay_that_kills_the_rate_early_is_named_with_its_step() -> None:
    rate = 0.1 * 0.95 ** np.arange(1000.0)
    [found] = the(scheduled(rate))
    assert found.variant == "collapsed" and 125 <= found.steps[0] <= 140 and found.facts["left"] > 0.8


def test_the_planned_end_of_a_cosine_or_line_is_fine() -> None:
    assert the(scheduled(cosine(1000, 1000))) == []
    assert the(scheduled(np.linspace(0.1, 0, 1000))) == []
    assert the(scheduled(np.where(np.arange(1000) < 600, 0.1, np.where(np.arange(1000) < 850, 0.01, 0.0001)))) == []


def test_a_cosine_at_forty_percent_is_still_high() -> None:
    assert the(scheduled(cosine(1000, 1000)[:400], **{"budget.planned_steps": 1000})) == []


def test_a_length_in_epochs_stepped_by_batch_is_named() -> None:
    run = scheduled(
        cosine(1000, 20), **{"schedule.planned_steps": 20, "data.steps_per_epoch": 50, "schedule.name": "CosineAnnealingLR"}
    )
    [found] = the(run)
    assert (
        found.variant == "early"
        and found.facts["named"] == "batches in an epoch"
        and found.facts["factor"] == pytest.approx(50)
    )
    assert "1000" in found.fix


def test_accumulation_and_processes_are_units_too() -> None:
    run = scheduled(cosine(1000, 250), **{"schedule.planned_steps": 250}).with_(
        a_run({"loop/backwards": np.full(1000, 4.0)}).signals
    )
    assert the(run)[0].facts["named"] == "accumulation steps"
    assert (
        the(scheduled(cosine(1000, 125), **{"schedule.planned_steps": 125, "world_size": 8}))[0].facts["named"] == "processes"
    )


def test_a_length_in_batches_stepped_by_epoch_never_decays() -> None:
    n, per = 1000, 50
    rate = np.repeat(cosine(20, 1000), per)
    called = np.where(np.arange(n) % per == per - 1, 1.0, 0.0)
    run = a_run(
        {"lr": rate, "loss/train": zoo.falling(n), "loop/scheduler_steps": called},
        facts={"schedule.planned_steps": 1000, "data.steps_per_epoch": per, "ended": "exit"},
    )
    [found] = the(run)
    assert found.variant == "late" and found.facts["named"] == "batches in an epoch"


def test_a_killed_run_is_no_unit_error() -> None:
    assert the(scheduled(cosine(1000, 4300)[:1000], **{"schedule.planned_steps": 4300, "data.steps_per_epoch": 50})) == []


def test_cyclic_use_of_a_cosine_at_no_known_unit_is_left_alone() -> None:
    cyclic = 0.05 * (1 + np.cos(math.pi * np.arange(1000) / 130))
    assert the(scheduled(cyclic, **{"schedule.planned_steps": 130, "data.steps_per_epoch": 50})) == []


def test_a_plateau_scheduler_that_cuts_a_falling_loss_is_told() -> None:
    rate = 0.1 * 0.1 ** (np.arange(1200) // 300)
    loss = 3.0 - 0.002 * np.arange(1200) + noise(1200, 0.02)
    [found] = the(scheduled(rate, loss, **{"schedule.name": "ReduceLROnPlateau"}))
    assert found.variant == "cuts"


def test_a_loss_that_goes_on_falling_makes_a_collapse_a_remark() -> None:
    rate = np.where(np.arange(1000) < 300, 0.1, 1e-5)
    found = the(scheduled(rate, 3.0 - 0.002 * np.arange(1000) + noise(1000, 0.01)))
    assert [f.severity for f in found] == [Severity.INFO]


def test_too_few_records_are_blind() -> None:
    assert schedule_collapsed.outcome(a_run(lr=[0.1, 0.1])).status is Status.BLIND


def test_its_limits_are_shares() -> None:
    rate = 0.1 * 0.95 ** np.arange(1000.0)
    assert the(scheduled(rate), low=1e-30) == [] and the(scheduled(rate), left=0.99) == []
