"""DIST003: ranks update from different gradients."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.dist003_grads_not_synced import grads_not_synced as rule

A, B = (np.random.default_rng(s).integers(0, 2**52, 12).astype(float) for s in range(2))


def test_never_synchronised() -> None:
    [found] = rule.findings(a_run({"rank/grads": {"0": A, "1": B}}))
    assert found.variant == "" and found.severity is Severity.CRITICAL and "DistributedDataParallel" in found.fix


def test_parameters_that_are_left_out_of_the_averaging_are_named() -> None:
    left_out = {"names": ["head.weight", "head.bias"], "differ": 2, "of": 6}
    [found] = rule.findings(a_run({"rank/grads": {"0": A, "1": B}}, facts={"ranks.unequal_gradients": left_out}))
    assert found.variant == "part" and found.where == ("head.weight", "head.bias") and "2 of 6 parameters" in found.message


def test_sometimes_not_synchronised() -> None:
    other = A.copy()
    other[[3, 7]] += 1
    [found] = rule.findings(a_run({"rank/grads": {"0": A, "1": other, "2": A}}))
    assert found.variant == "some" and found.rank == 1 and found.steps == (3, 7)


def test_equal_gradients_are_clear() -> None:
    assert rule.outcome(a_run({"rank/grads": {"0": A, "1": A}})).status is Status.CLEAR


def test_weights_that_are_averaged_now_and_then_are_meant() -> None:
    other = A.copy()
    other[::2] += 1
    run = a_run({"rank/grads": {"0": A, "1": B}, "rank/params": {"0": A, "1": other}})
    assert next(rule.findings(run)).severity is Severity.INFO
    assert next(rule.findings(run, meetings=99)).severity is Severity.CRITICAL


def test_it_accounts_for_the_drift() -> None:
    assert "DIST001" in rule.explains


def test_norms_serve_where_fingerprints_are_missing() -> None:
    rng = np.random.default_rng(0)
    norm = 1 + 0.1 * rng.random(12)
    apart = a_run({"rank/grad_norm": {"0": norm, "1": norm * 1.05}}, facts={"distributed": None, "world_size": 2})
    [found] = rule.findings(apart)
    assert found.confidence is Confidence.STRONG and found.severity is Severity.CRITICAL
    assert not list(rule.findings(apart, rounding=0.1))
    same = a_run({"rank/grad_norm": {"0": norm, "1": norm}}, facts={"distributed": "ddp", "world_size": 2})
    assert rule.outcome(same).status is Status.CLEAR


def test_norms_of_shards_are_not_judged() -> None:
    norms = {"rank/grad_norm": {"0": A, "1": B}}
    assert rule.outcome(a_run(norms, facts={"distributed": "fsdp", "world_size": 2})).status is Status.MUTED
    assert rule.outcome(a_run(norms, facts={"world_size": 2})).status is Status.BLIND
