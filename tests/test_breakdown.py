"""One chronology of what went non-finite."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.breakdown import breaks, first_break, origin, passed, place
from traindx.run import Event

NAN, INF = float("nan"), float("inf")
WATCHED = {"watched": ["nonfinite"]}


def nonfinite(step: int, what: str, **data: object) -> Event:
    return Event(step, "nonfinite", {"what": what, "value": "nan", **data})


def test_a_finite_run_has_no_break() -> None:
    assert breaks(a_run(loss__train=[1.0, 0.5], grad_norm=[1.0, 1.0], facts=WATCHED)) == []


def test_the_forward_comes_before_the_backward_of_the_same_step() -> None:
    events = [nonfinite(5, "param"), nonfinite(5, "grad"), nonfinite(5, "loss")]
    assert [b.what for b in breaks(a_run(loss__train=[1.0] * 6, events=events))] == ["loss", "grad", "param"]


def test_weights_that_were_bad_before_the_update_come_first() -> None:
    events = [nonfinite(0, "loss"), nonfinite(0, "param", when="before")]
    found = first_break(a_run(loss__train=[NAN], events=events))
    assert found is not None and found.what == "param"


def test_infinite_activations_alone_are_masks() -> None:
    assert breaks(a_run(loss__train=[1.0] * 3, events=[nonfinite(1, "activation", value="-inf")])) == []


def test_buffers_that_were_infinite_from_the_start_are_masks() -> None:
    events = [nonfinite(0, "buffer", value="-inf", names=["mask"])]
    assert first_break(a_run(loss__train=[1.0] * 3, events=events)) is None


def test_gradients_that_a_scaler_skipped_do_not_count() -> None:
    run = a_run(loss__train=[1.0] * 3, amp__skipped=[0.0, 1.0, 0.0], grad_norm=[1.0, INF, 1.0], events=[nonfinite(1, "grad")])
    assert first_break(run) is None


def test_lone_infinite_norms_beside_a_scaler_are_its_calibration() -> None:
    run = a_run(loss__train=np.ones(20), grad_norm=[INF, 1.0, INF, *[1.0] * 17], facts={"amp.scaler": True})
    assert first_break(run) is None


@pytest.mark.parametrize(
    ("values", "broken"),
    [
        ([1.0, NAN, 0.9, NAN, 0.8, NAN, 0.7], False),  # every other cell was not filled
        ([1.0, NAN, NAN, 0.9, NAN, NAN], False),
        ([1.0, 0.9, 0.8, NAN], True),
        ([1.0, NAN, 0.9, NAN, NAN, NAN, NAN], True),
        ([1.0, 0.9, INF, 0.8], True),
        ([NAN, NAN, NAN], True),
        ([NAN], False),
    ],
)
def test_gaps_of_a_foreign_log_are_not_taken_for_broken_losses(values: list[float], broken: bool) -> None:
    assert (first_break(a_run(loss__train=values)) is not None) is broken


def test_in_a_watched_run_every_nan_is_real() -> None:
    found = first_break(a_run(loss__train=[1.0, NAN, 0.9], facts=WATCHED))
    assert found is not None and found.step == 1 and found.exact


def test_a_count_of_bad_tensors_must_rise() -> None:
    assert first_break(a_run(loss__train=[1.0] * 3, state_nonfinite=[1.0, 1.0, 1.0])) is None
    found = first_break(a_run(loss__train=[1.0] * 3, state_nonfinite=[0.0, 0.0, 7.0]))
    assert found is not None and (found.what, found.step) == ("state", 2)


def test_a_run_that_lives_on_has_passed_it() -> None:
    assert passed(a_run(loss__train=[1.0, NAN, *[1.0] * 5]), 1)
    assert not passed(a_run(loss__train=[1.0, NAN, 1.0, NAN]), 1)


def test_an_origin_is_read_by_its_phase_and_placed_by_its_line() -> None:
    run = a_run(facts={"origin": {"op": "log", "phase": "forward", "module": "head", "file": "train.py", "line": 12}})
    assert origin(run, "forward") and not origin(run, "backward")
    assert place(origin(run, "forward")) == ("train.py:12", "head")
    assert origin(a_run(), "forward") == {}
