"""DIST005: ranks wait for each other or are gone."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.dist005_hang_or_mismatch import hang_or_mismatch as rule
from traindx.run import Event, Run

NAN = float("nan")


def ended(short: int, every: int = 1, how: str = "exit") -> Run:
    a, b = np.ones(200), np.ones(200)
    b[200 - short :] = NAN
    b[np.arange(200) % every != 0] = NAN
    return a_run({"rank/loss": {"0": a, "1": b}}, facts={"ended": how, "world_size": 2})


def test_a_hang_names_the_rank_and_its_place() -> None:
    stack = "File train.py, line 3, in main\nFile loop.py, line 40, in all_reduce"
    [found] = rule.findings(a_run(events=[Event(70, "hang", {"rank": 1, "seconds": 300, "stack": stack})]))
    assert found.severity is Severity.CRITICAL and found.rank == 1 and "300 s" in found.message
    assert found.where == ("rank 1", "File loop.py, line 40, in all_reduce")


def test_a_rank_that_is_gone() -> None:
    [found] = rule.findings(a_run(events=[Event(50, "rank_lost", {"rank": 3})]))
    assert found.variant == "lost" and found.rank == 3


def test_ranks_that_end_at_different_steps() -> None:
    [found] = rule.findings(ended(40))
    assert found.variant == "uneven" and found.steps == (159, 199) and found.severity is Severity.WARNING


def test_a_rank_that_records_more_rarely_may_lag_and_the_limit_decides() -> None:
    assert rule.outcome(ended(20, every=10)).status is Status.CLEAR
    assert rule.outcome(ended(4)).status is Status.CLEAR
    assert list(rule.findings(ended(6), slack=0))


def test_a_run_that_goes_on_is_not_judged() -> None:
    assert not list(rule.findings(ended(100, how="running")))


def test_one_process_is_muted() -> None:
    assert rule.outcome(a_run(facts={"world_size": 1})).status is Status.MUTED
