"""OPTM005: the noise floor of the learning rate."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm005_lr_noise_floor import lr_noise_floor


def the(run, **limits):
    return list(lr_noise_floor.findings(run, **limits))


def flat(rate: np.ndarray | None = None, **facts):
    n = 2000
    loss = 0.8 + 1.5 * np.exp(-np.arange(n) / 40) + noise(n, 0.02)
    return a_run({"loss/train": loss, "lr": np.full(n, 0.1) if rate is None else rate}, facts=facts)


def anneal(train: float, val: float | None, control: float = -0.02) -> dict:
    return {
        "trial.anneal": {"train": train, "val": val, "train_continued": control, "val_continued": control, "significant": True}
    }


def test_before_the_trial_it_is_a_hypothesis() -> None:
    [found] = the(flat())
    assert (found.variant, found.confidence) == ("suspected", Confidence.SUGGESTIVE) and "anneal" in found.fix


def test_the_trial_confirms_it_when_both_losses_drop() -> None:
    [found] = the(flat(**anneal(-0.49, -0.48)))
    assert found.severity is Severity.WARNING and found.confidence is Confidence.STRONG


def test_the_trial_refutes_it_when_only_training_drops_or_nothing_does() -> None:
    assert the(flat(**anneal(-0.35, 0.0))) == [] and the(flat(**anneal(-0.03, -0.03))) == []


def test_training_alone_decides_where_there_is_no_validation() -> None:
    assert the(flat(**anneal(-0.4, None)))


def test_a_decayed_rate_has_no_noise_floor() -> None:
    assert the(flat(np.linspace(0.1, 0.001, 2000))) == []


def test_a_falling_or_finished_loss_is_clear() -> None:
    assert the(zoo.plain()) == [] and the(zoo.early_convergence().with_(a_run(lr=np.full(2000, 0.1)).signals)) == []


def test_in_warm_up_it_is_muted() -> None:
    assert lr_noise_floor.outcome(flat(np.linspace(0, 0.1, 2000))).status is Status.MUTED


def test_its_limit_is_the_gain_over_the_control() -> None:
    assert the(flat(**anneal(-0.49, -0.48)), drop=0.6) == []
