"""DIST002: ranks see the same data."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.dist002_sharding_fault import sharding_fault as rule

A, B, C = (np.random.default_rng(s).integers(0, 2**52, 30).astype(float) for s in range(3))


def test_names_the_ranks_that_share_their_batches() -> None:
    [found] = rule.findings(a_run({"rank/batch": {"0": A, "1": B, "2": B}}))
    assert found.where == ("rank 1", "rank 2") and found.severity is Severity.CRITICAL and "30 of 30" in found.message


def test_groups_of_ranks_are_told_apart() -> None:
    found = list(rule.findings(a_run({"rank/batch": {"0": A, "1": B, "2": A, "3": B, "4": C}})))
    assert [f.where for f in found] == [("rank 0", "rank 2"), ("rank 1", "rank 3")]
    assert found[0].variant == "groups" and "2 groups of the 5 ranks" in found[0].message


def test_shards_of_the_model_are_no_reason_to_share_batches() -> None:
    for kind in ("fsdp", "fsdp2"):
        assert len(list(rule.findings(a_run({"rank/batch": {"0": A, "1": A}}, facts={"distributed": kind})))) == 1


def test_sharded_data_is_clear() -> None:
    assert rule.outcome(a_run({"rank/batch": {"0": A, "1": B, "2": C}})).status is Status.CLEAR


def test_two_equal_batches_are_not_enough_and_the_limit_decides() -> None:
    run = a_run({"rank/batch": {"0": A[:2], "1": A[:2]}})
    assert not list(rule.findings(run))
    assert list(rule.findings(run, least=2))


def test_a_batch_shared_by_chance_now_and_then() -> None:
    other = B.copy()
    other[:4] = A[:4]
    assert not list(rule.findings(a_run({"rank/batch": {"0": A, "1": other}})))


def test_overfitting_one_batch_on_purpose() -> None:
    one = np.full(30, 7.0)
    assert not list(rule.findings(a_run({"rank/batch": {"0": one, "1": one}})))


def test_the_same_order_in_every_epoch() -> None:
    [found] = rule.findings(a_run(loss__train=[1.0], facts={"world_size": 4, "data.order_repeats": True}))
    assert found.variant == "order" and found.severity is Severity.WARNING


def test_tensor_parallel_ranks_share_batches_by_design() -> None:
    assert rule.outcome(a_run({"rank/batch": {"0": A, "1": A}}, facts={"distributed": "tp"})).status is Status.MUTED
