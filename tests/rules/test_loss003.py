"""LOSS003: a plateau after a drop."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.loss003_plateau_after_drop import plateau_after_drop
from traindx.run import Series


def the(run, **limits):
    return list(plateau_after_drop.findings(run, **limits))


def settled(n: int = 2000, level: float = 1.1, sd: float = 0.02) -> np.ndarray:
    return level + 1.2 * np.exp(-np.arange(n) / 60) + noise(n, sd)


def test_it_says_since_when_and_at_what_level() -> None:
    [found] = the(a_run(loss__train=settled()))
    assert 150 <= found.steps[0] <= 500 and 1.09 < found.facts["level"] < 1.11
    assert found.severity is Severity.INFO and found.confidence is Confidence.STRONG


def test_with_budget_left_at_full_rate_it_is_a_warning() -> None:
    assert the(zoo.plateau_high())[0].severity is Severity.WARNING
    decayed = zoo.plateau_high().with_({"lr": Series(np.arange(3000), np.geomspace(1e-3, 1e-6, 3000))})
    assert the(decayed)[0].severity is Severity.INFO
    finished = zoo.plateau_high().with_(facts={"budget.planned_steps": 3000})
    assert the(finished)[0].severity is Severity.INFO


def test_a_missed_target_is_a_warning() -> None:
    run = a_run(loss__train=settled(), facts={"budget.target": {"signal": "loss/train", "value": 0.5}})
    assert the(run)[0].severity is Severity.WARNING


def test_a_power_law_that_still_falls_is_not_flat() -> None:
    assert the(zoo.plain()) == []


def test_a_loss_that_is_down_to_nothing_is_finished_not_stuck() -> None:
    assert plateau_after_drop.outcome(zoo.early_convergence()).status is not Status.FOUND


def test_nothing_gained_is_another_rule() -> None:
    assert the(zoo.stuck_at_chance()) == []


def test_validation_may_stand_while_training_goes_on() -> None:
    n = 3000
    val = 0.9 + 0.8 * np.exp(-np.arange(60) / 4) + noise(60, 0.003)
    [found] = the(zoo.evaluated(zoo.falling(n) + noise(n, 0.03), val, 50))
    assert found.variant == "val" and "validation" in found.message


def test_coarse_rounding_is_unsure_not_flat() -> None:
    loss = np.round(0.5 + 1.2 * np.exp(-np.arange(300) / 15) - 0.0002 * np.arange(300), 1)
    outcome = plateau_after_drop.outcome(a_run(loss__train=loss))
    assert outcome.status is not Status.FOUND or outcome.findings[0].confidence is Confidence.SUGGESTIVE


def test_noise_gives_unsure_with_a_resolution_or_a_hint_with_a_bound() -> None:
    outcome = plateau_after_drop.outcome(a_run(loss__train=settled(400, sd=0.2)))
    assert outcome.status is Status.UNSURE and outcome.resolution > 0.05 and outcome.needs_steps > 0
    [hint] = the(a_run(loss__train=settled(400, sd=0.08)))
    assert hint.variant == "nearly" and hint.confidence is Confidence.SUGGESTIVE and hint.facts["resolution"] <= 0.12


def test_a_short_log_gives_only_a_hint() -> None:
    epochs = 0.8 + 1.0 * np.exp(-np.arange(16) / 1.5) + noise(16, 0.002)
    [found] = the(a_run(loss__train=epochs, facts={"step_unit": "epoch"}))
    assert found.confidence is Confidence.SUGGESTIVE


def test_in_warm_up_it_is_muted() -> None:
    run = a_run(loss__train=settled(500), lr=np.linspace(0, 1e-3, 500))
    assert plateau_after_drop.outcome(run).status is Status.MUTED


def test_its_limit_is_how_flat_flat_is() -> None:
    slow = a_run(loss__train=settled(2000, sd=0.005) - 0.06 * np.arange(2000) / 2000)
    assert [f.variant for f in the(slow, eps=0.002)] == []
    assert the(a_run(loss__train=settled()), eps=0.05)


def test_a_plateau_far_below_chance_or_after_the_decay_is_the_normal_end() -> None:
    low = a_run(loss__train=settled(level=0.4), facts=zoo.CE10)  # ln 10 is 2.3
    assert the(low)[0].variant == "end" and "17%" in the(low)[0].message
    high = a_run(loss__train=settled(level=1.4), facts=zoo.CE10)
    assert the(high)[0].variant == ""
    annealed = high.with_({"lr": Series(np.arange(2000), 1e-3 * np.cos(np.linspace(0, np.pi / 2, 2000)))})
    assert the(annealed)[0].variant == "end"


def test_a_bias_learned_is_no_normal_end_where_the_spread_of_the_targets_is_known() -> None:
    facts = {"loss.kind": "mse", "loss.reduction": "mean"}
    loss = 1.0 + 6 * np.exp(-np.arange(2000) / 60) + noise(2000, 0.02)  # an eighth of the first loss, and all of the variance
    targets = {"batch/label_std": Series(np.arange(40), np.ones(40)), "batch/label_mean": Series(np.arange(40), np.ones(40))}
    assert the(a_run(loss__train=loss, facts=facts).with_(targets))[0].variant == ""
    assert the(a_run(loss__train=loss))[0].variant == "end"  # nothing is known but where it began


def test_a_missed_target_is_no_normal_end() -> None:
    run = a_run(loss__train=settled(level=0.4), facts={**zoo.CE10, "budget.target": {"signal": "loss/train", "value": 0.1}})
    assert the(run)[0].variant == "" and the(run)[0].severity is Severity.WARNING
