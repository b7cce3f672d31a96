"""WIRE015: a checkpoint that was loaded only in part."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules import wire015_partial_checkpoint
from traindx.rules.wire015_partial_checkpoint import partial_checkpoint as rule
from traindx.run import Event, Run

SHAPES = {"body.0.weight": [20, 20], "body.0.bias": [20], "body.1.weight": [20, 20], "head.weight": [10, 20], "head.bias": [10]}


def loaded(missing: list[str], unexpected: list[str], share: float) -> Run:
    facts = {"model.loaded": {"missing": missing, "unexpected": unexpected, "unloaded_share": share}}
    return a_run(loss__train=[1.0], facts={"model.param_shapes": SHAPES, **facts})


def test_a_prefix_that_hides_every_key() -> None:
    [found] = rule.findings(loaded(list(SHAPES), [f"module.{n}" for n in SHAPES], 1.0))
    assert found.variant == "prefix" and found.severity is Severity.CRITICAL
    assert found.where[0] == "body.0.weight"


def test_a_new_head_is_fine_tuning() -> None:
    [found] = rule.findings(loaded(["head.weight", "head.bias"], ["fc.weight", "fc.bias"], 0.2))
    assert found.severity is Severity.INFO and found.variant == "head"


def test_a_body_that_was_not_filled_is_not() -> None:
    [found] = rule.findings(loaded(["body.1.weight"], [], 0.4))
    assert found.variant == "missing" and found.severity is Severity.CRITICAL


def test_trifles_stay_unsaid_and_the_limit_decides() -> None:
    run = loaded(["body.0.bias"], [], 0.005)
    assert rule.outcome(run).status is Status.CLEAR
    assert next(rule.findings(run, worth=0.001)).severity is Severity.WARNING


def test_a_complete_load_is_clear() -> None:
    assert rule.outcome(loaded([], [], 0.0)).status is Status.CLEAR


def test_a_load_between_two_phases_counts_too() -> None:
    data = {"what": "model", "missing": ["features.0.weight"], "unexpected": ["module.features.0.weight"]}
    [found] = rule.findings(a_run(loss__train=[1.0] * 9, events=[Event(5, "load", data)]))
    assert found.variant == "prefix" and found.steps == (5, 5) and found.severity is Severity.CRITICAL
    optimizer = Event(5, "load", {**data, "what": "optimizer"})
    assert not list(rule.findings(a_run(loss__train=[1.0] * 9, events=[optimizer])))


def test_prefixes_are_told_from_other_names() -> None:
    same = wire015_partial_checkpoint._same_but_prefix
    assert same("layer.0.weight", "module.layer.0.weight") and same("encoder.layer.0.weight", "bert.layer.0.weight")
    assert not same("head.weight", "fc.weight") and not same("head.0.weight", "fc.0.weight")


def _loads(*loads: tuple[int, str], more: tuple[Event, ...] = ()) -> Run:
    return a_run(events=[*(Event(at, "load", {"what": "model", "digest": d, "site": "train.py:9"}) for at, d in loads), *more])


def test_the_same_weights_put_back_every_epoch() -> None:
    [found] = rule.findings(_loads((40, "a"), (80, "a"), (120, "a"), (160, "a")))
    assert found.variant == "again" and found.severity is Severity.CRITICAL and found.where == ("train.py:9",)
    assert "loaded 4 times" in found.message and found.steps == (40, 160)


def test_swapped_weights_own_optimizers_and_reset_states_are_no_loss_of_work() -> None:
    same = [(40, "a"), (80, "a"), (120, "a")]
    swapped = _loads(*((at, f"{kind}{at}") for at in (40, 80, 120) for kind in ("ema", "own")))
    twice = _loads(*same[:2])
    folds = _loads(*same, more=tuple(Event(at + 1, "retrained", {"same_parameters": True}) for at, _ in same))
    reset = _loads(*same, more=tuple(Event(at, "load", {"what": "optimizer"}) for at, _ in same))
    for run in (swapped, twice, folds, reset):
        assert not list(rule.findings(run))


def test_the_best_weights_after_a_plateau_are_no_loss_of_work() -> None:
    events = [Event(at, "load", {"what": "model", "digest": "a", "site": "train.py:9"}) for at in (400, 500, 600)]
    falls = 0.3 + 2.0 * np.exp(-np.arange(700) / 60)
    assert not list(rule.findings(a_run(loss__train=falls, events=events)))
    thrown = np.concatenate([0.3 + 2.0 * np.exp(-np.arange(n) / 60) for n in (400, 100, 100, 100)])
    [found] = rule.findings(a_run(loss__train=thrown, events=events))
    assert found.variant == "again" and found.severity is Severity.CRITICAL


def thrown(losses: np.ndarray, count: int, *more: Event) -> Run:
    return a_run(loss__train=losses, events=[Event(60, "weights_back", {"count": count}), *more])


def test_weights_that_are_the_first_ones_again_and_again() -> None:
    saw = np.tile(np.linspace(2.0, 1.0, 60), 5)
    [found] = rule.findings(thrown(saw, 4))
    assert found.variant == "back" and found.severity is Severity.CRITICAL and "4 times" in found.message


def test_one_look_is_enough_where_nothing_was_gained_since() -> None:
    saw = np.tile(np.linspace(2.0, 1.0, 60), 5)
    assert next(rule.findings(thrown(saw, 1))).variant == "back"


def test_first_weights_after_a_search_for_the_rate_are_meant() -> None:
    learns = np.r_[np.linspace(2.0, 3.0, 60), np.linspace(2.0, 0.5, 240)]
    assert not list(rule.findings(thrown(learns, 1)))
    assert not list(rule.findings(thrown(np.tile(np.linspace(2.0, 1.0, 60), 5), 4, Event(60, "retrained", {}))))
