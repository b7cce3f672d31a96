"""EVAL001: the evaluation does not see what is being trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, learning, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.eval001_stale_eval import stale_eval as rule
from traindx.run import Run, Series

AT = np.arange(100, 1001, 100)


def _run(val: Any, train: Any = None, **signals: Any) -> Run:
    table = {name.replace("__", "/"): value for name, value in signals.items()}
    table["loss/train"] = learning(1001) if train is None else train
    return a_run({**table, "loss/val": Series(AT[: len(val)], np.asarray(val, float))})


STALE = np.r_[2.3025851, np.full(9, 1.8714262)]


def test_a_value_that_repeats_while_the_weights_move_is_critical() -> None:
    [found] = rule.findings(_run(STALE, weights_moved=Series(AT, np.ones(10))))
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert found.steps == (200, 1000) and "1.87143" in found.message and found.facts["count"] == 9


def test_from_a_log_alone_it_is_a_warning() -> None:
    [found] = rule.findings(_run(STALE, lr=np.full(1001, 1e-3)))
    assert found.severity is Severity.WARNING and found.confidence is Confidence.STRONG


def test_a_loss_in_other_units_repeats_because_its_digits_end() -> None:
    weights = {"weights_moved": Series(AT, np.ones(10))}
    assert not list(rule.findings(_run(np.r_[4.29e10, np.full(9, 4.2873101e10)], **weights)))
    assert list(rule.findings(_run(np.r_[4.29e10, np.full(9, 4.2873101e10)], train=1e10 * learning(1001), **weights)))


def test_a_true_plateau_jitters() -> None:
    assert rule.outcome(_run(1.87 + noise(10, 1e-5))).status is Status.CLEAR


def test_rounded_values_may_repeat_and_leave_it_unsure() -> None:
    assert rule.outcome(_run([2.302, 1.9, *[1.871] * 8])).status is Status.UNSURE


def test_two_equal_evaluations_are_chance() -> None:
    val = 1.87 + noise(10, 0.01)
    val[9] = val[8]
    assert rule.outcome(_run(val)).status is Status.CLEAR
    assert list(rule.findings(_run(val), repeats=2))


def test_a_short_row_that_ended_by_itself_is_a_model_that_stood_still() -> None:
    val = 1.87 + noise(10, 0.01)
    val[3:6] = val[3]
    assert rule.outcome(_run(val)).status is Status.CLEAR
    assert list(rule.findings(_run(np.r_[val[:3], np.full(6, val[3]), val[9:]])))


def test_a_run_that_stands_still_repeats_honestly() -> None:
    assert rule.outcome(_run(STALE, weights_moved=Series(AT, np.zeros(10)))).status is Status.CLEAR
    assert rule.outcome(_run(STALE, lr=np.r_[np.full(150, 1e-3), np.zeros(851)])).status is Status.CLEAR
    assert rule.outcome(_run(STALE, train=np.full(1001, 1.5))).status is Status.CLEAR
    assert rule.outcome(_run(STALE, update_ratio=np.full(1001, 1e-9))).status is Status.CLEAR


def test_an_average_of_the_weights_is_a_remark() -> None:
    run = _run(learning(10), eval__weights_differ=Series(AT, np.ones(10)))
    [found] = rule.findings(run)
    assert found.variant == "other" and found.severity is Severity.INFO


def test_a_frozen_copy_is_critical_even_in_few_digits() -> None:
    run = _run([1.5] * 4, eval__weights_differ=Series(AT[:4], np.ones(4)))
    found = rule.look(run)
    first = next(iter(found))
    assert first.say == "other" and first.severity is Severity.CRITICAL


def test_the_same_step_logged_twice_is_one_evaluation() -> None:
    twice = Series(np.repeat(AT[:4], 3), np.repeat(1.87 + noise(4, 0.01), 3))
    assert rule.outcome(a_run({"loss/train": learning(500), "loss/val": twice})).status is Status.CLEAR


def test_four_digits_will_do_when_most_evaluations_agree_and_training_fell_far() -> None:
    falling = np.linspace(2.3, 0.1, 1001) + noise(1001, 0.02)
    [found] = rule.findings(_run(np.full(10, 2.3026), falling))
    assert found.severity is Severity.WARNING and found.facts["count"] == 10
    assert rule.outcome(_run(np.full(10, 2.3026), falling), many=11).status is Status.UNSURE
    assert rule.outcome(_run(np.full(10, 0.31), falling)).status is Status.UNSURE, "two digits repeat by rounding"
    assert rule.outcome(_run(np.full(10, 2.3026), 2.3 + noise(1001, 0.02))).status is Status.UNSURE, "nothing was learned"


def test_a_doubt_about_the_digits_does_not_take_back_what_was_seen() -> None:
    run = _run([2.302, 1.9, *[1.871] * 8], eval__weights_differ=Series(AT, np.ones(10)))
    outcome = rule.outcome(run)
    assert outcome.status is Status.FOUND and outcome.findings[0].variant == "other"


def test_a_round_number_may_be_a_floor() -> None:
    for floor in (0.0, 0.003):
        assert rule.outcome(_run([2.3025851, 0.7114262, *[floor] * 8])).status is Status.UNSURE


def test_an_average_that_never_leaves_the_start_is_a_warning() -> None:
    at = np.arange(30, 361, 30)
    train = 0.1 + 2.2 * np.exp(-np.arange(360) / 60)
    slow, fair = 2.299 - 1e-5 * at, 0.2 + 2.1 * np.exp(-at / 90)
    for val, variant, severity in ((slow, "behind", Severity.WARNING), (fair, "other", Severity.INFO)):
        signals = {"loss/train": train, "loss/val": Series(at, val), "eval/weights_differ": Series(at, np.ones(len(at)))}
        [found] = rule.findings(a_run(signals))
        assert (found.variant, found.severity) == (variant, severity)


def test_a_copy_that_is_never_updated_is_critical_even_where_its_loss_moves() -> None:
    moving = 2.0 + noise(10, 0.1)  # the statistics of its normalisation layers are copied, its weights are not
    stood = {"eval__weights_differ": Series(AT, np.ones(10)), "weights_moved": Series(AT[1:], np.ones(9))}
    [found] = rule.findings(_run(moving, eval__weights_stand=Series(AT[1:], np.ones(9)), **stood))
    assert found.variant == "stood" and found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    late = np.r_[np.zeros(4), np.ones(5)]  # it follows at times: the best weights so far, for instance
    assert [f.variant for f in rule.findings(_run(moving, eval__weights_stand=Series(AT[1:], late), **stood))] != ["stood"]


def test_an_accuracy_that_is_printed_without_any_evaluation() -> None:
    echo = {"value": 0.4688, "count": 9, "first": 25, "last": 233}
    [found] = rule.findings(a_run({"loss/train": learning(300)}, facts={"eval.echo": echo}))
    assert found.variant == "echo" and found.severity is Severity.WARNING and found.steps == (25, 233)
    assert "0.4688 9 times" in found.message


def test_one_evaluation_of_a_copy_that_knows_nothing() -> None:
    facts = {"loss.kind": "ce", "loss.classes": 10}

    def told(val: float, differ: float = 1.0) -> list[str]:
        seen = {"eval/weights_differ": Series(AT[:1], np.array([differ])), "loss/train": 2.3 * np.exp(-np.arange(1001) / 100)}
        run = a_run({**seen, "loss/val": Series(AT[:1], np.array([val]))}, facts=facts)
        return [f.variant for f in rule.findings(run)]

    assert told(2.35) == ["untrained"]
    assert not told(0.3)  # an average of the weights
    assert not told(2.35, differ=0.0)  # bad validation of the right weights: other rules
