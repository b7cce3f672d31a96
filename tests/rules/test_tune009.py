"""TUNE009: micro-batches of unequal length."""

from __future__ import annotations

import numpy as np

from runs import a_run, learning
from traindx.finding import Severity, Status
from traindx.rules.tune009_accumulation_token_norm import accumulation_token_norm as rule
from traindx.run import Run


def _run(cv: float = 0.6, off: float = 0.05, k: int = 4) -> Run:
    loss = learning(60)
    signals = {"loss/train": loss, "loss/token_mean": loss / (1 + off)}
    return a_run({**signals, "batch/micro_valid_cv": np.full(60, cv), "loop/backwards": np.full(60, float(k))})


def test_says_how_far_off_the_mean_of_means_is() -> None:
    [found] = rule.findings(_run())
    assert found.severity is Severity.WARNING and "4 micro" in found.message
    assert "60%" in found.message and "5.0%" in found.message


def test_even_micro_batches_a_small_error_or_no_accumulation_are_clear() -> None:
    for run in (_run(cv=0.05), _run(cv=0.4, off=0.001), _run(k=1)):
        assert rule.outcome(run).status is Status.CLEAR


def test_the_limit_is_the_users() -> None:
    assert list(rule.findings(_run(cv=0.1), cv=0.05))


def test_lengths_alone_are_a_remark() -> None:
    [found] = rule.findings(_run(cv=1.6, off=0.001))
    assert found.variant == "unequal" and found.severity is Severity.INFO
