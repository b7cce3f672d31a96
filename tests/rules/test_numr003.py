"""NUMR003: what a run carries from step to step is not finite."""

from __future__ import annotations

from runs import a_run, learning
from traindx.finding import Severity, Status
from traindx.rules.numr003_state_poisoned import state_poisoned as rule
from traindx.run import Event

WATCHED = {"watched": ["nonfinite"]}


def bad(step: int, what: str, **data: object) -> Event:
    return Event(step, "nonfinite", {"what": what, "value": "nan", **data})


def test_names_the_tensors_and_the_step() -> None:
    events = [bad(30, "grad"), bad(30, "param", names=["a", "b"]), bad(30, "state", names=["a.exp_avg"])]
    [found] = rule.findings(a_run(loss__train=learning(50), facts=WATCHED, events=events))
    assert found.where == ("a", "b", "a.exp_avg") and found.steps == (30, 49)
    assert found.message == "from step 30 on, parameters and optimizer states hold NaN or infinity: a, b, a.exp_avg"


def test_loaded_that_way() -> None:
    [found] = rule.findings(a_run(loss__train=[1.0] * 3, events=[bad(0, "param", names=["w"], when="before")]))
    assert found.variant == "loaded"


def test_a_buffer_first_means_the_data_brought_it() -> None:
    events = [bad(12, "buffer", names=["bn.running_mean"]), bad(13, "loss")]
    [found] = rule.findings(a_run(loss__train=learning(50), events=events))
    assert found.variant == "buffer" and found.where == ("bn.running_mean",)


def test_masks_of_minus_infinity_are_meant() -> None:
    events = [bad(0, "buffer", names=["mask"])]
    events[0] = Event(0, "nonfinite", {"what": "buffer", "value": "-inf", "names": ["mask"]})
    assert rule.outcome(a_run(loss__train=learning(50), facts=WATCHED, events=events)).status is Status.CLEAR


def test_signals_say_it_too() -> None:
    run = a_run({"weight_nonfinite/param": {"a": [0.0, 0.0], "b": [0.0, 0.5]}, "state_nonfinite": [0.0, 3.0]})
    [found] = rule.findings(run)
    assert found.where == ("b",) and found.severity is Severity.CRITICAL


def test_a_state_that_was_cleared_again_is_a_warning() -> None:
    [found] = rule.findings(a_run(state_nonfinite=[0.0, 3.0, 0.0]))
    assert found.severity is Severity.WARNING


def test_a_broken_loss_alone_is_not_a_broken_state() -> None:
    assert rule.outcome(a_run(loss__train=learning(50), facts=WATCHED, events=[bad(4, "loss")])).status is Status.CLEAR
