"""NUMR008: something keeps NaN out of sight."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.numr008_hidden_nan import hidden_nan as rule
from traindx.run import Event, Run


def hidden(how: str, count: int) -> Run:
    event = Event(5, "nan_hidden", {"how": how, "count": count, "site": "loop.py:8"})
    return a_run(loss__train=np.ones(1000), events=[event])


def test_a_single_replacement_is_told_with_its_line() -> None:
    [found] = rule.findings(hidden("nan_to_num", 1))
    assert found.where == ("loop.py:8",) and found.severity is Severity.WARNING and found.variant == "replaced"


def test_skipped_batches_are_counted_against_all() -> None:
    assert not list(rule.findings(hidden("skipped", 1)))
    assert list(rule.findings(hidden("skipped", 1), share=0.0))
    [found] = rule.findings(hidden("skipped", 30))
    assert found.severity is Severity.WARNING and "30 of the 1030 training batches" in found.message


def test_all_that_were_left_out_count_when_those_that_were_looked_at_broke() -> None:
    event = Event(5, "nan_hidden", {"how": "skipped", "count": 3})
    left = {"batches": 60, "looked": 3, "broke": 3}
    run = a_run(loss__train=np.ones(1000), loop__backwards=[2.0], events=[event], facts={"loop.left_out": left})
    [found] = rule.findings(run)
    assert (
        found.variant == "left"
        and "60 of the 2060 training batches" in found.message
        and "3 of them were checked" in found.message
    )
    run = a_run(loss__train=np.ones(1000), events=[event], facts={"loop.left_out": left | {"looked": 9}})
    assert "3 of the 1003" in next(rule.findings(run)).message  # most were left out for another reason


def test_gradients_that_were_replaced_are_counted_in_updates() -> None:
    [found] = rule.findings(hidden("gradient", 9))
    assert found.variant == "gradient" and "9 of 1000 steps" in found.message


def test_a_tenth_of_the_data_is_critical() -> None:
    assert next(rule.findings(hidden("skipped", 150))).severity is Severity.CRITICAL


def test_a_scaler_is_judged_elsewhere() -> None:
    assert rule.outcome(hidden("scaler", 50)).status is Status.CLEAR


def test_watched_and_nothing_hidden_is_clear() -> None:
    assert rule.outcome(a_run(loss__train=[1.0], facts={"watched": ["nan_hidden"]})).status is Status.CLEAR


def test_a_count_is_not_added_to_the_first_report_of_it() -> None:
    events = [Event(21, "nan_hidden", {"how": "skipped", "count": n, "rank": r}) for r in (0, 1) for n in (1, 62)]
    [found] = rule.findings(a_run(loss__train=np.ones(427), events=events))
    assert found.facts["count"] == 124 and found.facts["total"] == 427 + 124


def test_a_model_that_fills_its_own_nan_is_a_remark() -> None:
    [found] = rule.findings(hidden("inside", 9))
    assert found.severity is Severity.INFO and found.where == ("loop.py:8",)
