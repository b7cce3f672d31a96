"""DIST001: replicas hold different parameters."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx import diagnose
from traindx.finding import Severity, Status
from traindx.rules.dist001_rank_drift import rank_drift as rule
from traindx.run import Run

PRINTS = np.random.default_rng(0).integers(0, 2**52, 20).astype(float)


def replicas(*columns: np.ndarray, **facts: object) -> Run:
    return a_run({"rank/params": {str(i): c for i, c in enumerate(columns)}}, steps=np.arange(20) * 500, facts=facts)


def changed(at: int) -> np.ndarray:
    out = PRINTS.copy()
    out[at:] += 1
    return out


def test_names_the_rank_and_the_step() -> None:
    [found] = rule.findings(replicas(PRINTS, PRINTS, changed(4), PRINTS))
    assert found.where == ("rank 2",) and found.rank == 2 and found.steps == (2000, 9500)
    assert found.severity is Severity.CRITICAL


def test_different_from_the_start() -> None:
    [found] = rule.findings(replicas(PRINTS, changed(0)))
    assert found.variant == "start" and found.where == ("rank 0", "rank 1")


def test_equal_replicas_with_different_losses_are_healthy() -> None:
    run = replicas(PRINTS, PRINTS).with_(a_run({"rank/loss": {"0": steady(20), "1": steady(20, seed=1)}}).signals)
    assert rule.outcome(run).status is Status.CLEAR


def test_replicas_that_meet_again_average_on_purpose() -> None:
    other = PRINTS.copy()
    other[np.arange(20) % 4 != 3] += 7
    run = replicas(PRINTS, other)
    assert next(rule.findings(run)).severity is Severity.INFO
    assert next(rule.findings(run, meetings=50)).severity is Severity.CRITICAL


def test_rates_that_differ_before_the_parting_are_named_and_later_ones_are_not() -> None:
    rates = np.full(20, 0.1)
    half = np.where(np.arange(20) >= 3, 0.05, 0.1)
    parted = replicas(PRINTS, changed(4))

    def at(*columns: np.ndarray) -> Run:
        return parted.with_(
            a_run({"rank/lr": {str(i): c for i, c in enumerate(columns)}}, steps=parted["rank/params"].steps).signals
        )

    [found] = rule.findings(at(rates, half))
    assert found.variant == "rates" and found.steps == (1500, 9500) and "rank 1: 0.05" in found.message
    assert [f.variant for f in rule.findings(at(rates, rates * (1 + 1e-8)))] == [""]
    assert [f.variant for f in rule.findings(at(rates, np.where(np.arange(20) >= 9, 0.05, 0.1)))] == [""]


def test_sharded_models_are_not_judged() -> None:
    assert rule.outcome(replicas(PRINTS, changed(0), distributed="fsdp")).status is Status.MUTED


def test_one_process_is_muted_and_missing_files_are_blind() -> None:
    assert rule.outcome(a_run(facts={"world_size": 1})).status is Status.MUTED
    assert rule.outcome(a_run(facts={"world_size": 2})).status is Status.BLIND


def test_statistics_of_batch_norm_that_nothing_synchronises_are_named() -> None:
    same = {str(r): np.full(40, 7.0) for r in range(2)}
    own = {str(r): np.r_[7.0, np.arange(39) + 100.0 * r] for r in range(2)}
    [found] = rule.findings(a_run({"rank/params": same, "rank/buffers": own}))
    assert found.variant == "buffers" and found.severity is Severity.WARNING and found.steps == (1, 39)
    assert rule.outcome(a_run({"rank/params": same, "rank/buffers": same})).status is Status.CLEAR
    found = diagnose(a_run({"rank/params": same, "rank/buffers": own}, facts={"world_size": 2, "distributed": True}))
    assert found.causes[0].cause.name == "rank-statistics" and found.verdict == "fix-and-resume"  # the weights are equal


def test_different_first_weights_are_called_so() -> None:
    apart = {str(r): np.full(40, 7.0 + r) for r in range(2)}
    [found] = rule.findings(a_run({"rank/params": apart}))
    assert found.variant == "start" and "began with different weights" in found.message
