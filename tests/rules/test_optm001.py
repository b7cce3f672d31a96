"""OPTM001: steps too small to matter."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, judged, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm001_updates_too_small import updates_too_small
from traindx.run import Series

NAMES = ("a.weight", "b.weight", "c.weight", "c.bias")
SHAPES = {"a.weight": [32, 32], "b.weight": [32, 32], "c.weight": [10, 32], "c.bias": [10]}


def the(run, **limits):
    return judged(updates_too_small, run, **limits)


def moving(ratio: float, n: int = 400, loss=None, early: float | None = None, **more):
    rows = np.full(n, ratio) * np.exp(noise(n, 0.1))
    if early is not None:
        rows[:10] = early
    table = {k: rows if k != "c.bias" else np.full(n, 0.5) for k in NAMES}
    facts = {"model.param_shapes": SHAPES, "optimizer.name": "Adam", **zoo.CE10, **more.pop("facts", {})}
    loss = 2.3 - 0.02 * np.arange(n) / n + noise(n, 0.03) if loss is None else loss
    return a_run({"update_ratio/param": table, "loss/train": loss, **more}, facts=facts)


def test_tiny_updates_with_a_standing_loss_are_a_warning() -> None:
    [found] = the(moving(2e-6))
    assert found.severity is Severity.WARNING and "2.0e-06" in found.message


def test_crawling_is_a_warning_when_nothing_comes_of_it_and_a_remark_when_something_does() -> None:
    assert the(moving(5e-5))[0].severity is Severity.WARNING
    half = moving(5e-5, loss=2.3 - 0.5 * np.arange(400) / 400 + noise(400, 0.03))
    assert the(half)[0].severity is Severity.INFO


def test_healthy_steps_are_clear_biases_do_not_count() -> None:
    assert the(moving(2e-3)) == []


def test_a_run_that_learns_well_is_fine_whatever_its_steps() -> None:
    assert the(moving(5e-6, loss=zoo.falling(400) + noise(400, 0.02))) == []


def test_a_network_killed_by_its_first_steps_is_not_too_slow() -> None:
    assert the(moving(5e-7, early=1.4)) == []
    assert the(moving(5e-7, output_std=np.r_[np.ones(5), np.full(395, 1e-4)])) == []


def test_warm_up_is_muted_and_the_end_of_a_schedule_left_out() -> None:
    rising = moving(1e-7, lr=np.linspace(0, 1e-3, 400))
    assert updates_too_small.outcome(rising).status is Status.MUTED
    n = 400
    decayed = moving(1e-3, lr=np.r_[np.full(200, 1e-3), np.full(200, 1e-9)])
    table = decayed["update_ratio/param"]
    values = table.values.copy()
    values[200:] *= 1e-6
    assert the(decayed.with_({"update_ratio/param": type(table)(np.arange(n), table.names, values)})) == []


def test_fine_tuning_takes_smaller_steps_by_right() -> None:
    run = moving(2e-5, facts={"finetune": True})
    assert the(run) == [] and the(moving(5e-7, facts={"finetune": True}))


def test_tensors_near_zero_do_not_count() -> None:
    run = moving(2e-6)
    sizes = a_run({"weight_norm/param": {k: np.full(400, 1e-4) for k in NAMES}})
    assert updates_too_small.outcome(run.with_(sizes.signals)).status is not Status.FOUND


def test_a_log_with_a_tiny_rate_and_a_flat_loss_is_a_hint() -> None:
    run = a_run({"loss/train": 10.97 + noise(400, 0.02), "lr": np.full(400, 1e-7)})
    [found] = the(run)
    assert (found.variant, found.confidence) == ("rate", Confidence.SUGGESTIVE)
    assert the(a_run({"loss/train": 10.97 + noise(400, 0.02), "lr": np.full(400, 1e-4)})) == []


def test_the_median_over_all_weights_will_do() -> None:
    run = a_run({"update_ratio": np.full(400, 1e-6), "loss/train": 2.3 + noise(400, 0.03)}, facts=zoo.CE10)
    assert the(run)


def test_too_few_steps_are_unsure() -> None:
    assert updates_too_small.outcome(moving(1e-6, n=30)).status is Status.UNSURE


def test_its_limits_are_the_band() -> None:
    assert the(moving(2e-6), tiny=1e-9, small=1e-7) == []
    assert isinstance(moving(1e-3)["loss/train"], Series)
