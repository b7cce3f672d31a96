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


def test_how_a_rank_went_is_said() -> None:
    own = Event(50, "rank_lost", {"rank": 1, "how": "error", "why": "ended with ValueError: x"})
    [found] = rule.findings(a_run(events=[own]))
    assert found.variant == "error" and found.message.startswith("rank 1 ended with ValueError: x, at step 50")
    [found] = rule.findings(a_run(events=[Event(50, "rank_lost", {"rank": 1, "how": "left", "why": "left"})]))
    assert found.variant == "left" and "drop_last" in found.fix


def test_the_rank_outside_of_the_collective_holds_the_others() -> None:
    waits = 'File "graph.py", line 829, in _engine_run_backward\n    return run_backward('
    sleeps = 'File "train.py", line 40, in main\n    time.sleep(600)'
    events = [Event(9, "hang", {"rank": r, "seconds": 70, "stack": s}) for r, s in ((0, waits), (1, sleeps), (2, waits))]
    [found] = rule.findings(a_run(events=events))
    assert found.variant == "holds" and found.rank == 1 and "time.sleep" in found.message


def test_collectives_that_do_not_meet_are_told() -> None:
    data = {"kind": "differ", "seq": 7, "ranks": [1], "calls": {"0": "all_reduce of 64 at t.py:9", "1": "barrier at t.py:12"}}
    [found] = rule.findings(a_run(events=[Event(9, "collective_mismatch", data)]))
    assert found.variant == "differ" and "rank 1: barrier at t.py:12" in found.message
    [found] = rule.findings(a_run(events=[Event(9, "collective_mismatch", {**data, "kind": "missing"})]))
    assert found.variant == "missing" and found.where == ("rank 1",)


def _paused(seconds: float, also: float = 0.1) -> Run:
    own = {str(i): np.full(200, 0.1) for i in range(3)}
    own["1"][150], own["2"][150] = seconds, also
    return a_run({"rank/step_time": own}, facts={"world_size": 3, "ended": "closed"})


def test_a_pause_of_one_rank_is_told_with_its_length() -> None:
    [found] = rule.findings(_paused(60.0))
    assert found.variant == "held" and found.rank == 1 and found.severity is Severity.WARNING
    assert found.message == "all waited 60 s for rank 1 at step 150, and then continued"


def test_a_pause_that_costs_little_of_a_long_run_is_a_remark() -> None:
    own = {str(i): np.full(9000, 0.1) for i in range(3)}
    own["1"][150] = 60.0
    [found] = rule.findings(a_run({"rank/step_time": own}))
    assert found.variant == "held" and found.severity is Severity.INFO


def test_a_pause_of_all_ranks_or_a_short_one_is_none_and_the_limit_decides() -> None:
    assert not list(rule.findings(_paused(60.0, also=59.0)))
    assert not list(rule.findings(_paused(15.0)))
    assert list(rule.findings(_paused(15.0), held=10.0))


def test_a_rank_that_stood_still_and_went_on_is_no_hang_any_more() -> None:
    hang = Event(150, "hang", {"rank": 0, "seconds": 70})
    [found] = rule.findings(_paused(60.0).with_(events=[hang]))
    assert found.variant == "held"
    [found] = rule.findings(ended(0).with_(events=[hang]))
    assert found.severity is Severity.WARNING
