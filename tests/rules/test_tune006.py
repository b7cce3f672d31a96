"""TUNE006: fine-tuning too hot."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, learning, noise
from traindx.finding import Severity, Status
from traindx.rules.tune006_too_hot_finetune import too_hot_finetune as rule
from traindx.run import Event, Matrix, Run, Series

PER, EPOCHS = 100, 4
STAIRS = np.repeat([1.6, 1.2, 0.8, 0.5], PER) + noise(PER * EPOCHS, 0.04)
VAL = Series(np.arange(1, EPOCHS + 1) * PER - 1, np.array([1.5, 1.6, 1.75, 1.9]))
HOT = np.r_[np.full(5, 1.6), np.full(35, 4.0), np.linspace(4.0, 1.5, 360)] + noise(400, 0.04)


def _moves(size: float) -> Matrix:
    return Matrix(np.arange(0, 400, 10), ("a.weight", "b.weight"), np.full((40, 2), size))


def _run(loss: np.ndarray, signals: dict[str, Any] | None = None, **facts: Any) -> Run:
    shapes = {"a.weight": [8, 8], "b.weight": [8, 8]}
    base = {"finetune": True, "data.steps_per_epoch": PER, "model.param_shapes": shapes}
    return a_run({"loss/train": loss, **(signals or {})}, facts={**base, **facts})


def test_stairs_and_large_moves_are_two_signs() -> None:
    [found] = rule.findings(_run(STAIRS, {"loss/val": VAL, "update_ratio/param": _moves(5e-3), "lr": np.full(400, 1e-3)}))
    assert found.severity is Severity.WARNING and "epoch boundary" in found.message and "5.0e-03" in found.message
    assert "0.001" in found.fix


def test_a_rise_at_the_start_and_large_moves() -> None:
    [found] = rule.findings(_run(HOT, {"update_ratio/param": _moves(5e-3)}))
    assert "rose from 1.61 to 4.04" in found.message


def test_one_sign_is_not_enough() -> None:
    assert rule.outcome(_run(STAIRS, {"loss/val": VAL, "update_ratio/param": _moves(1e-4)})).status is Status.CLEAR
    assert rule.outcome(_run(learning(400), {"update_ratio/param": _moves(5e-3)})).status is Status.CLEAR


def test_stairs_under_an_improving_validation_do_not_count() -> None:
    better = Series(VAL.steps, np.array([1.5, 1.4, 1.3, 1.2]))
    assert rule.outcome(_run(STAIRS, {"loss/val": better, "update_ratio/param": _moves(5e-3)})).status is Status.CLEAR


def test_fresh_adapters_may_move() -> None:
    run = _run(STAIRS, {"loss/val": VAL, "update_ratio/param": _moves(5e-3)}, **{"model.adapters": ["a.weight", "b.weight"]})
    assert rule.outcome(run).status is Status.CLEAR


def test_training_from_scratch_is_not_judged() -> None:
    assert rule.outcome(_run(STAIRS, {"loss/val": VAL}, finetune=False)).status is Status.MUTED


def test_the_limit_is_the_users() -> None:
    run = _run(STAIRS, {"loss/val": VAL, "update_ratio/param": _moves(1e-4)})
    assert list(rule.findings(run, moves=1e-5))


def test_a_second_stage_after_a_load_is_judged_by_itself() -> None:
    loss = np.r_[learning(400), HOT]
    rate = np.r_[np.full(400, 1e-3), np.full(400, 3e-2)]
    event = Event(400, "load", {"what": "model", "missing": [], "unexpected": []})
    moves = Matrix(np.arange(400, 800, 10), ("a.weight", "b.weight"), np.full((40, 2), 5e-3))
    facts = {"finetune": False, "model.param_shapes": {"a.weight": [8, 8], "b.weight": [8, 8]}}
    run = a_run({"loss/train": loss, "lr": rate, "update_ratio/param": moves}, facts=facts, events=[event])
    [found] = rule.findings(run)
    assert found.steps == (400, 799)
    same_rate = run.with_(signals={"lr": Series(np.arange(800), np.full(800, 1e-3))})
    assert rule.outcome(same_rate).status is Status.MUTED  # a resume


def test_one_update_that_ruins_what_was_learned_is_an_early_rise() -> None:
    rng = np.random.default_rng(0)
    loss = np.r_[1.39, 14.0, 12.7, 4.7, 9.7, 8.7, 16.3, 16.9, 13.0, np.linspace(9, 1.1, 190) + 0.1 * rng.standard_normal(190)]
    moves = {n: np.full(len(loss), 0.05) for n in ("a", "b", "c")}
    run = a_run({"loss/train": loss, "update_ratio/param": moves}, facts={"finetune": True})
    [found] = rule.findings(run)
    assert found.variant == "" and "rose from 1.39" in found.message


def _after(first: float, rest: np.ndarray) -> Run:
    moves = {n: np.full(len(rest) + 1, 0.02) for n in ("a", "b", "c")}
    return a_run({"loss/train": np.r_[first, rest], "update_ratio/param": moves}, facts={"finetune": True})


def test_a_start_that_one_update_made_twice_as_bad_is_seen_in_thirty_steps() -> None:
    falling = 0.6 + np.exp(-np.arange(29) / 12) + noise(29, 0.04)
    [found] = rule.findings(_after(0.53, falling))
    assert "rose from 0.53" in found.message


def test_an_easy_first_batch_is_no_start_that_was_ruined() -> None:
    assert rule.outcome(_after(0.45, 0.6 + noise(60, 0.06))).status is Status.CLEAR  # noise explains it
    assert rule.outcome(_after(0.5, 0.55 - 0.001 * np.arange(60) + noise(60, 0.01))).status is Status.CLEAR  # it is hardly more
    floor = np.abs(noise(60, 0.02)) + 0.005  # at the floor from the first step on
    assert rule.outcome(_after(0.004, floor)).status is Status.CLEAR
