"""The regime of a run, from facts and from signals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from runs import a_run, learning
from traindx import regime
from traindx.run import Event, Series


def test_a_warm_up_ends_where_the_rate_stops_rising() -> None:
    rate = np.r_[np.linspace(0, 1e-3, 100), np.full(400, 1e-3)]
    run = a_run(lr=rate)
    assert regime.warmup_end(run) == 99 and regime.start(run) == 99
    assert not regime.in_warmup(run) and regime.in_warmup(run, at=60)


def test_a_constant_or_decaying_rate_has_no_warm_up() -> None:
    assert regime.warmup_end(a_run(lr=np.full(50, 0.1))) is None
    assert regime.warmup_end(a_run(lr=np.linspace(0.1, 0, 50))) is None
    assert regime.warmup_end(a_run(loss__train=learning())) is None


def test_a_warm_up_that_never_ended_reaches_to_the_end() -> None:
    run = a_run(lr=np.linspace(0, 1e-4, 50))
    assert regime.warmup_end(run) == 49 and regime.in_warmup(run)


def test_step_decay_and_restarts_are_jumps_smooth_schedules_are_not() -> None:
    step = np.r_[np.full(100, 0.1), np.full(100, 0.01), np.full(100, 0.1)]
    assert [(j.step, round(j.ratio, 3)) for j in regime.lr_jumps(a_run(lr=step))] == [(100, 0.1), (200, 10.0)]
    cosine = 0.5 * (1 + np.cos(np.linspace(0, math.pi, 1000)))
    assert all(j.step > 990 for j in regime.lr_jumps(a_run(lr=cosine)))
    assert regime.lr_jumps(a_run(lr=np.linspace(1e-8, 1e-3, 200))) == []


def test_a_rate_that_decays_by_a_factor_every_epoch_is_smooth_when_logged_by_epoch() -> None:
    assert regime.lr_jumps(a_run(lr=0.5 ** np.arange(20.0))) == []


def test_segments_are_cut_at_jumps_and_seams() -> None:
    run = a_run(loss__train=learning(300), lr=np.r_[np.full(100, 0.1), np.full(200, 0.01)], events=[Event(200, "resume")])
    assert [(int(s.steps[0]), int(s.steps[-1])) for s in regime.segments(run)] == [(0, 99), (100, 199), (200, 299)]
    assert regime.is_muted(120, regime.muted_after_jumps(run))
    assert not regime.is_muted(180, regime.muted_after_jumps(run))
    assert not regime.is_muted(120, regime.muted_after_jumps(run, only_up=True))


def test_steps_per_epoch_come_from_the_fact_the_events_or_the_epoch_column() -> None:
    assert regime.steps_per_epoch(a_run(facts={"data.steps_per_epoch": 40})) == 40
    assert regime.steps_per_epoch(a_run(events=[Event(s, "epoch") for s in (0, 25, 50, 75)])) == 25
    assert regime.steps_per_epoch(a_run(epoch=np.arange(400) / 100)) == 100
    assert regime.steps_per_epoch(a_run(epoch=np.arange(950) // 38)) == 38, "whole numbers tell the place where they change"
    assert regime.steps_per_epoch(a_run(epoch=np.arange(63) // 40)) == 40, "also while the second epoch is still under way"
    assert regime.steps_per_epoch(a_run(loss__train=learning())) is None
    back = np.concatenate([np.repeat(np.arange(4), 10), np.repeat([0, 3], 10)])
    assert regime.steps_per_epoch(a_run(epoch=back)) == 10, "a log that was joined may take the count back"
    assert regime.steps_per_epoch(a_run(epoch=np.array([3, 4, 3, 4]))) is None, "the same turn twice tells no length"


def test_a_log_with_one_record_per_epoch_is_recognised() -> None:
    steps = np.arange(10) * 100
    assert regime.logged_by_epoch(a_run(loss__train=np.ones(10), epoch=np.arange(10.0), steps=steps))
    assert regime.logged_by_epoch(a_run(loss__train=np.ones(10), facts={"step_unit": "epoch"}))
    assert not regime.logged_by_epoch(a_run(loss__train=np.ones(400), epoch=np.arange(400) / 100))


def test_a_curve_is_finite_and_has_one_value_per_step() -> None:
    run = a_run({"loss/train": Series([0, 1, 1, 2, 3], [3.0, 2.0, 1.5, np.nan, 1.0])})
    np.testing.assert_array_equal(regime.curve(run).steps, [0, 1, 3])
    np.testing.assert_array_equal(regime.curve(run).values, [3.0, 1.5, 1.0])


def test_a_running_mean_is_undone_when_the_log_says_so() -> None:
    raw = learning(120)
    means = np.concatenate([np.cumsum(e) / np.arange(1, 41) for e in raw.reshape(3, 40)])
    facts = {"log_form": {"loss/train": "running-mean"}, "data.steps_per_epoch": 40}
    np.testing.assert_allclose(regime.curve(a_run(loss__train=means, facts=facts)).values, raw)


def test_chance_and_floors_follow_the_loss() -> None:
    ce = a_run(facts={"loss.kind": "ce", "loss.classes": 10, "data.class_counts": [90] + [1] * 9})
    assert regime.chance_level(ce) == pytest.approx(math.log(10))
    assert set(regime.floors(ce)) == {"uniform", "softmax-twice", "prior"}
    assert regime.chance_level(a_run(facts={"loss.kind": "bce"})) == pytest.approx(math.log(2))
    assert regime.chance_level(a_run()) is None and regime.floors(a_run()) == {}
    assert regime.floors(a_run(facts={"loss.kind": "ce", "loss.classes": 10, "loss.reduction": "sum"})) == {}
    noise = np.random.default_rng(0).normal(size=50)
    mse = a_run(batch__label_std=np.full(50, 2.0), batch__label_mean=0.1 * noise, facts={"loss.kind": "mse"})
    assert regime.floors(mse)["target-variance"] == pytest.approx(4.01, abs=0.02)


def test_fine_tuning_is_a_fact_or_a_first_loss_far_below_chance() -> None:
    facts = {"loss.kind": "ce", "loss.classes": 1000}
    assert regime.finetune(a_run(loss__train=np.full(20, 1.0), facts=facts))
    assert not regime.finetune(a_run(loss__train=np.full(20, 6.9), facts=facts))
    assert not regime.finetune(a_run(loss__train=np.full(20, 1.0), facts={**facts, "finetune": False}))
    assert regime.finetune(a_run(facts={"model.loaded": {"missing": []}}))


def test_two_players_a_policy_and_negative_losses_are_recognised() -> None:
    assert regime.adversarial(a_run(facts={"optimizer.disjoint": True}))
    assert regime.reinforcement(a_run(facts={"rl": True}))
    assert regime.may_be_negative(a_run(loss__train=[1.0, -0.1]))
    assert not regime.may_be_negative(a_run(loss__train=[1.0, 0.1]))


def test_optimizers_are_told_apart() -> None:
    assert regime.adam_like(a_run(facts={"optimizer.name": "AdamW"})) is True
    assert regime.adam_like(a_run(facts={"optimizer.name": "SGD"})) is False
    assert regime.adam_like(a_run()) is None


def test_a_script_in_phases_is_judged_by_its_last_one() -> None:
    two = a_run(loss__train=np.r_[learning(300), learning(300)], facts={"optimizer.steps": [300, 300]})
    assert regime.phase_start(two) == 300 and regime.curve(two).steps[0] == 300
    assert len(regime.curve(two, whole=True)) == 600
    fresh = a_run(loss__train=learning(600), facts={"optimizer.fresh_at_step": 200})
    assert regime.phase_start(fresh) == 200
    resumed = a_run(loss__train=learning(600), facts={"optimizer.fresh_at_step": 200}, events=[Event(200, "resume")])
    assert regime.phase_start(resumed) is None
    turns = a_run(loss__train=learning(600), facts={"optimizer.steps": [600, 600]})
    assert regime.phase_start(turns) is None


def test_training_losses_are_looked_up_around_evaluations() -> None:
    run = a_run({"loss/train": Series(np.arange(100), np.arange(100.0))})
    np.testing.assert_allclose(regime.losses_at(run, [20, 40, 60]), [20, 40, 60])
    sparse = a_run({"loss/train": Series([0, 50], [5.0, 4.0])})
    np.testing.assert_allclose(regime.losses_at(sparse, [10, 20, 60]), [5.0, 5.0, 4.0])


def test_folds_and_sweeps_in_one_process_are_judged_by_the_last_of_them() -> None:
    told = {"optimizer.steps": [125] * 15, "optimizer.fresh_at_step": 125}
    other = [Event(125, "retrained", {"same_parameters": False, "count": 14})]
    folds = a_run(loss__train=learning(1875), facts=told, events=other)
    assert regime.phase_starts(folds) == list(range(125, 1875, 125)) and regime.phase_start(folds) == 1750
    assert regime.seams(folds) == regime.phase_starts(folds)
    again = [Event(125, "retrained", {"same_parameters": True, "count": 14})]
    assert regime.phase_start(a_run(loss__train=learning(1875), facts=told, events=again)) is None
    turns = a_run(loss__train=learning(1875), facts={**told, "optimizer.fresh_at_step": 1})
    assert regime.phase_starts(turns) == [1]


def test_another_head_after_a_save_is_another_training_and_no_resume() -> None:
    saved = Event(300, "checkpoint", {})
    facts = {"optimizer.steps": [300, 300], "optimizer.fresh_at_step": 300}
    curve = {"loss/train": np.append(learning(300), learning(300)), "lr": np.full(600, 0.1)}
    for alike in (True, False):
        taken = Event(300, "retrained", {"same_parameters": False, "alike": alike})
        assert regime.resumed_at(a_run(curve, facts=facts, events=[saved, taken]), 300) is alike
