"""SPEC006: all samples get one embedding."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.spec006_ssl_collapse import ssl_collapse as rule
from traindx.run import Run


def spread(values: np.ndarray) -> Run:
    return a_run(ssl__embedding_spread=values, steps=np.arange(len(values)) * 10)


def test_says_what_is_left_and_from_when() -> None:
    [found] = rule.findings(spread(np.r_[steady(20, 0.9), steady(40, 0.01)]))
    assert found.severity is Severity.CRITICAL and found.steps == (200, 590)


def test_embeddings_that_start_close_and_spread_out_are_fine() -> None:
    assert rule.outcome(spread(np.r_[steady(10, 0.02), steady(50, 0.8)])).status is Status.CLEAR


def test_the_limit() -> None:
    assert not list(rule.findings(spread(steady(60, 0.3))))
    assert list(rule.findings(spread(steady(60, 0.3)), least=0.5))
