"""LOSS004: still converging, with a forecast."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Severity, Status
from traindx.rules.loss004_still_converging import still_converging


def the(run, **limits):
    return list(still_converging.findings(run, **limits))


def test_the_forecast_is_in_the_facts_and_right() -> None:
    n, full = 2000, 4000
    truth = zoo.falling(full)[-1]
    run = a_run(loss__train=(zoo.falling(full) + noise(full, 0.03))[:n], facts={"budget.planned_steps": full})
    [found] = the(run)
    facts = found.facts
    assert facts["at_step"] == full and facts["lo"] <= truth <= facts["hi"]
    assert facts["now"] > facts["forecast"] and facts["gain"] > 0 and found.severity is Severity.INFO


def test_much_to_gain_means_the_budget_is_too_short() -> None:
    loss = 1 + 4 * (1 + np.arange(1500) / 200) ** -0.5 + noise(1500, 0.02)
    [found] = the(a_run(loss__train=loss))
    assert found.variant == "extend" and found.facts["share"] > 0.05


def test_a_flat_or_rising_curve_is_not_still_converging() -> None:
    assert the(a_run(loss__train=1.1 + 1.2 * np.exp(-np.arange(2000) / 60) + noise(2000, 0.02))) == []
    assert the(zoo.slow_divergence()) == []


def test_a_curve_of_another_kind_gets_no_number_but_the_reason() -> None:
    [found] = the(zoo.late_drop())
    assert found.variant == "unfitted" and "forecast" not in found.facts and "does not predict" in found.message


def test_few_records_get_no_forecast_either() -> None:
    [found] = the(a_run(loss__train=zoo.falling(100) + noise(100, 0.01)))
    assert found.variant == "unfitted" and "needs 200" in found.message


def test_noise_is_unsure_with_a_resolution() -> None:
    outcome = still_converging.outcome(a_run(loss__train=2 - 0.1 * np.arange(300) / 300 + noise(300, 1.0)))
    assert outcome.status is Status.UNSURE and outcome.resolution > 0


def test_the_forecast_starts_anew_after_a_step_of_the_rate() -> None:
    [found] = the(zoo.step_decay())
    assert found.facts["forecast"] > 0.4


def test_a_gain_not_worth_a_word_is_kept_silent() -> None:
    run = a_run(loss__train=zoo.falling(2000) + noise(2000, 0.02))
    assert the(run) and the(run, worth=0.5) == []


def test_two_players_are_muted() -> None:
    assert still_converging.outcome(zoo.two_players()).status is Status.MUTED
