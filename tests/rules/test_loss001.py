"""LOSS001: divergence and non-finite losses."""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss001_diverging_loss import diverging_loss
from traindx.run import Event, Matrix, Series


def the(run, **limits):
    return list(diverging_loss.findings(run, **limits))


def test_it_names_the_step_from_which_on_the_loss_is_not_a_number() -> None:
    [found] = the(zoo.ends_in_nan())
    assert found.message == "the training loss is NaN from step 700 on (100 records)"
    assert (found.severity, found.confidence, found.steps) == (Severity.CRITICAL, Confidence.EXACT, (700, 799))


def test_a_run_of_nothing_but_nan_is_critical_too() -> None:
    [found] = the(a_run(loss__train=[np.nan] * 10))
    assert found.variant == "nonfinite" and found.steps == (0, 9)


def test_a_lone_nan_between_ordinary_losses_is_a_gap_of_the_log() -> None:
    loss = zoo.falling(300) + noise(300, 0.05)
    loss[[50, 120, 200]] = np.nan
    assert the(a_run(loss__train=loss)) == []


def test_a_passing_infinity_is_told_but_not_alarming() -> None:
    val = np.array([26.0, 25.5, 25.0, np.inf, 24.0, 23.5])
    [found] = the(a_run(loss__train=np.linspace(27, 23, 6), loss__val=val))
    assert (found.variant, found.severity, found.steps) == ("passing", Severity.INFO, (3, 3))


def test_a_slow_climb_names_its_onset_and_what_was_lost() -> None:
    [found] = the(zoo.slow_divergence())
    assert found.variant == "risen" and found.severity is Severity.CRITICAL
    assert 950 <= found.steps[0] <= 1250 and 0.6 < found.facts["lost"] < 1.1


def test_a_mild_climb_is_a_warning() -> None:
    n = 2000
    loss = zoo.falling(n) + np.r_[np.zeros(1200), np.full(800, 0.4)] + noise(n, 0.03)
    [found] = the(a_run(loss__train=loss))
    assert (found.variant, found.severity) == ("risen", Severity.WARNING)


def test_worse_than_before_training_is_critical() -> None:
    [found] = the(zoo.blow_up())
    assert (found.variant, found.severity) == ("worse", Severity.CRITICAL)


def test_a_short_log_decides_only_the_plain_case() -> None:
    [found] = the(zoo.short_blow_up())
    assert found.steps == (3, 6)
    assert the(a_run(loss__train=[2.3, 2.0, 1.9, 2.4, 2.6, 2.5])) == []
    assert diverging_loss.outcome(a_run(loss__train=[2.3, 2.4])).status is Status.UNSURE


def test_the_climb_after_a_warm_restart_counts_only_beyond_the_last_cycle() -> None:
    assert the(zoo.warm_restarts()) == []
    n = 1600
    rate = np.tile(np.linspace(0.1, 0.001, 400), 4)
    loss = zoo.falling(n) + 2 * rate + noise(n, 0.03)
    loss[1250:] += 0.01 * np.arange(350)
    assert the(a_run(loss__train=loss, lr=rate)), "a climb beyond every earlier cycle is still one"


def test_right_after_a_raised_rate_it_waits() -> None:
    n = 1000
    rate = np.r_[np.full(980, 0.001), np.full(20, 0.1)]
    loss = zoo.falling(n) + noise(n, 0.03) + np.r_[np.zeros(980), np.full(20, 1.0)]
    assert the(a_run(loss__train=loss, lr=rate)) == []


def test_an_excursion_that_came_back_is_told_with_its_peak() -> None:
    n = 2000
    loss = zoo.falling(n) + noise(n, 0.03)
    loss[800:1100] += 1.4
    [found] = the(a_run(loss__train=loss))
    assert found.variant == "excursion" and found.severity is Severity.INFO, "it came back and went on"
    loss[1100:] += 0.1
    assert the(a_run(loss__train=loss))[0].severity is Severity.WARNING, "it never got back to where it was"
    assert 600 <= found.steps[0] <= 820 and found.facts["peak"] == pytest.approx(1.8, abs=0.2)


