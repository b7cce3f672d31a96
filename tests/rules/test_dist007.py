"""DIST007: one rank alone is off."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Confidence, Severity, Status
from traindx.rules.data001_invalid_values import invalid_values
from traindx.rules.dist007_device_fault import device_fault as rule
from traindx.run import Event, Run


def losses(**spikes: list[int]) -> Run:
    columns = {str(i): steady(300, 2.0, 0.02, seed=i) for i in range(4)}
    for name, at in spikes.items():
        columns[name[1:]][at] += 5.0
    return a_run({"rank/loss": columns}, facts={"world_size": 4})


def test_the_first_rank_with_a_nan_is_named() -> None:
    events = [Event(30, "nonfinite", {"what": "loss", "rank": 2}), Event(31, "nonfinite", {"what": "loss", "rank": 0})]
    [found] = rule.findings(losses().with_(events=events))
    assert found.rank == 2 and found.steps == (30, 30) and found.severity is Severity.WARNING


def test_ranks_that_break_together_have_another_cause() -> None:
    events = [Event(30, "nonfinite", {"what": "loss", "rank": r}) for r in (0, 1)]
    assert not list(rule.findings(losses().with_(events=events)))


def test_an_infinite_record_on_one_rank() -> None:
    run = a_run({"rank/loss": {"0": [1.0, 1.0], "1": [1.0, np.inf]}})
    [found] = rule.findings(run)
    assert found.rank == 1 and found.confidence is Confidence.EXACT


def test_leaps_of_one_rank_are_a_hint_and_the_limit_decides() -> None:
    [found] = rule.findings(losses(r3=[10, 90, 200]))
    assert found.rank == 3 and found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO
    assert not list(rule.findings(losses(r3=[10, 90])))
    assert list(rule.findings(losses(r3=[10, 90]), least=2))


def test_leaps_everywhere_are_the_data() -> None:
    assert not list(rule.findings(losses(r3=[10, 90, 200], r1=[50])))


def test_ordinary_spread_between_ranks_is_clear() -> None:
    assert rule.outcome(losses()).status is Status.CLEAR


def test_one_process_is_muted() -> None:
    assert rule.outcome(a_run(facts={"world_size": 1})).status is Status.MUTED


def test_a_bad_batch_of_one_rank_is_no_fault_of_its_device() -> None:
    event = Event(40, "nonfinite", {"what": "loss", "rank": 1})
    bad = {"0": np.zeros(60), "1": np.where(np.arange(60) == 40, 3.0, 0.0)}
    with_count = a_run({"rank/input_nonfinite": bad}, facts={"world_size": 2}, events=[event])
    replayed = a_run(loss__train=np.ones(60), facts={"world_size": 2, "origin": {"blame": "batch"}}, events=[event])
    for run in (with_count, replayed):
        assert not list(rule.findings(run))
    [named] = invalid_values.findings(with_count)
    assert named.rank == 1 and named.steps == (40, 40) and "rank 1" in named.message
    assert [f.rank for f in rule.findings(a_run(loss__train=np.ones(60), facts={"world_size": 2}, events=[event]))] == [1]


def test_a_step_that_breaks_again_when_it_is_replayed_is_no_fault_of_the_device() -> None:
    event = Event(40, "nonfinite", {"what": "loss", "rank": 1})
    for origin in ({"op": "input", "place": "between", "proven": True}, {"op": "div", "proven": True}):
        run = a_run(loss__train=np.ones(60), facts={"world_size": 2, "origin": origin}, events=[event])
        assert not list(rule.findings(run))
