"""NUMR002: gradients broke while the loss was finite."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run, learning, steady
from traindx.finding import Confidence, Severity, Status
from traindx.rules.numr001_first_nonfinite_forward import first_nonfinite_forward
from traindx.rules.numr002_nonfinite_backward import nonfinite_backward as rule
from traindx.run import Event, Run

NAN, INF = float("nan"), float("inf")


def broken(*more: str, **facts: object) -> Run:
    loss = learning(60)
    loss[41:] = NAN
    whats = ("grad", *more)
    events = [Event(40 + i, "nonfinite", {"what": w, "value": "nan", "names": ["enc.weight"]}) for i, w in enumerate(whats)]
    return a_run(loss__train=loss, facts={"watched": ["nonfinite"], **facts}, events=events)


def test_names_the_first_gradient() -> None:
    [found] = rule.findings(broken("param"))
    assert found.severity is Severity.CRITICAL and found.where == ("enc.weight",) and found.steps == (40, 59)


def test_names_the_forward_line_whose_backward_broke() -> None:
    origin = {
        "op": "sqrt",
        "phase": "backward",
        "module": "norm",
        "file": "m.py",
        "line": 5,
        "proven": True,
        "advice": "add eps",
    }
    [found] = rule.findings(broken(origin=origin))
    assert found.where == ("m.py:5", "norm") and "the backward of sqrt" in found.message and found.fix == "add eps"


def test_a_loss_that_broke_at_the_same_step_was_not_finite_whatever_the_replay_took_for_the_origin() -> None:
    origin = {"op": "addmm", "phase": "backward", "file": "m.py", "line": 5}
    events = [Event(40, "nonfinite", {"what": w, "value": "inf"}) for w in ("loss", "grad")]
    run = a_run(loss__train=np.r_[learning(40), np.full(20, NAN)], facts={"origin": origin}, events=events)
    assert not list(rule.findings(run))
    [told] = first_nonfinite_forward.findings(run)
    assert "the loss became infinite at step 40" in told.message


def test_nothing_is_said_of_a_loss_that_is_not_recorded_yet() -> None:
    early = Run.of({"loss/train": learning(40)}, facts={"watched": ["nonfinite"], "ended": "running"})
    event = Event(40, "nonfinite", {"what": "grad", "value": "nan"})
    assert rule.outcome(early.with_(events=[event])).status is Status.UNSURE
    assert rule.outcome(early.with_(events=[event], facts={"ended": "closed"})).status is Status.FOUND


def test_a_loss_that_broke_first_belongs_to_another_rule() -> None:
    loss = learning(60)
    loss[40:] = NAN
    events = [Event(40, "nonfinite", {"what": w, "value": "nan"}) for w in ("loss", "grad")]
    assert not list(rule.findings(a_run(loss__train=loss, events=events)))


def test_a_scaler_that_calibrates_is_quiet() -> None:
    norm = steady(100)
    norm[[0, 1, 2, 50]] = INF
    run = a_run(loss__train=learning(100), grad_norm=norm, facts={"amp.scaler": True})
    assert rule.outcome(run).status is Status.CLEAR


def test_gradients_that_somebody_skipped_are_a_warning() -> None:
    run = a_run(loss__train=learning(60), events=[Event(30, "nonfinite", {"what": "grad", "value": "inf"})])
    [found] = rule.findings(run)
    assert found.severity is Severity.WARNING and found.variant == "passing"


def test_a_lone_infinity_in_somebodys_log_is_a_hint() -> None:
    norm = steady(100)
    norm[30] = INF
    [found] = rule.findings(a_run(loss__train=learning(100), grad_norm=norm))
    assert found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO


def test_a_log_that_ends_in_nan_norms_is_broken() -> None:
    norm = np.r_[steady(90), np.full(10, NAN)]
    [found] = rule.findings(a_run(loss__train=np.zeros(100), grad_norm=norm, facts={"amp.scaler": False}))
    assert found.steps == (90, 99)


@pytest.mark.parametrize(("moved", "said"), [(1e5, "moved"), (0.01, "origin")])
def test_a_huge_step_before_is_to_blame_and_not_the_operation_that_overflowed_then(moved: float, said: str) -> None:
    origin = {
        "op": "addmm",
        "phase": "backward",
        "module": "head",
        "file": "m.py",
        "line": 5,
        "proven": True,
        "advice": "add ε",
    }
    run = a_run(
        {"loss/train": np.r_[learning(3), NAN], "update_ratio/param": {"head.weight": np.array([0.1, moved, NAN, NAN])}},
        facts={"watched": ["nonfinite"], "origin": origin},
        events=[Event(2, "nonfinite", {"what": "grad", "value": "inf", "names": ["head.weight"]})],
    )
    [found] = rule.findings(run)
    assert found.variant == said and ("tenth of the learning rate" in found.fix) is (said == "moved")
