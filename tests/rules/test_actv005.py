"""ACTV005: the same answer to every input."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run, learning, steady
from traindx.finding import Severity, Status
from traindx.rules.actv005_output_collapse import output_collapse as rule
from traindx.run import Run

CE = {"loss.kind": "ce", "loss.classes": 10}
ONE = np.r_[np.full(20, 0.4), np.ones(180)]
LABELS = {str(c): np.full(200, 6.0) for c in range(10)}


def collapsed(loss: float = 2.3, late: float = 1e-4, **more: object) -> Run:
    spread = np.r_[steady(30, 0.5), steady(170, late)]
    return a_run({"output_std": spread, "loss/train": steady(200, loss, 0.01), **more}, facts=CE)


def test_says_how_little_is_left_and_from_when() -> None:
    [found] = rule.findings(collapsed())
    assert found.severity is Severity.CRITICAL and found.steps == (30, 199)
    assert found.facts["ratio"] < 1e-3


def test_a_run_that_has_hardly_begun_keeps_its_spread() -> None:
    assert rule.outcome(collapsed(late=0.4)).status is Status.CLEAR


def test_the_limit() -> None:
    assert not list(rule.findings(collapsed(late=0.02)))
    assert list(rule.findings(collapsed(late=0.02), ratio=0.1))


def test_a_loss_below_chance_is_no_collapse() -> None:
    assert not list(rule.findings(collapsed(loss=0.5)))


def test_one_class_for_everything() -> None:
    run = a_run({"output_top_share": ONE, "loss/train": steady(200, 2.3, 0.01), "batch/labels/class": LABELS}, facts=CE)
    [found] = rule.findings(run)
    assert found.variant == "class" and "10 classes" in found.message


@pytest.mark.parametrize("share", [0.95, 0.6])
def test_nearly_one_class_is_not_all(share: float) -> None:
    run = a_run(
        {"output_top_share": steady(200, share, 0.01), "loss/train": steady(200, 2.3, 0.01), "batch/labels/class": LABELS},
        facts=CE,
    )
    assert not list(rule.findings(run))


def test_sorted_batches_hold_one_class_each() -> None:
    labels = {str(c): np.where(np.arange(200) // 20 == c, 60.0, 0.0) for c in range(10)}
    run = a_run({"output_top_share": ONE, "loss/train": steady(200, 2.3, 0.01), "batch/labels/class": labels}, facts=CE)
    assert not list(rule.findings(run))


def test_a_class_that_makes_up_nearly_everything_is_another_matter() -> None:
    labels = {"0": np.full(200, 60.0), "1": np.full(200, 2.0), "2": np.full(200, 2.0)}
    run = a_run({"output_top_share": ONE, "loss/train": steady(200, 2.3, 0.01), "batch/labels/class": labels}, facts=CE)
    assert not list(rule.findings(run))


def test_regression_onto_targets_that_hardly_vary() -> None:
    run = a_run(
        {
            "output_std": np.r_[steady(30, 0.5), steady(170, 1e-3)],
            "batch/label_std": steady(200, 1e-3),
            "loss/train": learning(200),
        }
    )
    assert not list(rule.findings(run))


@pytest.mark.parametrize("flag", ["adversarial", "rl"])
def test_other_games_have_other_rules(flag: str) -> None:
    assert rule.outcome(collapsed().with_(facts={flag: True})).status is Status.MUTED


def test_a_favourite_class_from_the_start_is_an_untrained_network() -> None:
    run = a_run(
        {"output_top_share": np.ones(200), "loss/train": steady(200, 2.3, 0.01), "batch/labels/class": LABELS}, facts=CE
    )
    assert not list(rule.findings(run))


def test_outputs_that_never_depended_on_the_input() -> None:
    run = a_run(
        {"output_std": steady(40, 3e-8), "logit_maxabs": steady(40, 0.4), "loss/train": steady(40, 2.3, 0.01)}, facts=CE
    )
    [found] = rule.findings(run)
    assert found.variant == "ignored" and found.severity is Severity.CRITICAL
    zeros = a_run({"output_std": np.zeros(40), "logit_maxabs": np.zeros(40), "loss/train": steady(40, 2.3, 0.01)}, facts=CE)
    assert not list(rule.findings(zeros))


def test_a_run_that_broke_is_judged_up_to_there() -> None:
    spread = np.r_[steady(60, 0.5), np.zeros(140)]
    loss = np.r_[steady(60, 2.3, 0.01), np.full(140, np.nan)]
    assert not list(rule.findings(a_run({"output_std": spread, "loss/train": loss}, facts=CE)))


def test_an_input_that_never_reached_the_output_of_layers_that_learn_was_lost_on_the_way() -> None:
    for ratio, variant in ((1e-2, "lost"), (1e-7, "ignored")):
        signals = {"output_std": np.zeros(200), "logit_maxabs": steady(200, 2.0), "loss/train": steady(200, 2.3, 0.01)}
        moves = {"update_ratio/param": {"rnn.weight": np.full(200, ratio)}}
        [found] = rule.findings(a_run({**signals, **moves}, facts={**CE, "model.param_shapes": {"rnn.weight": [48, 96]}}))
        assert found.variant == variant


def test_few_looks_are_enough_where_nothing_is_left() -> None:
    at = np.array([0, 1, 2, 40, 80, 160])
    gone = a_run({"output_std": [0.16, 0.12, 0.1, 1e-8, 1e-8, 1e-8]}, steps=at)
    assert [f.code for f in rule.findings(gone)] == ["ACTV005"]
    assert not list(rule.findings(a_run({"output_std": [0.16, 0.12, 0.1, 0.002, 0.001, 0.002]}, steps=at)))
