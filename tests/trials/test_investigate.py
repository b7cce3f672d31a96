"""The investigation runs what tells most per second, and ends with a verdict."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from runs import a_run, learning
from traindx.diagnosis import diagnose
from traindx.diagnosis.trees import Branch, State, Walked
from traindx.errors import UsageError
from traindx.trial import silent
from traindx.trials import investigate as investigating
from traindx.trials.investigate import investigate
from traindx.trials.task import Task
from trials.tasks import digits, mlp, task


def flat() -> np.ndarray:
    return 2.3 + 0.02 * np.random.default_rng(0).normal(size=400)


def looked_into(on: Task, complaint: str = "C", minutes: float = 3.0, curve: np.ndarray | None = None):
    torch.manual_seed(0)
    run = a_run(loss__train=flat() if curve is None else curve)
    return investigate(lambda now: on, diagnose(run), complaint=complaint, minutes=minutes)


def test_a_rate_far_too_low_is_found_by_the_sweep() -> None:
    torch.manual_seed(0)
    found = looked_into(task(mlp(), lr=1e-6))
    sure = [w.branch.hypothesis for w in found.hypotheses if w.state is State.CONFIRMED]
    assert sure == ["updates are too small to matter"] and found.verdict == "restart"
    assert "lr-range" in [t.trial for t in found.tried]


@pytest.mark.slow
def test_labels_that_carry_nothing_are_found() -> None:
    torch.manual_seed(0)
    x, y = digits()
    found = looked_into(task(mlp(), x=x, y=y[torch.randperm(len(y))]))
    told = {w.branch.hypothesis: w.state for w in found.hypotheses}
    assert told["the labels carry nothing"] is State.CONFIRMED or told["inputs are constant or unscaled"] is State.CONFIRMED


def test_without_time_nothing_is_guessed() -> None:
    found = looked_into(task(mlp()), minutes=1e-9)
    assert found.tried == () and found.verdict == "cannot-tell" and len(found.left) > 1


def test_a_healthy_run_has_no_complaint() -> None:
    found = looked_into(task(mlp()), complaint="", curve=learning(800))
    assert found.tried == () and found.complaint == "nothing complains"


def test_an_unknown_complaint_says_which_there_are() -> None:
    with pytest.raises(UsageError, match="DX-P"):
        looked_into(task(mlp()), complaint="Z")


def test_an_alarm_of_the_record_outweighs_what_is_only_left_over() -> None:
    curve = np.r_[learning(300), np.geomspace(0.4, 80, 200)]
    d = diagnose(a_run(loss__train=curve))
    assert d.alarmed and d.likely[0].probability >= 0.5
    found = looked_into(task(mlp()), complaint="D", minutes=1e-9, curve=curve)
    assert found.verdict == d.verdict and "contradicts the record" in found.summary


def test_a_script_that_does_not_belong_to_the_run_is_refused() -> None:
    on = task(mlp())
    own = {n: list(p.shape) for n, p in on.model.named_parameters()}
    for shapes, fits in ((own, True), ({"w": [3, 4], "b": [4]}, False)):
        run = diagnose(a_run(loss__train=flat(), facts={"model.param_shapes": shapes}))
        if fits:
            assert investigate(lambda now: on, run, complaint="C", minutes=1e-9).tried == ()
        else:
            with pytest.raises(UsageError, match="does not belong to the run"):
                investigate(lambda now: on, run, complaint="C", minutes=1e-9)


def test_what_an_experiment_settled_is_not_cured_by_another_causes_cure() -> None:
    sure = Walked(
        Branch("over-regularised", ("LOSS001",), "fix-and-resume", "regularisers-off"),
        State.CONFIRMED,
        "regularisers-off: without dropout helps",
    )
    d = diagnose(a_run(loss__train=np.r_[learning(300), np.geomspace(0.4, 80, 200)]))
    assert d.likely and investigating._proof(task(mlp()), d, [sure], 1e12, silent) is None
