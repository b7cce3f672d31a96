"""OPTM006: clipping."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, judged, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm006_clipping_misset import clipping_misset
from traindx.run import Event


def the(run, **limits):
    return judged(clipping_misset, run, **limits)


def clipped(threshold: float, n: int = 600, norm: np.ndarray | None = None, optimizer: str = "AdamW", **more):
    norm = np.exp(noise(n, 0.3)) if norm is None else norm
    signals = {"clip/norm": norm, "clip/threshold": np.full(n, threshold), "loss/train": 1 + noise(n, 0.05)}
    return a_run(signals, facts={"optimizer.name": optimizer}, **more)


def test_always_clipped_is_a_remark_with_adam_and_a_warning_with_sgd() -> None:
    [adam] = the(clipped(0.2))
    assert (adam.variant, adam.severity) == ("always", Severity.INFO)
    [sgd] = the(clipped(0.2, optimizer="SGD"))
    assert sgd.severity is Severity.WARNING and sgd.facts["share"] > 0.99


def test_norms_that_vary_wildly_are_a_remark_with_adam_and_in_reinforcement_learning() -> None:
    wild = np.exp(1.5 * np.random.default_rng(0).normal(size=600))
    assert [f.severity for f in the(clipped(0.05, norm=wild))] == [Severity.INFO]
    policy = clipped(0.05, norm=wild, optimizer="SGD").with_(facts={"rl": True})
    assert [f.severity for f in the(policy)] == [Severity.INFO]


def test_a_threshold_at_the_tail_is_clear() -> None:
    assert the(clipped(1.6)) == []


def test_never_clipped_is_a_remark() -> None:
    [found] = the(clipped(100.0))
    assert (found.variant, found.severity) == ("never", Severity.INFO)


def test_never_clipped_although_the_norm_bursts_is_too_loose() -> None:
    norm = np.exp(noise(600, 0.2))
    norm[400] = 40.0
    assert [f.variant for f in the(clipped(50.0, norm=norm))] == ["loose"]


def test_misplaced_calls_are_facts() -> None:
    run = clipped(1.6, events=[Event(3, "clip_before_unscale", {"count": 40}), Event(5, "clip_value", {"value": 0.5})])
    found = {f.variant: f for f in the(run)}
    assert found["unscale"].confidence is Confidence.EXACT and found["unscale"].severity >= Severity.WARNING
    assert found["value"].severity is Severity.INFO
    assert the(clipped(1.6, events=[Event(3, "clip_after_step", {"count": 9})]))[0].variant == "after"


def test_where_nothing_is_clipped_there_is_nothing_to_look_at() -> None:
    run = a_run(loss__train=np.ones(50), facts={"watched": ["clip_before_unscale", "clip_after_step"]})
    assert clipping_misset.outcome(run).status is Status.BLIND


def test_its_limits_are_shares() -> None:
    assert the(clipped(0.2, optimizer="SGD"), chronic=1.1)[0].severity is Severity.INFO
    assert the(clipped(0.2), often=1.1) == []


def test_clipping_is_a_remark_in_a_run_that_learns() -> None:
    moves = a_run({"update_ratio/param": {"a": np.full(600, 2e-5)}, "loss/train": 2.3 * np.exp(-np.arange(600) / 150)})
    run = clipped(1e-3, optimizer="SGD").with_(moves.signals, facts={"model.param_shapes": {"a": [8, 8]}, **zoo.CE10})
    [found] = the(run)
    assert (found.variant, found.severity) == ("always", Severity.INFO)
