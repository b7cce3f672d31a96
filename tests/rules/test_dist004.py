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


def test_a_straggler_is_found_within_a_hundred_steps_and_before_that_it_is_unsure() -> None:
    [found] = rule.findings(times(1.5, n=100))
    assert found.rank == 2
    early = rule.outcome(times(1.0, n=30))
    assert early.status is Status.UNSURE and early.needs_steps == 20


def test_turns_at_being_slow_are_uneven_lengths() -> None:
    rng = np.random.default_rng(0)
    columns = {str(i): 0.1 * (1 + 0.5 * (rng.random(300) < 0.4)) for i in range(4)}
    assert not list(rule.findings(a_run({"rank/step_time": columns})))


def _in_step(own: float, whole: float, n: int = 300) -> Run:
    columns = {str(i): steady(n, 0.1, 0.02, seed=i) for i in range(4)}
    columns["2"] = columns["2"] + own
    return a_run({"rank/step_time": columns, "time/step": steady(n, whole, 0.02, seed=9)})


def test_what_a_rank_needs_more_counts_against_the_whole_step() -> None:
    [found] = rule.findings(_in_step(0.1, 0.4))
    assert found.rank == 2 and "1.33×" in found.message
    assert not list(rule.findings(_in_step(0.1, 4.0)))  # twice the others' own time, and nobody would notice


def _clocked(compute: float, n: int = 8) -> Run:
    base, rng = {str(i): steady(300, 0.1, 0.02, seed=i) for i in range(3)}, np.random.default_rng(0)
    own = {str(i): 0.05 + 0.001 * rng.random(n) for i in range(3)}
    own["1"] = own["1"] + compute
    waits = {name: 0.06 + compute - values for name, values in own.items()}
    return a_run({"rank/step_time": base, "rank/compute": own, "rank/comm": waits})


def test_a_slow_backward_is_seen_in_the_steps_that_ddp_clocks() -> None:
    [found] = rule.findings(_clocked(0.06))
    assert found.variant == "inside" and found.rank == 1 and found.severity is Severity.WARNING
    assert not list(rule.findings(_clocked(0.002)))
    assert not list(rule.findings(_clocked(0.06, n=4)))
