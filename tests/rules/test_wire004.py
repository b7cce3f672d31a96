"""WIRE004: gradients are not cleared between updates."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise, steady
from traindx.finding import Confidence, Severity, Status
from traindx.rules.wire004_zero_grad_missing import zero_grad_missing as rule
from traindx.run import Event


def test_fires_within_three_steps_and_says_from_when() -> None:
    [found] = rule.findings(a_run({"loop/stale_grads": [0, 1, 1, 1], "loop/zero_grads": [0, 0, 0, 0]}))
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert found.steps == (1, 3)


def test_two_steps_are_not_enough() -> None:
    assert not list(rule.findings(a_run({"loop/stale_grads": [0, 1, 1]})))


def test_clearing_once_per_epoch_is_the_same_fault() -> None:
    stale = np.array([0.0, *[1.0] * 9] * 10)
    [found] = rule.findings(a_run({"loop/stale_grads": stale, "loop/zero_grads": 1 - stale}))
    assert found.facts["share"] == 0.9


def test_accumulation_within_an_update_is_fine() -> None:
    run = a_run({"loop/stale_grads": np.zeros(50), "loop/backwards": np.full(50, 8.0), "loop/zero_grads": np.ones(50)})
    assert rule.outcome(run).status is Status.CLEAR


def test_gradients_that_somebody_cleared_are_no_fault() -> None:
    run = a_run({"loop/stale_grads": np.ones(50), "loop/zero_grads": np.ones(50)})
    assert not list(rule.findings(run))


def test_a_lone_odd_step_now_and_then_is_no_habit() -> None:
    stale = np.zeros(200)
    stale[::50] = 1
    assert not list(rule.findings(a_run({"loop/stale_grads": stale})))
    assert list(rule.findings(a_run({"loop/stale_grads": stale}), least_share=0.01))


def test_clearing_that_went_missing_late_shows_in_a_row() -> None:
    stale = np.zeros(300)
    stale[-5:] = 1
    [found] = rule.findings(a_run({"loop/stale_grads": stale}))
    assert found.steps == (295, 299) and "from step 295 on" in found.message
    assert not list(rule.findings(a_run({"loop/stale_grads": stale}), in_a_row=6))


def test_unseen_loops_are_judged_by_agreeing_gradients_that_grow() -> None:
    growing = np.linspace(1, 20, 100)
    [found] = rule.findings(a_run(grad_cosine=0.96 + noise(100, 0.01), grad_norm=growing))
    assert found.confidence is Confidence.STRONG and found.variant == "growth"


def test_full_batch_training_agrees_without_growing() -> None:
    assert not list(rule.findings(a_run(grad_cosine=np.full(100, 0.99), grad_norm=np.linspace(5, 0.5, 100))))


def test_growing_norms_that_disagree_are_another_fault() -> None:
    assert not list(rule.findings(a_run(grad_cosine=steady(100, 0.3), grad_norm=np.linspace(1, 20, 100))))


def test_another_optimizer_that_is_never_cleared_is_named() -> None:
    event = Event(3, "stale_grads", {"how": "1", "optimizer": 1, "names": ["mlp.0.weight"], "count": 40})
    run = a_run({"loop/stale_grads": np.zeros(60), "loop/zero_grads": np.ones(60)}, events=[event])
    [found] = rule.findings(run)
    assert found.variant == "other" and found.where == ("mlp.0.weight",) and "second optimizer" in found.message


def test_a_few_odd_steps_of_another_optimizer_are_no_habit() -> None:
    event = Event(3, "stale_grads", {"how": "1", "optimizer": 1, "names": ["w"], "count": 3})
    assert not list(rule.findings(a_run({"loop/stale_grads": np.zeros(60)}, events=[event])))