def test_a_log_in_which_another_training_begins_is_a_remark() -> None:
    first, second = zoo.falling(800) + noise(800, 0.03), zoo.falling(800) + noise(800, 0.03)
    log = a_run(loss__train=np.r_[first, second + 0.2], lr=np.full(1600, 0.01))
    assert [f.severity for f in the(log)] == [Severity.INFO]
    assert [f.severity for f in the(log.with_(facts={"watched": ["retrained"]}))] == [
        Severity.WARNING
    ]  # it would know of a stage
    slow = np.concatenate([first, np.linspace(first[-1], 2.3, 60), second + 0.2])  # climbs over sixty records
    assert [f.severity for f in the(a_run(loss__train=slow, lr=np.full(1660, 0.01)))] == [Severity.WARNING]
    stuck = np.r_[first, np.full(800, 1.9) + noise(800, 0.03)]
    assert all(f.severity is not Severity.INFO for f in the(a_run(loss__train=stuck, lr=np.full(1600, 0.01))))


def test_other_data_a_resume_or_a_higher_rate_explain_an_excursion() -> None:
    n = 2000
    loss = zoo.falling(n) + noise(n, 0.03)
    loss[800:1100] += 1.4
    longer = np.where((np.arange(n) >= 800) & (np.arange(n) < 1100), 64.0, 16.0) + noise(n, 0.3)
    assert the(a_run(loss__train=loss, batch__length=longer)) == []
    assert the(a_run(loss__train=loss, events=[Event(800, "resume")])) == []
    rate = np.where((np.arange(n) >= 790) & (np.arange(n) < 1100), 0.1, 0.01)
    assert the(a_run(loss__train=loss, lr=rate)) == []


def test_two_players_and_policies_are_judged_by_non_finite_values_only() -> None:
    for fact in ("adversarial", "rl"):
        run = zoo.slow_divergence().with_(facts={fact: True})
        assert diverging_loss.outcome(run).status is Status.CLEAR
        assert diverging_loss.outcome(run.with_({"loss/train": Series([0, 1, 2], [1.0, np.nan, np.nan])})).findings


def test_a_loss_that_may_be_negative_is_judged_by_differences() -> None:
    run = zoo.slow_divergence()
    shifted = run.with_({"loss/train": Series(run["loss/train"].steps, run["loss/train"].values - 10)})
    assert [f.variant for f in the(shifted)] == ["risen"]


def test_its_limits_move_the_verdict() -> None:
    run = zoo.slow_divergence()
    assert the(run, lost=0.95, ruin=0.99) == [] or the(run, lost=0.95, ruin=0.99)[0].severity < Severity.CRITICAL
    assert the(run, deviations=1e4) == []


def test_a_validation_loss_alone_is_judged_too() -> None:
    n = 60
    val = zoo.falling(n, 2.0, 0.5, 3) + noise(n, 0.02) + np.maximum(0, np.arange(n) - 30) * 0.05
    [found] = the(a_run(loss__val=val))
    assert found.facts["what"] == "validation loss"


def test_a_dozen_epochs_above_where_training_began_are_enough() -> None:
    epochs = np.array([2.05, 1.77, 1.91, 2.08, 2.33, 2.28, 2.36, 2.38, 2.39, 2.39, 2.42, 2.39])
    facts = {"step_unit": "epoch"}
    [found] = the(a_run(loss__train=epochs, facts=facts))
    assert found.variant == "worse" and found.facts["start"] == 2.05
    assert not the(a_run(loss__train=epochs)), "records of single batches scatter more"
    assert not the(a_run(loss__train=np.r_[2.05, 1.9, np.linspace(1.8, 1.95, 10)], facts=facts)), "below where it began"
    assert not the(a_run(loss__train=epochs[:9], facts=facts))


