"""OPTM002: first steps that destroy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import zoo
from runs import a_run, judged, learning, noise
from traindx.finding import Severity, Status
from traindx.rules.optm002_updates_too_large import updates_too_large
from traindx.run import Matrix, Series

SHAPES = {"a.weight": [32, 32], "b.weight": [10, 32], "b.bias": [10]}


def the(run, **limits):
    return judged(updates_too_large, run, **limits)


def hot(early: float, loss: np.ndarray, optimizer: str = "Adam", later: float = 1e-3, **facts):
    n = len(loss)
    rows = np.r_[np.full(10, early), np.full(n - 10, later)]
    table = {"a.weight": rows, "b.weight": 0.5 * rows, "b.bias": np.full(n, 9.0)}
    facts = {"model.param_shapes": SHAPES, "optimizer.name": optimizer, **zoo.CE10, **facts}
    return a_run({"update_ratio/param": table, "loss/train": loss}, facts=facts)


def dead(n: int = 600) -> np.ndarray:
    return math.log(10) + np.r_[np.linspace(5, 0, 20), np.zeros(n - 20)] + noise(n, 0.02)


def test_a_calm_run_at_chance_that_was_hot_at_first_is_critical() -> None:
    [found] = the(hot(1.4, dead(), later=5e-7))
    assert found.severity is Severity.CRITICAL and found.where[0] == "a.weight" and "140%" in found.message


def test_a_non_finite_end_counts_as_harm() -> None:
    loss = np.r_[np.geomspace(2.3, 1e6, 40), np.full(260, np.nan)]
    assert the(hot(0.5, loss))[0].severity is Severity.CRITICAL
    sudden = zoo.falling(300)
    sudden[250:] = np.nan
    assert all(f.severity is Severity.INFO for f in the(hot(0.5, sudden))), "one bad operation out of the blue is another story"


def test_a_large_step_that_was_survived_is_a_remark() -> None:
    [found] = the(hot(0.41, zoo.falling(600) + noise(600, 0.03)))
    assert (found.variant, found.severity) == ("survived", Severity.INFO)


def test_healthy_steps_are_clear_whatever_becomes_of_the_loss() -> None:
    assert the(hot(0.014, dead())) == [] and the(hot(0.014, zoo.falling(600))) == []


def test_a_small_bias_or_a_fresh_head_is_not_counted() -> None:
    run = hot(0.01, dead())
    sizes = a_run({"weight_norm/param": {"a.weight": np.full(600, 10.0), "b.weight": np.full(600, 1e-5)}})
    table = run["update_ratio/param"]
    values = table.values.copy()
    values[:10, 1] = 50.0
    run = run.with_({"update_ratio/param": type(table)(table.steps, table.names, values), **sizes.signals})
    assert the(run) == []


def test_plain_sgd_needs_harm() -> None:
    assert the(hot(0.41, zoo.falling(600) + noise(600, 0.03), "SGD")) == []
    assert the(hot(0.2, dead(), "SGD"))[0].severity >= Severity.WARNING


def test_weights_that_shrink_are_measured_by_the_size_they_began_with() -> None:
    n = 1200
    ratio = np.r_[np.linspace(0.25, 2.0, 10), np.full(n - 10, 0.3)]  # a target that is noise: the weights go to zero
    signals = {"update_ratio/param": {"a.weight": ratio}, "loss/train": 1.0 + noise(n, 0.2)}
    told = {"model.param_shapes": SHAPES, "optimizer.name": "SGD"}
    [found] = the(a_run(signals, facts=told))
    assert found.facts["early"] > 1
    size = np.r_[np.geomspace(1.0, 0.05, 10), np.full(n - 10, 0.05)]
    assert all(f.facts["early"] < 0.4 for f in the(a_run({**signals, "weight_norm/param": {"a.weight": size}}, facts=told)))


def test_what_begins_at_zero_has_no_size_to_be_moved_by() -> None:
    run = hot(1.0, zoo.falling(300), later=1e-3)
    born, grown = (a_run({"weight_norm/param": {"a.weight": np.geomspace(first, 9.0, 300)}}).signals for first in (1e-9, 5.0))
    assert the(run.with_(grown))[0].where[0] == "a.weight" and the(run.with_(born))[0].where[0] == "b.weight"


def test_a_dozen_records_do_not_show_that_nothing_was_learned() -> None:
    loss = 1.3 + noise(16, 0.5)
    run = a_run({"update_ratio/param": {"a.weight": np.full(16, 0.28)}, "loss/train": loss}, facts={"optimizer.name": "SGD"})
    assert the(run.with_(facts={"model.param_shapes": SHAPES})) == []


def test_the_first_steps_after_a_warm_up_are_looked_at_too() -> None:
    run = hot(0.001, dead(), later=1e-4)
    table = run["update_ratio/param"]
    values = table.values.copy()
    values[100:110] = 1.2
    rate = np.r_[np.linspace(0, 1, 100), np.ones(500)]
    run = run.with_({"update_ratio/param": type(table)(table.steps, table.names, values), **a_run(lr=rate).signals})
    [found] = the(run)
    assert 99 <= found.steps[0] <= 110


def test_without_the_first_updates_it_is_blind() -> None:
    assert updates_too_large.outcome(a_run(loss__train=zoo.falling(300))).status is Status.BLIND


def test_two_players_are_muted() -> None:
    assert updates_too_large.outcome(hot(1.4, dead(), adversarial=True)).status is Status.MUTED


def test_the_loss_of_a_policy_is_no_measure_of_harm_unless_it_ends() -> None:
    rising = np.linspace(8.9, 10, 120) + noise(120, 2.0)
    assert the(hot(0.13, rising)) and not the(hot(0.13, rising, rl=True))
    [found] = the(hot(0.5, rising, rl=True))
    assert found.variant == "survived" and found.severity is Severity.INFO
    [found] = the(hot(1.4, np.r_[np.geomspace(2.3, 1e6, 40), np.full(60, np.nan)], rl=True))
    assert found.severity is Severity.CRITICAL


def test_its_limits_are_ratios() -> None:
    assert the(hot(0.41, zoo.falling(600) + noise(600, 0.03)), adam=0.9) == []


def test_weights_that_shrink_by_decay_are_another_rule() -> None:
    n = 400
    moved = {"update_ratio/param": Matrix(np.arange(n), ("w",), np.full((n, 1), 0.4))}
    stuck = a_run(loss__train=np.full(n, 2.3) + noise(n, 0.01), facts=zoo.CE10).with_(moved)
    assert list(updates_too_large.findings(stuck))
    share = Matrix(np.arange(n), ("w",), np.geomspace(4, 0.05, n)[:, None])
    assert not list(updates_too_large.findings(stuck.with_({"decay_share/param": share})))


def test_validation_far_above_the_untrained_loss_is_harm() -> None:
    loss = np.r_[2.3, np.geomspace(1e4, 0.5, 599)] * (1 + noise(600, 0.02))
    run = hot(11.0, loss)
    spoiled = run.with_(signals={"loss/val": Series(np.arange(0, 600, 20), np.full(30, 52.0))})
    sound = run.with_(signals={"loss/val": Series(np.arange(0, 600, 20), np.full(30, 0.7))})
    assert [f.severity for f in the(spoiled)] == [Severity.CRITICAL] and "loss is about 52" in the(spoiled)[0].message
    assert all("validation" not in f.message for f in the(sound))


def test_a_convex_problem_that_is_solved_in_a_few_large_steps_was_not_thrown_away() -> None:
    rng = np.random.default_rng(3)
    loss = np.r_[0.69, 0.55, np.full(598, 0.42)] + 0.03 * rng.standard_normal(600)  # below its start before it can be averaged
    assert all(
        f.severity is Severity.INFO for f in the(hot(0.39, loss, "SGD", **{"loss.kind": "bce_logits", "loss.classes": 2}))
    )


def test_a_run_that_learned_a_little_gets_a_remark() -> None:
    crawling = math.log(10) + 0.08 - 0.2 * np.minimum(1, np.arange(300) / 150) + noise(300, 0.02)
    assert [f.severity for f in the(hot(2.4, crawling))] == [Severity.INFO], "a little was learned all the same"
    halfway = 2.3 - 1.2 * np.minimum(1, np.arange(300) / 150) + noise(300, 0.02)
    assert [f.variant for f in the(hot(2.4, halfway))] == ["survived"]
    assert [f.variant for f in the(hot(0.6, crawling))] == ["survived"], "less than the weights' own size"


def test_a_loss_that_halves_beneath_its_noise_is_no_harm() -> None:
    tasks = np.repeat(np.random.default_rng(0).gamma(1.0, 1.0, 300), 5)  # every five steps another task
    found = the(hot(0.4, tasks * np.linspace(4.0, 1.0, 1500)))
    assert all(f.severity is Severity.INFO for f in found)


@pytest.mark.parametrize("after", [20.0, 0.35])
@pytest.mark.parametrize("late", [1, 3, 8])
def test_a_rate_that_rose_right_before_the_loss_was_lost_is_named(after: float, late: int) -> None:
    loss = learning(1500, 4.0, 0.3)
    loss[1200 + late :] = np.geomspace(5, 1e9, 300 - late)
    rate = np.where(np.arange(1500) < 1200, 0.05, after)
    [found] = the(a_run(loss__train=loss, lr=rate))
    assert (found.variant, found.steps[0]) == ("raised", 1200) and "from 0.05" in found.message
    assert not updates_too_large.outcome(a_run(loss__train=learning(1500, 4.0, 0.3), lr=rate)).findings
    steady = updates_too_large.outcome(a_run(loss__train=loss, lr=np.full(1500, 0.05))).findings
    assert not [f for f in steady if f.variant == "raised"]
    again = np.where(np.arange(1500) // 100 % 2, 0.05, 0.4)  # a rate that it had before, and came through
    assert not [f for f in updates_too_large.outcome(a_run(loss__train=loss, lr=again)).findings if f.variant == "raised"]
