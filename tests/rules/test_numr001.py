"""NUMR001: the loss was the first thing that was not finite."""

from __future__ import annotations

import numpy as np

from runs import a_run, learning
from traindx.finding import Confidence, Severity, Status
from traindx.rules.numr001_first_nonfinite_forward import first_nonfinite_forward as rule
from traindx.run import Event, Run

NAN = float("nan")
ORIGIN = {
    "op": "log",
    "phase": "forward",
    "module": "head",
    "file": "train.py",
    "line": 17,
    "blame": "operation",
    "advice": "clamp before log: x.clamp(min=1e-6).log() {not a field}",
    "proven": True,
}


def broken(at: int = 60, n: int = 80, *, back: bool = False, what: str = "loss", **facts: object) -> Run:
    loss = learning(n)
    loss[at : at + 3 if back else n] = NAN
    events = [
        Event(at - (what == "grad"), "nonfinite", {"what": what, "value": "nan"}),
        Event(at, "nonfinite", {"what": "loss", "value": "nan"}),
    ]
    return a_run(loss__train=loss, facts={"watched": ["nonfinite"], **facts}, events=events[: 2 if what != "loss" else 1])


def test_names_the_operation_and_the_line() -> None:
    [found] = rule.findings(broken(origin=ORIGIN))
    assert found.where == ("train.py:17", "head") and found.steps == (60, 79)
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert found.message == (
        "the loss became NaN at step 60: log at train.py:17, head turned finite numbers into NaN or infinity"
    )
    assert found.fix.startswith("clamp before log") and found.fix.endswith("{not a field}")


def test_an_unproven_origin_is_only_probable() -> None:
    [found] = rule.findings(broken(origin={**ORIGIN, "proven": False}))
    assert "probably turned" in found.message


def test_without_a_replay_it_still_knows_the_step_and_that_nothing_announced_it() -> None:
    [found] = rule.findings(broken())
    assert found.variant == "sudden" and found.message.startswith("the loss became NaN at step 60 without warning")


def test_at_the_very_start_it_only_knows_the_step() -> None:
    [found] = rule.findings(broken(at=2))
    assert found.message == "the loss became NaN at step 2"


def test_a_finite_run_is_clear() -> None:
    assert rule.outcome(a_run(loss__train=learning(80), facts={"watched": ["nonfinite"]})).status is Status.CLEAR


def test_a_run_that_lives_on_is_warned() -> None:
    [found] = rule.findings(broken(back=True))
    assert found.severity is Severity.WARNING and found.variant == "passing"


def test_a_bad_batch_is_told_from_a_bad_operation() -> None:
    [found] = rule.findings(broken(what="input"))
    assert found.variant == "batch"


def test_growth_before_the_break_is_told_and_the_limit_decides() -> None:
    loss = np.r_[np.full(20, 2.0), 2.0 * 3.0 ** np.arange(10), NAN, NAN]
    [found] = rule.findings(a_run(loss__train=loss))
    assert found.variant == "grown" and found.facts["before"] > 1e4
    assert next(rule.findings(a_run(loss__train=loss), growth=1e9)).variant == "sudden"


def test_a_batch_without_valid_targets() -> None:
    run = broken(back=True)
    [found] = rule.findings(run.with_(events=[Event(60, "empty_targets")]))
    assert found.variant == "empty" and found.severity is Severity.WARNING


def test_broken_weights_and_broken_gradients_belong_to_other_rules() -> None:
    assert not list(rule.findings(broken(what="grad")))
    weights = a_run(
        loss__train=[NAN, NAN],
        events=[
            Event(0, "nonfinite", {"what": "loss", "value": "nan"}),
            Event(0, "nonfinite", {"what": "param", "value": "nan", "when": "before"}),
        ],
    )
    assert not list(rule.findings(weights))


def test_unfilled_cells_of_a_log_are_not_nan_losses() -> None:
    loss = learning(200)
    loss[1::2] = NAN
    assert rule.outcome(a_run(loss__train=loss)).status is Status.CLEAR


def test_infinite_masks_do_not_matter() -> None:
    masks = [Event(0, "nonfinite", {"what": "activation", "value": "-inf", "names": ["attn"]})]
    assert rule.outcome(a_run(loss__train=learning(80), events=masks)).status is Status.CLEAR


def test_a_step_larger_than_the_weights_is_to_blame_before_any_operation() -> None:
    for ratio, variant in ((21.0, "moved"), (0.01, "origin")):
        moves = {"update_ratio/param": {"rnn.weight": np.array([ratio, NAN, NAN])}, "loss/train": np.array([85.0, NAN, NAN])}
        facts = {"model.param_shapes": {"rnn.weight": [64, 64]}, "origin": ORIGIN}
        [found] = rule.findings(a_run(moves, facts=facts))
        assert found.variant == variant


def test_without_a_loader_a_bad_input_is_not_laid_on_the_samples() -> None:
    """The script cuts its batches by hand: whether a sample or what it computes from one is bad cannot be told apart."""
    given = {**ORIGIN, "op": "input", "blame": "batch", "place": "data"}
    [found] = rule.findings(broken(origin=given))
    assert found.variant == "given" and "before the model gets them" in found.fix
    [known] = rule.findings(broken(origin=given, **{"data.loader": {"batch_size": 4}}))
    assert known.variant == "batch"
