"""PERF008: time that is not training."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.perf008_overhead_share import overhead_share as rule
from traindx.run import Event, Series

LONG = np.full(200, 1.0)


def test_an_evaluation_that_eats_the_run_is_a_warning() -> None:
    run = a_run({"time/step": LONG}, facts={"perf.shares": {"train": 0.3, "eval": 0.6, "checkpoint": 0.0}})
    [found] = rule.findings(run)
    assert found.severity is Severity.WARNING and found.where == ("eval",) and "less often" in found.fix


def test_an_agent_that_acts_evaluates_nothing() -> None:
    acting = tuple(Event(i, "evaluation", {"samples": 128}) for i in range(200))
    shares = {"perf.shares": {"train": 0.3, "eval": 0.6}}
    assert rule.outcome(a_run({"time/step": LONG}, facts={**shares, "rl": True}, events=acting)).status is Status.CLEAR
    [found] = rule.findings(a_run({"time/step": LONG}, facts=shares, events=acting))  # mined negatives, guessed labels
    assert found.severity is Severity.INFO and "no loss was taken" in found.message
    [found] = rule.findings(a_run({"time/step": LONG, "loss/val": LONG}, facts={**shares, "rl": True}, events=acting))
    assert found.severity is Severity.WARNING


def test_shares_of_a_short_run_say_nothing() -> None:
    run = a_run({"time/step": LONG / 100}, facts={"perf.shares": {"eval": 0.6, "traindx": 0.3}})
    assert rule.outcome(run).status is Status.CLEAR


def test_shares_are_computed_from_the_times_when_nobody_states_them() -> None:
    run = a_run({"time/step": LONG, "time/checkpoint": np.r_[np.full(199, 0.0), 20.0], "time/eval": np.zeros(200)})
    [found] = rule.findings(run)
    assert found.where == ("checkpoint",) and found.severity is Severity.INFO


def test_usual_shares_are_clear() -> None:
    run = a_run(
        {"time/step": LONG}, facts={"perf.shares": {"eval": 0.15, "checkpoint": 0.02, "logging": 0.01, "traindx": 0.008}}
    )
    assert rule.outcome(run).status is Status.CLEAR


def test_our_own_cost_is_told() -> None:
    [found] = rule.findings(a_run({"time/step": LONG}, facts={"perf.shares": {"traindx": 0.03}}))
    assert found.where == ("traindx",) and found.severity is Severity.INFO


def test_the_limit_is_the_users() -> None:
    run = a_run({"time/step": LONG}, facts={"perf.shares": {"eval": 0.6}})
    assert list(rule.findings(run)) and not list(rule.findings(run, least_s=1000.0))


def test_an_evaluation_after_every_step_is_a_warning_in_a_short_run_too() -> None:
    signals = {"time/step": LONG / 100, "time/eval": LONG / 30, "loss/val": LONG}
    [found] = rule.findings(a_run(signals))
    assert found.severity is Severity.WARNING
    assert not list(rule.findings(a_run(signals), often=0.5))


def test_a_checkpoint_after_every_step_is_a_warning_in_a_short_run_too() -> None:
    shares = {"perf.shares": {"train": 0.5, "checkpoint": 0.4, "traindx": 0.1}, "checkpoint.saves": 200}
    [found] = [f for f in rule.findings(a_run({"time/step": LONG / 100}, facts=shares)) if f.variant == "checkpoint"]
    assert found.severity is Severity.WARNING and "44%" in found.message and "best" in found.fix
    assert not list(rule.findings(a_run({"time/step": LONG / 100}, facts={**shares, "checkpoint.saves": 20})))


def test_our_own_cost_does_not_hide_the_others() -> None:
    shares = {"train": 0.3, "eval": 0.4, "traindx": 0.3}
    found = {f.variant: f.severity for f in rule.findings(a_run({"time/step": LONG}, facts={"perf.shares": shares}))}
    assert found == {"eval": Severity.WARNING, "traindx": Severity.INFO}


def test_our_own_work_in_the_users_evaluations_is_not_theirs() -> None:
    """Shares that add up to more than everything overlap: what is left of an evaluation without us is what counts."""
    signals = {"time/step": LONG / 100, "loss/val": LONG}
    shares = {"perf.shares": {"train": 0.0, "eval": 0.82, "traindx": 0.68}}
    [found] = [f for f in rule.findings(a_run(signals, facts=shares)) if f.variant == "eval"]
    assert found.severity is Severity.INFO and "44%" in found.message
    ours = {"perf.shares": {"train": 0.0, "eval": 0.7, "traindx": 0.68}}
    assert not [f for f in rule.findings(a_run(signals, facts=ours)) if f.variant == "eval"]


def test_an_evaluation_after_every_pass_over_a_few_batches_is_right_as_it_is() -> None:
    shares, val = {"perf.shares": {"train": 0.3, "eval": 0.7}}, Series(np.arange(30) * 3 + 2, np.ones(30))
    run = a_run({"time/step": np.full(90, 0.01)}, facts=shares).with_({"loss/val": val})
    assert list(rule.findings(run))
    assert not list(rule.findings(run.with_(facts={**run.facts, "data.steps_per_epoch": 3})))
