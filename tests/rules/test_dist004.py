"""DIST004: all wait for one rank."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.dist004_straggler import straggler as rule
from traindx.run import Run


def times(factor: float, n: int = 300) -> Run:
    columns = {str(i): steady(n, 0.1, 0.02, seed=i) for i in range(4)}
    columns["2"] = columns["2"] * factor
    return a_run({"rank/step_time": columns})


def test_names_the_slow_rank() -> None:
    [found] = rule.findings(times(1.5))
    assert found.rank == 2 and found.severity is Severity.WARNING and "1.5" in found.message


def test_a_little_slower_is_worth_knowing() -> None:
    [found] = rule.findings(times(1.17))
    assert found.severity is Severity.INFO


def test_equal_ranks_are_clear_and_the_limit_decides() -> None:
    assert rule.outcome(times(1.0)).status is Status.CLEAR
    assert not list(rule.findings(times(1.05)))
    assert list(rule.findings(times(1.05), ratio=1.02))


def test_short_runs_say_nothing() -> None:
    assert not list(rule.findings(times(2.0, n=100)))


def test_turns_at_being_slow_are_uneven_lengths() -> None:
    rng = np.random.default_rng(0)
    columns = {str(i): 0.1 * (1 + 0.5 * (rng.random(300) < 0.4)) for i in range(4)}
    assert not list(rule.findings(a_run({"rank/step_time": columns})))