def test_an_early_leap_with_the_gradient_norm_is_divergence_and_a_loss_that_grows_by_intent_is_not() -> None:
    loss = np.r_[np.full(4, 1.1), np.full(116, 6.2)] + noise(120, 0.1)
    norm = 2 + np.abs(noise(120, 0.3))
    norm[3:8] *= 20
    assert [f.variant for f in the(a_run(loss__train=loss, grad_norm=norm))] == ["worse"]
    assert not the(a_run(loss__train=loss, grad_norm=np.full(120, 2.0))), "the norm did not mind: a queue fills"
    grown = np.r_[np.linspace(2, 9, 12), np.linspace(9, 6.6, 108)] + noise(120, 0.04)
    assert "worse" not in [f.variant for f in the(a_run(loss__train=grown, grad_norm=norm))]


def test_a_leap_in_the_very_first_steps_is_not_hidden_by_what_follows_it() -> None:
    rng = np.random.default_rng(0)
    loss = np.r_[2326.0, 7578.0, np.linspace(180e3, 60e3, 298) + 8e3 * rng.standard_normal(298)]
    norm = np.r_[405.0, 10e3, 31e3, 4e3, 3e3, 20e3, 45e3, 160e3, 250e3, np.full(20, 700.0)]
    run = a_run({"loss/train": Series(np.arange(300), loss), "grad_norm": Series(np.arange(29), norm)})
    assert [f.variant for f in diverging_loss.findings(run)] == ["worse"]
    calm = a_run({"loss/train": Series(np.arange(300), loss), "grad_norm": Series(np.arange(29), np.full(29, 400.0))})
    assert not list(diverging_loss.findings(calm))


def test_other_data_that_join_have_a_level_of_their_own() -> None:
    loss = np.concatenate([zoo.falling(400), zoo.falling(400) + 1.0]) + noise(800, 0.05)
    [found] = the(a_run(loss__train=loss))
    assert found.severity is not Severity.INFO
    [joined] = the(a_run({"loss/train": loss}, facts={"data.joined_at": [400]}))
    assert joined.severity is Severity.INFO
    [later] = the(a_run({"loss/train": loss}, facts={"data.joined_at": [900]}))
    assert later.severity is found.severity


@pytest.mark.parametrize(("share", "severity"), [(0.5, Severity.INFO), (0.02, None)])
def test_classes_that_were_never_seen_before_are_other_data(share: float, severity: Severity | None) -> None:
    loss = np.concatenate([zoo.falling(400), zoo.falling(400) + 1.0]) + noise(800, 0.05)
    [alone] = the(a_run(loss__train=loss))
    steps = np.arange(0, 800, 20)
    new = np.where(steps < 400, 0.0, 32 * share)  # a rare class is met late by chance
    labels = Matrix(steps, ("0", "1"), np.stack([32 - new, new], 1))
    [found] = the(a_run({"loss/train": loss, "batch/labels/class": labels}))
    assert found.severity is (severity or alone.severity)


def test_a_dozen_epochs_that_climb_to_a_multiple_of_the_best_are_enough() -> None:
    epochs = np.array([2.6, 1.7, 1.1, 0.7, 0.35, 0.12, 0.061, 0.067, 0.11, 0.2, 0.33, 0.46])
    [found] = the(a_run(loss__train=epochs, facts={"step_unit": "epoch"}))
    assert found.variant == "risen" and found.severity is Severity.WARNING and "0.061" in found.message
    for other in (np.r_[epochs[:-1], 0.3], epochs[:-2], np.r_[epochs[:7], epochs[6:11] / 3]):  # a step back, too short, lower
        assert not the(a_run(loss__train=other, facts={"step_unit": "epoch"}))


def test_a_loss_that_runs_to_minus_infinity_has_no_lower_end() -> None:
    falls = np.r_[1.5, 1.2, 0.9, -np.geomspace(1, 1e9, 97)]
    [found] = the(a_run(loss__train=falls))
    assert found.variant == "bottomless" and "no lower end" in found.message
    assert not the(a_run(loss__train=np.r_[1.5, 1.2, 0.9, -40 * (1 - np.exp(-np.arange(97) / 9))])), "a density settles"
