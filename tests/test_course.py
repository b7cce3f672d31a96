"""Did it learn? The states, the interval, chance by agreement, and how a run ended."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from runs import a_run, noise
from traindx import course, regime
from traindx.course import State, chance, metrics, side_by_side, troubles
from traindx.run import Run, Series

EPOCHS = 20
FALL = np.exp(-np.arange(EPOCHS) / 5)


def log(facts: dict | None = None, **signals) -> Run:
    return Run(
        {k.replace("__", "/"): Series(np.arange(len(v)), np.asarray(v, float)) for k, v in signals.items()},
        {"step_unit": "epoch", "columns": {}, **(facts or {})},
    )


def state(run: Run) -> State:
    return course.learned(run).state


def test_a_metric_with_a_known_scale_gives_an_interval_that_holds_it() -> None:
    told = course.learned(log(loss__train=FALL, metric__val__r2=0.8 * (1 - FALL)))
    assert told.yes and told.low <= 0.785 <= told.high and told.high - told.low < 0.35


@pytest.mark.parametrize("name", ["r2", "auc", "accuracy"])
def test_a_metric_that_stays_at_chance_is_not_learning(name: str) -> None:
    level = {"r2": 0.0, "auc": 0.5, "accuracy": 0.25}[name]
    values = level + noise(EPOCHS, 0.005)
    assert state(log(loss__train=1 + 0.1 * FALL, **{f"metric__val__{name}": values})) is State.NOT_LEARNING


def test_a_training_metric_against_a_falling_training_loss_decides_nothing() -> None:
    worse = np.concatenate([[0.25] * 5, np.full(EPOCHS - 5, 0.01)])
    assert not course.learned(log({"loss.classes": 5}, loss__train=2 * FALL, metric__train__accuracy=worse)).no
    assert course.learned(log({"loss.classes": 5}, loss__train=2 + 0 * FALL, metric__train__accuracy=worse)).no


def test_a_loss_that_blew_up_got_worse_whatever_came_after() -> None:
    assert state(log(loss__train=np.linspace(2.4, 106, EPOCHS), accuracy__val=np.full(EPOCHS, 0.1))) is State.GOT_WORSE
    assert state(a_run(loss__train=np.append(np.ones(80), np.full(40, np.nan)))) is State.GOT_WORSE


def test_what_had_been_learned_and_is_lost_got_worse() -> None:
    curve = np.concatenate([1 - FALL[:12], np.full(8, 0.02)])
    assert state(log(loss__train=np.ones(EPOCHS), metric__val__r2=curve)) is State.GOT_WORSE


def test_a_loss_that_falls_at_once_and_stands_shows_nothing() -> None:
    """Going from the first to the mean of the target looks like that: only a metric would tell."""
    curve = np.concatenate([[84.9], np.full(EPOCHS - 1, 7.15)]) + noise(EPOCHS, 0.02)
    told = course.learned(log(loss__train=curve, loss__val=curve))
    assert told.state is State.CANNOT_KNOW and "metric" in told.would_tell


def test_a_loss_that_falls_at_two_speeds_is_learning() -> None:
    """The way to a constant answer has one speed; what comes after it, more slowly, is learned from the inputs."""
    fast = np.exp(-np.arange(EPOCHS))
    assert state(log(loss__train=5 * fast + FALL + 0.1, loss__val=5 * fast + FALL + 0.2)) in (State.LEARNED, State.LEARNING)
    assert state(log(loss__train=5 * FALL + 1.1, loss__val=5 * FALL + 1.2)) is State.CANNOT_KNOW


def test_a_loss_that_stands_still_for_two_thirds_of_the_run_is_an_alarm_but_no_proof() -> None:
    fast = np.exp(-2 * np.arange(EPOCHS))
    told = course.learned(log(loss__train=2 * fast + 1, loss__val=2 * fast + 1.1))
    assert told.state is State.CANNOT_KNOW and "two thirds" in told.lost
    moving = np.linspace(1.0, 0.9, EPOCHS)
    assert not course.learned(log(loss__train=2 * fast + moving, loss__val=2 * fast + 1.1)).lost


def test_a_loss_that_still_falls_as_at_first_has_hardly_begun() -> None:
    slow = np.linspace(1.0, 0.85, EPOCHS)
    assert state(log(loss__train=slow, loss__val=slow + 0.1)) is State.NOT_LEARNING


@pytest.mark.parametrize(("loss", "sure"), [(0.34, True), (0.2, False)])
def test_an_accuracy_that_never_moves_is_that_of_a_constant_answer_unless_the_loss_knows_more(loss: float, sure: bool) -> None:
    """88 % right cost a constant answer 0.367 at least: that is the entropy of classes so unequal."""
    curve = 0.03 + loss + 0.3 * np.exp(-np.arange(EPOCHS))
    run = log(loss__train=curve, loss__val=curve, accuracy__val=np.append([0.7, 0.85], np.full(EPOCHS - 2, 0.88)))
    assert (state(run) is State.NOT_LEARNING) is sure and not course.learned(run).well


def test_half_of_two_answers_right_is_nothing() -> None:
    curve = 0.7 + 0.1 * FALL
    assert not course.learned(log(loss__train=curve, loss__val=curve, accuracy__val=np.linspace(0.2, 0.42, EPOCHS))).yes


def test_a_few_records_are_too_early() -> None:
    assert state(log(loss__train=FALL[:3])) is State.TOO_EARLY


def test_kinds_whose_loss_is_not_meant_to_fall_are_judged_by_their_own_evidence() -> None:
    rising = {"rl/return": np.linspace(0, 100, 60) + noise(60, 3)}
    agent = a_run(loss__train=1 + noise(200, 0.5), facts={"rl": True})
    assert state(agent) is State.CANNOT_KNOW
    assert course.learned(agent.with_(signals={k: Series(np.arange(60), v) for k, v in rising.items()})).yes


def test_few_evaluated_samples_show_nothing() -> None:
    """Twelve samples: 58 % right at a chance of 50 % is neither knowledge nor its absence."""
    jumps = 0.55 + noise(EPOCHS, 0.12)
    run = log(
        {"loss.kind": "ce", "loss.classes": 2, "loss.reduction": "mean"}, accuracy__val=jumps, eval__samples=np.full(EPOCHS, 12)
    )
    assert not course.learned(run).no


def test_classes_are_believed_only_where_first_loss_and_accuracy_agree() -> None:
    told = {"loss.kind": "ce", "loss.classes": 30522}
    assert chance.classes(log(told, loss__train=1.4 * FALL, accuracy__val=0.25 + 0.5 * (1 - FALL))) is None
    assert chance.classes(log(loss__train=[2.31, 2.3, 2.3], accuracy__val=[0.1, 0.11, 0.1])) == 10
    assert chance.classes(log(loss__train=[2.31, 2.3, 2.3], accuracy__val=[0.6, 0.61, 0.6])) is None


def test_chance_of_imbalanced_labels_is_their_entropy() -> None:
    facts = {"loss.kind": "bce_logits", "loss.reduction": "mean"}
    run = log(facts, loss__train=0.43 + noise(EPOCHS, 0.01), batch__label_mean=0.15 + noise(EPOCHS, 0.01))
    found = chance.chance(run)
    assert found is not None and found.loss == pytest.approx(-0.15 * math.log(0.15) - 0.85 * math.log(0.85), rel=0.02)
    assert state(run) is State.NOT_LEARNING


def test_percent_and_share_read_alike() -> None:
    whole, part = (next(iter(metrics.metrics(log(metric__val__f1=v)))).series.last for v in ([50.0, 90.0], [0.5, 0.9]))
    assert whole == part == 0.9


@pytest.mark.parametrize(
    ("facts", "how"),
    [
        ({"ended": "running"}, "running"),
        ({"ended": "killed"}, "interrupted"),
        ({"ended": "exception", "exception": {"type": "KeyboardInterrupt"}}, "interrupted"),
        ({"ended": "exception", "exception": {"type": "ValueError"}}, "crashed"),
        ({"budget.planned_steps": 20}, "finished"),
        ({"budget.planned_steps": 60}, "interrupted"),
        ({"ended": "closed"}, "finished"),
        ({}, "unknown"),
    ],
)
def test_how_it_ended(facts: dict, how: str) -> None:
    assert course.ended(log(facts, loss__train=FALL)).how == how


def test_the_answer_does_not_flap_while_a_run_grows() -> None:
    whole = log(loss__train=2.3 * FALL + 0.1 + noise(EPOCHS, 0.01), accuracy__val=1 - 0.9 * FALL)
    said = [state(whole.between(hi=n)) for n in range(EPOCHS)]
    turns = [a for a, b in itertools.pairwise(said) if a is not b]
    assert said[0] is State.TOO_EARLY and len(turns) <= 2 and not {State.NOT_LEARNING, State.GOT_WORSE} & set(said)


def summed(times: float, wobble: float = 0.0) -> Run:
    """A classifier of five letters whose backward takes the losses of several letters at once."""
    each = np.linspace(1.6, 0.45, 60)
    factor = times * (1 + wobble * np.sin(np.arange(60)))
    known = {"loss.kind": "ce", "loss.classes": 5, "loss.reduction": "mean"}
    return a_run({"loss/train": each * factor, "loss/token_mean": each}, facts=known)


def test_a_loss_that_adds_up_several_is_measured_by_as_many_constant_answers() -> None:
    told = chance.chance(summed(6.0))
    assert told is not None and told.loss == pytest.approx(6 * math.log(5)) and told.why == "6 × ln 5"
    assert course.learned(summed(6.0)).low == pytest.approx(course.learned(summed(1.0)).low, abs=0.02)
    assert chance.chance(summed(1.2)) == chance.chance(summed(1.0))  # a penalty next to the loss
    assert chance.chance(summed(6.0, 0.3)) is None  # now of five, now of eight: no level means anything
    assert not regime.plain_loss(summed(6.0)) and regime.plain_loss(summed(1.0))


def test_a_sum_over_the_batch_is_measured_by_its_targets() -> None:
    fall = np.geomspace(600, 1e-4, 60)
    known = {"loss.kind": "mse", "loss.reduction": "sum", "loss.target_shape": [64, 10]}
    labels = {"batch/label_std": np.ones(60), "batch/label_mean": np.zeros(60)}
    run = a_run({"loss/train": fall, **labels}, facts=known)
    assert course.learned(run).well and "640 ×" in course.learned(run).reasons[0]
    assert regime.added(run.with_(facts={"loss.divided": True})) is None
    assert chance.chance(run.with_(facts={"loss.divided": True})) is None


def doubt(train, val) -> str:
    return side_by_side.doubt(log(loss__train=np.asarray(train, float), loss__val=np.asarray(val, float)))


def test_two_losses_that_hardly_move_speak_of_a_constant_answer() -> None:
    slow = 0.69 - 0.002 * np.arange(EPOCHS)
    assert "hardly less" in doubt(slow, slow + 0.001)
    assert not doubt(0.2 + 0.5 * FALL, 0.3 + 0.4 * FALL)


def test_a_fall_that_ends_in_the_first_epoch_and_a_smooth_one_at_one_speed() -> None:
    once = np.append(8.0, np.full(EPOCHS - 1, 1.0)) + noise(EPOCHS, 0.003)
    assert "after the first epoch" in doubt(once, once[1].repeat(EPOCHS) * 1.1 - 0.3 * FALL)
    steady = 0.1 + np.exp(-np.arange(EPOCHS) / 12)
    assert "fell evenly" in doubt(steady, steady)
    sets_in = np.where(np.arange(EPOCHS) < 10, steady, steady * np.exp(-0.3 * (np.arange(EPOCHS) - 9)))
    assert "fell evenly" not in doubt(sets_in, sets_in)


def test_a_validation_loss_that_jumps_shows_nothing_but_one_that_fell_far_below_its_jumps_may() -> None:
    jumps = np.exp(0.8 * (np.arange(EPOCHS) % 2))
    assert "jumps" in doubt(np.ones(EPOCHS) + FALL, jumps)
    assert "jumps" not in doubt(FALL**3, jumps * np.exp(-np.arange(EPOCHS) / 2))


def test_a_start_that_blew_up_is_no_measure_of_what_was_learned() -> None:
    blown = np.append(5e5, 3 + noise(EPOCHS - 1, 0.3))
    assert "blown up" in doubt(blown, 3 + noise(EPOCHS, 0.2) + 0.5 * FALL)


def test_an_error_that_never_falls_contradicts_a_loss_without_a_scale() -> None:
    run = log(loss__train=-1 + FALL, loss__val=-0.7 + FALL + noise(EPOCHS, 0.05), metric__val__mae=0.26 + noise(EPOCHS, 0.001))
    assert "mae" in side_by_side.doubt(run)


def test_training_is_paired_with_the_evaluation_that_follows() -> None:
    run = Run(
        {"loss/train": Series(np.arange(48), np.arange(48.0) + 1), "loss/val": Series(np.arange(3, 48, 4), np.ones(12))}, {}
    )
    train, _ = side_by_side.pair(run)
    assert train.values.tolist() == [2.5 + 4 * i for i in range(12)]


def test_an_accuracy_below_twice_one_in_k_may_be_a_frequent_class() -> None:
    right = np.full(EPOCHS, 0.14) + 0.06 * (1 - FALL) + noise(EPOCHS, 0.002)
    told = course.learned(log(loss__train=1.946 - 0.03 * (1 - FALL), metric__val__accuracy=right))
    assert told.low <= 0.05 and not told.yes


def test_bits_tell_a_cross_entropy() -> None:
    nats = 2 + FALL
    assert chance.is_cross_entropy(log(loss__val=nats, metric__val__bits_per_token=nats / math.log(2)))
    assert not chance.is_cross_entropy(log(loss__val=nats, metric__val__bits_per_token=nats))


def test_word_errors_have_a_scale_and_a_finished_run_needs_no_more_evaluations() -> None:
    at = np.array([100, 200, 300, 400])
    signals = {"loss/train": Series(np.arange(25, 401, 25), np.linspace(2.5, 0.2, 16))}
    for errors in ([0.56, 0.28, 0.22, 0.2], [56.0, 28.0, 22.0, 20.0], [1.4, 0.9, 0.3, 0.2]):
        run = Run({**signals, "metric/val/eval_wer": Series(at, np.array(errors))}, {"budget.planned_steps": 400})
        found = course.learned(run)
        assert found.yes and 0.4 < found.low < 0.8 and "1 - eval_wer is 0.8" in found.sentence
    assert state(Run({**signals, "metric/val/eval_wer": Series(at, np.array([0.56, 0.28, 0.22, 0.2]))})) is State.TOO_EARLY


def test_a_burst_that_cost_nothing_and_a_first_record_that_had_blown_up_are_no_doubt() -> None:
    fall = np.geomspace(0.3, 0.0005, 40)
    burst = np.r_[fall[:10], 1.2, fall[11:]]
    told = [troubles.unstable(log({"step_unit": "epoch"}, loss__train=fall, loss__val=val)) for val in (burst, burst[:14])]
    assert "burst" not in told[0] and "burst" in told[1]
    later = np.r_[35000.0, 0.85 - 0.002 * np.arange(60)]
    assert not troubles.unstable(log({"step_unit": "epoch"}, loss__train=later))
    assert troubles.unstable(log({"step_unit": "epoch"}, loss__train=np.r_[35000.0, np.full(60, 0.85)]))


def test_a_part_of_what_was_gained_that_both_lose_again_got_worse() -> None:
    """Noise of single steps is no gain: only means between evaluations are."""
    down = np.concatenate([np.exp(-np.arange(12) / 5), 0.1 + 0.06 * np.arange(8)])
    assert troubles.lost_again(log(loss__train=down, loss__val=1.1 * down))
    steps = np.repeat(0.2 + FALL, 20) * np.exp(noise(20 * EPOCHS, 0.8))
    jitters = Run(
        {"loss/train": Series(np.arange(20 * EPOCHS), steps), "loss/val": Series(20 * np.arange(EPOCHS) + 19, 0.2 + FALL)}
    )
    assert not troubles.lost_again(jitters)


def test_a_leap_after_the_first_epoch_and_a_rise_of_both_losses_show_nothing() -> None:
    leapt = np.concatenate([[3.0, 90.0, 30.0], 2.5 + noise(17, 0.05)])
    assert "rose to" in side_by_side.doubt(log(loss__train=leapt, loss__val=leapt + 0.4))
    crept = np.concatenate([[9.0, 1.0], 1.0 + 0.03 * np.arange(18)])
    assert "clearly above" in side_by_side.doubt(log(loss__train=crept, loss__val=1.02 * crept))
    assert not side_by_side.doubt(log(loss__train=0.2 + FALL + 3 * FALL**4, loss__val=0.3 + FALL + 3 * FALL**4))


def test_half_right_is_guessing_only_where_there_may_be_two_answers() -> None:
    score = 0.5 + noise(EPOCHS, 0.01)
    many = log(loss__train=1.8 + 1.2 * FALL, loss__val=2.6 - 0.2 * FALL, metric__val__macro_recall=score)
    assert state(many) is not State.NOT_LEARNING
    two = log(loss__train=0.69 + 0.05 * FALL, loss__val=np.full(EPOCHS, 0.7), metric__val__macro_recall=score)
    assert state(two) is State.NOT_LEARNING


def test_an_accuracy_that_begins_high_and_hardly_gains_may_be_that_of_a_frequent_class() -> None:
    falls = 0.2 + 0.3 * FALL
    hardly = course.learned(log(loss__train=falls, loss__val=falls, accuracy__val=0.9 + 0.01 * (1 - FALL)))
    sure = falls - 0.15
    clearly = course.learned(log(loss__train=sure, loss__val=sure, accuracy__val=0.9 + 0.08 * (1 - FALL)))
    assert hardly.low < 0.3 and clearly.low > 0.7
