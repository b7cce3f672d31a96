"""REPR003: another run after the resume."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, learning, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.repr003_resume_mismatch import resume_mismatch as rule
from traindx.run import Event, Run

SEAM = Event(300, "resume", {"previous_last_step": 299, "steps_repeated": 0})


def _run(jump: float, seam: Event = SEAM, **signals: Any) -> Run:
    loss = learning(500)
    loss[seam.step :] += jump * np.exp(-np.arange(500 - seam.step) / 60)
    return a_run({"loss/train": loss, **signals}, events=[seam])


def test_a_jump_at_the_resume_is_a_warning() -> None:
    [found] = rule.findings(_run(1.0))
    assert found.variant == "jump" and found.severity is Severity.WARNING and found.facts["step"] == 300


def test_a_smooth_resume_is_clear() -> None:
    for seed in range(10):
        run = a_run(loss__train=1.0 + noise(500, 0.1, seed, ar=0.5), events=[SEAM])
        assert rule.outcome(run).status is Status.CLEAR, seed


def test_a_new_learning_rate_explains_the_jump() -> None:
    assert rule.outcome(_run(1.0, lr=np.r_[np.full(300, 1e-4), np.full(200, 1e-3)])).status is Status.CLEAR


def test_a_short_record_is_unsure() -> None:
    assert rule.outcome(_run(1.0, Event(20, "resume", {}))).status is Status.UNSURE


def test_the_trial_names_the_field() -> None:
    [found] = rule.findings(a_run(facts={"trial.resume": {"equal": False, "field": "optimizer.exp_avg"}}))
    assert found.where == ("optimizer.exp_avg",) and found.confidence is Confidence.EXACT
    assert rule.outcome(a_run(facts={"trial.resume": {"equal": True}})).status is Status.CLEAR


def test_the_limit_is_the_users() -> None:
    assert not list(rule.findings(_run(1.0), relative=5.0))


LOADED = Event(300, "load", {"what": "model", "missing": [], "unexpected": [], "digest": "ab12"})


def test_weights_that_are_loaded_over_in_mid_training() -> None:
    [found] = rule.findings(_run(1.0, LOADED))
    assert found.variant == "loaded" and found.severity is Severity.WARNING and found.steps == (300, 320)
    assert rule.outcome(_run(0.0, LOADED)).status is Status.CLEAR  # averaged weights, taken back after an evaluation
    assert rule.outcome(_run(1.0, Event(300, "load", {"what": "optimizer"}))).status is Status.CLEAR


def test_a_target_network_is_loaded_on_purpose() -> None:
    renewed = Event(300, "load", {"what": "model", "missing": [], "unexpected": []})  # not what is trained: no digest
    assert rule.outcome(_run(1.0, renewed)).status is Status.CLEAR


def test_another_training_may_begin_from_the_first_weights() -> None:
    run = _run(1.0, LOADED)
    again = Event(300, "retrained", {"previous_last_step": 299, "same_parameters": True})
    assert rule.outcome(run.with_(events=[LOADED, again])).status is Status.CLEAR
    assert rule.outcome(_run(1.0, Event(20, "load", {"what": "model"}))).status is Status.CLEAR


def test_a_state_that_the_checkpoint_holds_and_nobody_restored() -> None:
    def told(left: list[str], taken: list[str], same: bool = True) -> list[tuple[str, Severity, tuple[str, ...]]]:
        run = a_run(facts={"resume.left": {"left": left, "taken": taken, "same_schedule": same}})
        return [(f.variant, f.severity, f.where) for f in rule.findings(run)]

    assert told(["optimizer"], ["scheduler"]) == [("left", Severity.WARNING, ("optimizer",))]
    assert told(["scheduler"], ["optimizer"]) == [("left", Severity.WARNING, ("scheduler",))]
    assert told(["scheduler"], ["optimizer"], same=False)[0][1] is Severity.INFO  # a second stage with a schedule of its own
    assert told(["optimizer", "scheduler"], [])[0][:2] == ("weights", Severity.INFO)  # fine-tuning
    assert not told([], ["optimizer"])


def _resumed(rate: np.ndarray, *, optimizer: bool = True, prints: np.ndarray | None = None) -> Run:
    """300 steps, a resume that loads the model (and the optimizer), 300 steps."""
    loads = [Event(300, "load", {"what": what}) for what in ("model", "optimizer")[: 1 + optimizer]]
    signals = {"loss/train": np.ones(600), "lr": rate} | ({} if prints is None else {"batch/fingerprint": prints})
    return a_run(signals, events=[SEAM, *loads])


def test_a_schedule_that_begins_anew_has_lost_its_epoch() -> None:
    cosine = 0.01 * (1 + np.cos(np.pi * np.arange(600) / 600)) / 2
    again = np.r_[cosine[:300], cosine[:300]]
    [found] = rule.findings(_resumed(again))
    assert found.variant == "anew" and found.severity is Severity.WARNING and "0.00503 to 0.01" in found.message
    [found] = rule.findings(_resumed(again, optimizer=False))  # a second training from these weights, perhaps
    assert found.severity is Severity.INFO
    assert rule.outcome(_resumed(cosine)).status is Status.CLEAR
    assert rule.outcome(_resumed(np.full(600, 0.01))).status is Status.CLEAR
    restart = np.r_[cosine[:300], 0.5 * cosine[:300]]  # another course than the first
    assert rule.outcome(_resumed(restart)).status is Status.CLEAR


def test_the_same_batches_again_are_a_remark() -> None:
    draws = np.random.default_rng(0).integers(0, 2**50, 600).astype(float)
    [found] = rule.findings(_resumed(np.full(600, 0.01), prints=np.r_[draws[:300], draws[:300]]))
    assert found.variant == "order" and found.severity is Severity.INFO
    assert rule.outcome(_resumed(np.full(600, 0.01), prints=draws)).status is Status.CLEAR
    fixed = _resumed(np.full(600, 0.01), prints=np.r_[draws[:300], draws[:300]]).with_(facts={"data.order_repeats": True})
    assert rule.outcome(fixed).status is Status.CLEAR  # a loader that never shuffles


def test_a_method_that_loads_weights_all_the_time_resumes_nothing() -> None:
    saw = np.tile(np.r_[np.full(20, 3.0), np.full(20, 1.0)], 10) + 0.01 * np.sin(np.arange(400))
    loads = [Event(40 * i, "load", {"what": "model", "digest": str(i)}) for i in range(1, 10)]
    assert not list(rule.findings(a_run(loss__train=saw, events=loads)))
