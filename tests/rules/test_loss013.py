"""LOSS013: a finished run that knows nothing is told so, whether or not any other condition knows why."""

from __future__ import annotations

import numpy as np

from runs import a_run, noise
from traindx.diagnosis import diagnose
from traindx.finding import Severity, Status
from traindx.rules.loss013_not_learned import not_learned
from traindx.run import Run, Series


def log(train, val, accuracy, **facts) -> Run:
    epochs = np.arange(len(train))
    signals = {"loss/train": train, "loss/val": val, "accuracy/val": accuracy}
    return Run({k: Series(epochs, np.asarray(v, float)) for k, v in signals.items()}, {"step_unit": "epoch", **facts})


def stuck(epochs: int = 14, **facts) -> Run:
    return log(2.303 + noise(epochs, 0.004), 2.303 + noise(epochs, 0.004, 1), 0.1 + noise(epochs, 0.01, 2), **facts)


def test_a_run_at_chance_is_told_so() -> None:
    [found] = not_learned.findings(stuck())
    assert found.severity is Severity.CRITICAL
    assert found.message.startswith("it has not learned: validation accuracy is 0.") and "chance is 0.1" in found.message
    assert diagnose(stuck()).verdict == "restart"


def test_a_loss_that_ends_far_above_its_start_is_worse() -> None:
    [found] = not_learned.findings(log(np.linspace(2.4, 106, 14), np.linspace(2.4, 90, 14), np.full(14, 0.1)))
    assert found.variant == "worse"


def test_a_run_that_learned_is_clear() -> None:
    fall = 2.3 * np.exp(-np.arange(14) / 3)
    assert not_learned.outcome(log(fall, fall + 0.05, 1 - 0.9 * np.exp(-np.arange(14) / 3))).status is Status.CLEAR


def test_too_few_epochs_and_a_run_that_goes_on_are_unsure() -> None:
    assert not_learned.outcome(stuck(4)).status is Status.UNSURE
    assert not_learned.outcome(stuck(ended="running")).status is Status.UNSURE
    assert not_learned.outcome(stuck(**{"budget.planned_steps": 100})).status is Status.UNSURE


def test_another_alarm_accounts_for_it() -> None:
    run = a_run(loss__train=np.append(2.3 + noise(300, 0.01), np.full(60, np.nan)))
    told = diagnose(run)
    assert told.stories[0].root.code != "LOSS013" and "LOSS013" in {f.code for f in told.stories[0].consequences}
