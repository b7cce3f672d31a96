"""OPTM011: the batch changed, the rate did not."""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from runs import a_run, noise
from traindx.finding import Severity
from traindx.rules.optm011_batch_lr_mismatch import batch_lr_mismatch


def the(run, **limits):
    return list(batch_lr_mismatch.findings(run, **limits))


def changed(factor: float, rate_factor: float = 1.0, optimizer: str = "SGD", loss: np.ndarray | None = None, n: int = 800):
    half = n // 2
    size = np.r_[np.full(half, 32.0), np.full(half, 32.0 * factor)]
    rate = np.r_[np.full(half, 0.1), np.full(half, 0.1 * rate_factor)]
    loss = zoo.falling(n) + noise(n, 0.02) if loss is None else loss
    return a_run({"batch/size": size, "lr": rate, "loss/train": loss}, facts={"optimizer.name": optimizer})


def test_a_lasting_change_without_the_rate_is_told_with_the_factor_needed() -> None:
    [found] = the(changed(8))
    assert found.steps[0] == pytest.approx(400, abs=8) and found.facts["needed"] == pytest.approx(8)


def test_a_rate_that_followed_is_clear() -> None:
    assert the(changed(8, 8)) == [] and the(changed(8, np.sqrt(8), "AdamW")) == []


def test_harm_makes_it_a_warning() -> None:
    loss = zoo.falling(800) + noise(800, 0.02)
    loss[400:] += 0.5
    assert the(changed(1 / 8, loss=loss))[0].severity is Severity.WARNING
    assert the(changed(8))[0].severity is Severity.INFO


def test_a_band_that_widens_beyond_the_smaller_sample_is_harm() -> None:
    later = np.arange(800) >= 400
    usual, wild = (zoo.falling(800) + noise(800, 0.02) * np.where(later, wide, 1) for wide in (np.sqrt(8), 8))
    assert the(changed(1 / 8, loss=usual))[0].severity is Severity.INFO
    assert the(changed(1 / 8, loss=wild))[0].severity is Severity.WARNING


def test_the_small_last_batch_of_an_epoch_is_no_change() -> None:
    run = changed(1.0)
    size = np.full(800, 32.0)
    size[49::50] = 3.0
    assert the(run.with_(a_run(batch__size=size).signals)) == []


def test_its_limit_is_the_change() -> None:
    assert the(changed(2.5)) == [] and the(changed(2.5), change=2.0)
