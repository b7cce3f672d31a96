"""WIRE010: the scheduler is stepped in the wrong unit, order or number."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire010_scheduler_misuse import scheduler_misuse as rule
from traindx.run import Event, Run, Series


def loop(per_update: np.ndarray, name: str = "StepLR", lr: object = None, **facts: object) -> Run:
    signals: dict[str, object] = {"loop/scheduler_steps": per_update}
    if lr is not None:
        signals["lr"] = lr
    table = {"schedule.name": name, "data.steps_per_epoch": 100, "optimizer.count": 1, "schedule.objects": 1, **facts}
    return a_run(signals, facts=table)


def every(n: int, period: int) -> np.ndarray:
    return (np.arange(1, n + 1) % period == 0).astype(float)


def test_once_per_update_and_once_per_epoch_are_right() -> None:
    per_batch = loop(np.ones(500), "CosineAnnealingLR", np.linspace(1, 0.5, 500), **{"schedule.params": {"T_max": 1000}})
    per_epoch = loop(every(500, 100), "StepLR", **{"schedule.params": {"step_size": 30}})
    assert rule.outcome(per_batch).status is Status.CLEAR
    assert rule.outcome(per_epoch).status is Status.CLEAR


def test_a_schedule_in_epochs_stepped_per_batch_says_how_fast_it_ran_out() -> None:
    lr = 0.1 * 0.1 ** (np.arange(300) // 10)
    [found] = rule.findings(loop(np.ones(300), "StepLR", lr, **{"schedule.params": {"step_size": 10, "gamma": 0.1}}))
    assert found.variant == "unit" and found.severity is Severity.WARNING
    assert "0.3 epochs" in found.message


def test_cosine_over_epochs_stepped_per_batch() -> None:
    lr = 0.5 * (1 + np.cos(np.pi * np.arange(200) / 20))
    [found] = rule.findings(loop(np.ones(200), "CosineAnnealingLR", lr, **{"schedule.params": {"T_max": 20}}))
    assert found.variant == "unit"


@pytest.mark.parametrize("name", ["CosineAnnealingWarmRestarts", "CyclicLR", "LinearLR"])
def test_restarts_cycles_and_warm_ups_run_through_by_design(name: str) -> None:
    lr = 0.5 * (1 + np.cos(np.pi * (np.arange(300) % 20) / 20)) + 1e-3
    assert not list(rule.findings(loop(np.ones(300), name, lr, **{"schedule.planned_steps": 20})))


def test_twice_per_update() -> None:
    [found] = rule.findings(loop(np.full(60, 2.0)))
    assert found.variant == "twice"


def test_two_schedulers_are_not_one_stepped_twice() -> None:
    assert not list(rule.findings(loop(np.full(60, 2.0), **{"schedule.objects": 2})))


def test_never_stepped_needs_two_epochs_and_the_limit_decides() -> None:
    assert not list(rule.findings(loop(np.zeros(150))))
    assert next(rule.findings(loop(np.zeros(150)), idle_epochs=1.0)).variant == "never"
    assert next(rule.findings(loop(np.zeros(250)))).variant == "never"


def test_one_cycle_stepped_per_epoch_hardly_moves() -> None:
    [found] = rule.findings(loop(every(500, 100), "OneCycleLR", **{"schedule.planned_steps": 1000}))
    assert found.variant == "slow"


def test_the_order_of_calls() -> None:
    events = [Event(0, "scheduler_order", {"count": 40})]
    [found] = rule.findings(a_run({"loop/scheduler_steps": np.ones(40)}, events=events))
    assert found.variant == "order" and "40 times" in found.message


def test_a_first_update_skipped_by_the_scaler_explains_the_order() -> None:
    events = [Event(0, "scheduler_order", {"count": 1})]
    signals = {"loop/scheduler_steps": np.ones(40), "amp/skipped": [1.0] + [0.0] * 39}
    assert not list(rule.findings(a_run(signals, events=events)))


def test_a_scheduler_built_in_the_loop() -> None:
    [found] = rule.findings(loop(np.ones(300), **{"schedule.count": 3}))
    assert found.variant == "rebuilt"
    assert not list(rule.findings(loop(np.ones(300), "LambdaLR", **{"schedule.count": 1})))


@pytest.mark.parametrize(("length", "found"), [(100, True), (3500, False), (700, False)])
def test_as_many_steps_as_the_run_has_epochs_stepped_per_batch(length: int, found: bool) -> None:
    lr = 0.5 + 0.5 * np.cos(np.pi * np.arange(3500) / length)
    run = loop(np.ones(3500), "CosineAnnealingLR", lr, **{"schedule.params": {"T_max": length}, "data.steps_per_epoch": None})
    run = run.with_(
        signals={"loss/val": Series(np.arange(34, 3500, 35), np.ones(100))}
    )  # no loader: evaluations are the epochs
    assert [f.variant for f in rule.findings(run)] == (["unit"] if found else [])


def test_a_schedule_that_keeps_its_plan_is_not_slow_because_updates_are_counted_twice() -> None:
    doubled = loop(np.tile([0.0, 1.0], 750), "CosineAnnealingLR", **{"schedule.params": {"T_max": 800}})
    assert not list(rule.findings(doubled))


def test_evaluations_without_a_loss_tell_epochs_too() -> None:
    lr = 0.05 * (1 + np.cos(np.pi * np.arange(528) / 12))
    rounds = [Event(s, "evaluation", {"samples": 397}) for s in range(44, 529, 44)]
    table = {"schedule.name": "CosineAnnealingLR", "schedule.params": {"T_max": 12}, "schedule.objects": 1}
    [found] = rule.findings(a_run({"loop/scheduler_steps": np.ones(528), "lr": lr}, facts=table, events=rounds))
    assert found.variant == "unit" and "44 per epoch" in found.message


def _risen(rate: np.ndarray, loss: np.ndarray, ended: bool = True) -> Run:
    facts = {"schedule.name": "LambdaLR"} | ({"ended": "closed"} if ended else {})
    return a_run({"lr": rate, "loss/train": loss, "loop/scheduler_steps": np.ones(len(rate))}, facts=facts)


def test_a_warm_up_that_outlasts_the_run() -> None:
    line, level = np.arange(1, 301) * 3e-8, 3.6 - 0.0003 * np.arange(300)
    [found] = rule.findings(_risen(line, level))
    assert found.variant == "warmup" and "300 updates" in found.fix
    learns = 0.5 + 3 * np.exp(-np.arange(300) / 60)
    assert not list(rule.findings(_risen(line, learns)))  # it was no obstacle
    assert not list(rule.findings(_risen(line, level, ended=False)))  # the run goes on
    assert not list(rule.findings(_risen(np.geomspace(1e-7, 1, 300), level)))  # a range test
    assert not list(rule.findings(_risen(np.minimum(line, 1e-6), level)))  # a warm-up that is over


def test_a_rate_that_ends_at_nothing_is_no_warm_up() -> None:
    flat = np.full(300, 2.3)
    assert not list(rule.findings(_risen(np.linspace(1e-3, 0.0, 300), flat)))
    assert rule.outcome(_risen(np.zeros(300), flat)).status is not Status.BROKEN
