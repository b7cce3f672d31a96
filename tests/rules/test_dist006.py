"""DIST006: mean of rank means over unequal counts."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.dist006_cross_rank_normalisation import cross_rank_normalisation as rule
from traindx.run import Matrix, Run


def ranks(slope: float, spread: float, n: int = 200, noise: float = 0.01) -> Run:
    rng = np.random.default_rng(0)
    tokens = rng.uniform(1 - spread, 1 + spread, (n, 4)) * 1000
    loss = 2.0 - slope * (tokens / 1000 - 1) + rng.normal(0, noise, (n, 4))
    table = {str(i): tokens[:, i] for i in range(4)}, {str(i): loss[:, i] for i in range(4)}
    return a_run({"rank/tokens": table[0], "rank/loss": table[1]})


def test_long_sequences_that_are_easier_make_a_bias() -> None:
    [found] = rule.findings(ranks(slope=1.0, spread=0.6))
    assert found.severity is Severity.WARNING and found.facts["off"] > 0.01


def test_equal_counts_are_clear() -> None:
    assert rule.outcome(ranks(slope=1.0, spread=0.05)).status is Status.CLEAR


def test_unequal_counts_without_effect_are_quiet() -> None:
    assert rule.outcome(ranks(slope=0.0, spread=0.6)).status is Status.CLEAR


def test_noise_without_bias_is_info() -> None:
    [found] = rule.findings(ranks(slope=0.0, spread=0.8, noise=0.5))
    assert found.severity is Severity.INFO and found.variant == "noise"


def test_the_limit() -> None:
    assert not list(rule.findings(ranks(slope=1.0, spread=0.6), bias=0.5))


def test_ranks_that_scale_their_loss_by_their_share_are_clear() -> None:
    run = ranks(slope=1.0, spread=0.6)
    tokens, loss = run.matrix("rank/tokens"), run.matrix("rank/loss")
    shares = 4 * tokens.values / tokens.values.sum(axis=1, keepdims=True)
    fair = run.with_(
        signals={"rank/token_loss": loss, "rank/loss": Matrix(loss.steps, loss.names, loss.values * shares)},
    )
    assert rule.outcome(fair).status is Status.CLEAR


def test_a_loss_divided_for_accumulation_is_as_unfair_as_the_whole() -> None:
    run = ranks(slope=1.0, spread=0.6)
    loss = run.matrix("rank/loss")
    quarter = run.with_(signals={"rank/token_loss": loss, "rank/loss": Matrix(loss.steps, loss.names, loss.values / 4)})
    [found], [whole] = rule.findings(quarter), rule.findings(run)
    assert abs(found.facts["off"] - whole.facts["off"]) < 1e-9


def test_few_steps_leave_it_unsure() -> None:
    assert rule.outcome(ranks(1.0, 0.6, n=20)).status is Status.UNSURE
