"""LOSS006: jumps that take many steps to come back."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity
from traindx.rules.loss006_state_spike import state_spike
from traindx.run import Event, Series


def the(run, **limits):
    return list(state_spike.findings(run, **limits))


def jumping(at: list[int], height: float = 1.2, tau: float = 20, n: int = 3000) -> np.ndarray:
    loss = zoo.falling(n) + noise(n, 0.03)
    for p in at:
        loss[p : p + 100] += height * np.exp(-np.arange(len(loss[p : p + 100])) / tau)
    return loss


def test_one_jump_that_recovers_is_a_remark_with_its_place() -> None:
    [found] = the(a_run(loss__train=jumping([1500])))
    assert found.severity is Severity.INFO and found.steps == (1500, 1500) and found.facts["events"] == [1500]


def test_three_jumps_close_together_are_a_warning() -> None:
    [found] = the(a_run(loss__train=jumping([800, 1300, 2200])))
    assert found.severity is Severity.WARNING and found.facts["count"] == 3


def test_jumps_of_values_that_are_bootstrapped_are_a_remark() -> None:
    told = {"loss.kind": "huber", "data.seen": {"train": 11, "val": 0}, "data.conflicts": 11}
    [found] = the(a_run(loss__train=jumping([800, 1300, 2200]), facts=told))
    assert found.severity is Severity.INFO
    [few] = the(a_run(loss__train=jumping([800, 1300, 2200]), facts=told | {"data.conflicts": 1}))
    assert few.severity is Severity.WARNING
    [acting] = the(a_run(loss__train=jumping([800, 1300, 2200]), facts={"loss.kind": "mse", "acts": True}))
    assert acting.severity is Severity.INFO


def test_tasks_one_after_the_other_in_a_log_are_a_remark() -> None:
    tasks = np.concatenate([0.1 + 2.2 * np.exp(-np.arange(300) / 50) + noise(300, 0.04, i) for i in range(5)])
    [found] = the(a_run(loss__train=tasks))
    assert found.severity is Severity.INFO and found.facts["count"] >= 3
    assert [f.severity for f in the(a_run(loss__train=tasks, facts={"watched": ["retrained"]}))] == [Severity.WARNING]


def test_jumps_when_a_target_network_was_renewed_are_expected() -> None:
    at = [800, 1300, 2200]
    renewed = [Event(step - 1, "load", {"what": "model"}) for step in at]
    assert the(a_run(loss__train=jumping(at)).with_(events=renewed)) == []
    loaded = [Event(step - 1, "load", {"what": "model", "digest": "ab"}) for step in at]
    assert [f.severity for f in the(a_run(loss__train=jumping(at)).with_(events=loaded))] == [Severity.WARNING]


def test_a_jump_that_stays_is_a_warning() -> None:
    loss = zoo.falling(3000) + noise(3000, 0.03)
    loss[1500:] += 0.8
    [found] = the(a_run(loss__train=loss, lr=np.full(3000, 0.01)))
    assert (found.variant, found.severity) == ("lasting", Severity.WARNING)
    [unknown] = the(a_run(loss__train=loss))
    assert unknown.severity is Severity.INFO, "without the rate it may be a restart"


def test_single_extreme_batches_are_another_rule() -> None:
    assert the(zoo.one_bad_batch_each_epoch()) == []


def test_heavy_tails_and_small_jumps_are_quiet() -> None:
    assert the(zoo.heavy_tailed_batches()) == []
    assert the(a_run(loss__train=jumping([1500], height=0.15))) == []


def test_a_raised_rate_a_resume_and_other_data_are_expected() -> None:
    n = 3000
    loss = jumping([1500])
    assert the(a_run(loss__train=loss, lr=np.where(np.arange(n) < 1500, 0.01, 0.1))) == []
    assert the(a_run(loss__train=loss, events=[Event(1500, "resume")])) == []
    length = np.where(np.arange(n) < 1500, 16.0, 64.0) + noise(n, 0.2)
    assert the(a_run(loss__train=loss, batch__length=length)) == []


def test_a_coarse_validation_curve_is_judged_by_its_neighbours() -> None:
    val = np.array([27.0, 26.5, 26.2, 26.0, 25.8, 33.6, 306.0, 25.6, 25.5, 25.3, 25.2, 25.1, 25.0, 24.9, 24.8])
    [found] = the(a_run({"loss/train": np.linspace(28, 24, 15), "loss/val": val}, facts={"step_unit": "epoch"}))
    assert found.variant == "coarse" and found.facts["peak"] == 306.0 and found.confidence is Confidence.SUGGESTIVE


def test_a_curve_that_only_falls_has_no_jump() -> None:
    assert the(a_run(loss__train=zoo.falling(40) + noise(40, 0.01), facts={"step_unit": "epoch"})) == []


def test_a_rise_at_the_very_end_is_not_yet_a_jump() -> None:
    assert the(a_run(loss__val=[1.0, 0.8, 0.7, 0.65, 0.62, 0.61, 0.6, 0.9], loss__train=np.linspace(1, 0.3, 8))) == []


def test_its_limit_is_how_many_are_many() -> None:
    assert the(a_run(loss__train=jumping([800, 1300, 2200])), many=4)[0].severity is Severity.INFO


def test_steps_not_records_are_counted() -> None:
    run = a_run({"loss/train": Series(np.arange(3000) * 10, jumping([800, 1300, 2200]))})
    assert the(run)[0].severity is Severity.INFO, "14,000 steps lie between the first and the last"


def test_a_jump_to_where_training_began_is_a_warning_even_without_a_learning_rate() -> None:
    loss = zoo.falling(3000) + noise(3000, 0.03)
    begun = np.r_[loss[:1500], loss[:1500] + 0.1]  # resumed without the weights
    [found] = the(a_run(loss__train=begun))
    assert found.variant == "reset" and found.severity is Severity.WARNING and found.steps[0] == 1500
    assert "back to its starting level" in found.message
