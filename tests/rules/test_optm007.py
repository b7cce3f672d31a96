"""OPTM007: stale second moments."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Status
from traindx.rules.optm007_adam_stale_v import adam_stale_v

JUMPS = (800, 1300, 1700, 2400)


def the(run, **limits):
    return list(adam_stale_v.findings(run, **limits))


def moments(before: int = 3, height: float = 4.0, jumps: tuple[int, ...] = JUMPS):
    n = 3000
    first = 1 + 0.2 * np.abs(noise(n, 1.0))
    for at in jumps:
        first[at - before] = height
    return a_run({"adam_rms/param": {"emb": first, "head": 1 + 0.1 * np.abs(noise(n, 1.0, 1))}})


def test_bursts_just_before_the_jumps_are_named() -> None:
    [found] = the(zoo.spiky().with_(moments().signals))
    assert found.where == ("emb",) and found.facts["times"] == 4


def test_bursts_without_jumps_are_healthy() -> None:
    assert the(zoo.plain().with_(a_run({"adam_rms/param": {"emb": 1 + np.abs(noise(2000, 2.0))}}).signals)) == []


def test_jumps_without_bursts_have_another_reason() -> None:
    assert the(zoo.spiky().with_(moments(height=1.0).signals)) == []


def test_a_burst_long_before_does_not_count() -> None:
    assert the(zoo.spiky().with_(moments(before=60).signals)) == []


def test_a_ratio_that_is_always_high_explains_nothing() -> None:
    high = a_run({"adam_rms/param": {"emb": 3 + 0.1 * noise(3000)}})
    assert the(zoo.spiky().with_(high.signals)) == []


def test_its_limit_is_the_ratio() -> None:
    assert the(zoo.spiky().with_(moments().signals), limit=10.0) == []


def test_other_data_and_renewed_targets_bring_larger_gradients() -> None:
    run = zoo.spiky().with_(moments(before=0).signals)
    assert the(run)
    told = {"loss.kind": "mse", "acts": True}
    assert adam_stale_v.outcome(run.with_(facts=told)).status is Status.MUTED
    assert the(run.with_(facts={"data.joined_at": list(JUMPS)})) == []
