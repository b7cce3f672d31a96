"""LOSS007: single extreme batches."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Severity, Status
from traindx.rules.loss007_bad_batch import bad_batch


def the(run, **limits):
    return list(bad_batch.findings(run, **limits))


def test_a_few_lone_batches_are_a_remark_with_the_worst_step() -> None:
    loss = zoo.falling(2000) + noise(2000, 0.03)
    loss[[700, 1500]] += [2.0, 4.0]
    [found] = the(a_run(loss__train=loss))
    assert found.severity is Severity.INFO and found.facts["worst"] == 1500 and found.facts["events"] == [700, 1500]


def test_the_same_place_in_every_epoch_means_the_same_samples() -> None:
    [found] = the(zoo.one_bad_batch_each_epoch())
    assert (found.variant, found.severity) == ("repeating", Severity.WARNING)


def test_the_same_fingerprint_does_too() -> None:
    rng = np.random.default_rng(0)
    loss = zoo.falling(2000) + noise(2000, 0.03)
    prints = rng.integers(1, 2**40, 2000).astype(float)
    for at in (400, 911, 1507, 1803):
        loss[at] += 3.0
        prints[at] = 7.0
    [found] = the(a_run(loss__train=loss, batch__fingerprint=prints))
    assert found.variant == "repeating"


def test_losses_near_zero_with_a_natural_tail_are_quiet() -> None:
    assert the(zoo.near_zero_with_tail()) == []


def test_jumps_of_the_weights_are_another_rule() -> None:
    assert the(zoo.spiky()) == []


def test_means_over_an_epoch_show_no_batch() -> None:
    loss = zoo.falling(300) + noise(300, 0.01)
    loss[150] += 3
    assert the(a_run(loss__train=loss, facts={"step_unit": "epoch"})) == []


def test_too_few_losses_are_not_judged() -> None:
    assert bad_batch.outcome(a_run(loss__train=np.ones(100))).status is Status.BLIND


def test_its_limit_is_the_share_of_the_gain() -> None:
    loss = zoo.falling(2000) + noise(2000, 0.03)
    loss[700] += 2.0
    assert the(a_run(loss__train=loss)) and the(a_run(loss__train=loss), share=2.0) == []


def test_a_fingerprint_of_another_step_says_nothing() -> None:
    loss = zoo.falling(2000) + noise(2000, 0.03)
    loss[[400, 911, 1507, 1803]] += 3.0
    few = np.full(2000, np.nan)
    few[:3] = [1.0, 2.0, 3.0]  # as on short steps, of which most are only glimpsed
    run = a_run(loss__train=loss, batch__fingerprint=few)
    [found] = the(run.with_(signals={"batch/fingerprint": run.series("batch/fingerprint").finite()}))
    assert found.severity is Severity.INFO


def test_the_same_few_heights_are_the_same_samples_and_a_tail_has_them_all() -> None:
    rng = np.random.default_rng(3)
    usual = 0.3 + noise(600, 0.05)
    at = np.sort(rng.choice(np.arange(5, 595), 40, replace=False))
    same, tail = usual.copy(), usual.copy()
    same[at] = rng.choice([55.0, 700.0, 945.0], 40) * (1 + noise(40, 0.01))
    tail[at] = 10.0 ** rng.uniform(1.5, 3.0, 40)
    [found] = the(a_run(loss__train=same))
    assert (found.variant, found.severity) == ("repeating", Severity.WARNING)
    assert all(f.severity is Severity.INFO for f in the(a_run(loss__train=tail)))
