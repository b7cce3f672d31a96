"""OPTM009: weight decay."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.optm009_weight_decay_misapplied import weight_decay_misapplied
from traindx.run import Matrix


def the(run, **limits):
    return list(weight_decay_misapplied.findings(run, **limits))


def decaying(
    share: float, kept: float, optimizer: str = "AdamW", decay: float = 0.01, rate: float = 1e-3, n: int = 400, **facts
):
    signals = {
        "decay_share/param": {"a": np.full(n, share), "b": np.full(n, 0.01)},
        "weight_norm/param": {"a": np.linspace(1, kept, n), "b": np.ones(n)},
        "lr": np.full(n, rate),
    }
    return a_run(signals, facts={"optimizer.name": optimizer, "optimizer.groups": [{"weight_decay": decay}], **facts})


def test_decay_that_wins_and_shrinks_is_a_warning() -> None:
    [found] = the(decaying(3.0, 0.2))
    assert (found.variant, found.severity, found.where) == ("strong", Severity.WARNING, ("a",))


def test_an_equilibrium_without_shrinking_is_healthy() -> None:
    assert the(decaying(1.2, 0.9)) == []


def test_the_default_of_adamw_is_not_worth_a_word() -> None:
    assert the(decaying(0.02, 1.0)) == []


def test_l2_inside_adam_is_a_fact() -> None:
    [found] = the(decaying(0.02, 1.0, "Adam"))
    assert (found.variant, found.severity, found.confidence) == ("coupled", Severity.INFO, Confidence.EXACT)


def test_norm_gains_pulled_to_zero_are_named() -> None:
    found = the(decaying(0.02, 0.3, **{"model.norm_gains": ["a"]}))
    assert [f.variant for f in found] == ["gains"] and found[0].where == ("a",)


def test_a_horizon_shorter_than_a_tenth_of_the_run_or_far_beyond_it_is_a_remark() -> None:
    assert [f.variant for f in the(decaying(0.5, 1.0, decay=1.0, rate=0.1))] == ["horizon"]
    assert [f.variant for f in the(decaying(0.0, 1.0, decay=0.1, rate=1e-4))] == ["idle"]


def test_weights_gone_within_that_horizon_are_a_warning_though_momentum_hides_the_share() -> None:
    run = decaying(0.2, 0.001, "SGD", decay=0.3, rate=0.5).with_(
        {"weight_norm/param": Matrix(np.arange(400), ("a", "b"), np.geomspace(1, 1e-4, 400)[:, None] * np.ones(2))}
    )
    [found] = the(run)
    assert found.variant == "horizon" and found.severity is Severity.WARNING


def test_no_decay_is_clear_and_nothing_known_is_blind() -> None:
    assert the(decaying(0.0, 1.0, decay=0.0)) == []
    assert weight_decay_misapplied.outcome(a_run(lr=[1.0])).status is Status.BLIND


def test_its_limits_are_ratio_and_shrinking() -> None:
    assert the(decaying(3.0, 0.2), ratio=5.0) == [] and the(decaying(3.0, 0.2), shrunk=0.1) == []


def test_decay_that_throws_the_weights_past_zero_is_critical() -> None:
    [found] = the(decaying(0.1, 1.0, "SGD", decay=10.0, rate=0.2, n=40))
    assert found.variant == "flips" and found.severity is Severity.CRITICAL and "multiplies the weights by -1" in found.message
    assert all(f.variant != "flips" for f in the(decaying(0.1, 1.0, "Adam", decay=10.0, rate=0.2)))
    assert all(f.variant != "flips" for f in the(decaying(0.1, 1.0, "SGD", decay=1.0, rate=0.2)))
