"""ACTV008: running statistics that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.actv008_batchnorm_mismatch import batchnorm_mismatch as rule
from traindx.run import Event, Matrix, Run, Series

BN = {"model.outline": [{"name": "bn", "class": "BatchNorm1d", "params": 4, "order": 1}]}


def gaps(mean: float, batch: float = 64, n: int = 60) -> Run:
    return a_run(
        {
            "bn_mean_gap/module": {"bn": steady(n, mean), "bn2": steady(n, 0.02)},
            "bn_var_gap/module": {"bn": steady(n, 0.04), "bn2": steady(n, 0.04)},
            "batch/size": np.full(n, batch),
        },
        steps=np.arange(n) * 10,
        facts=BN,
        events=[Event(10, "evaluation", {})],
    )


def test_names_the_layer_whose_statistics_are_stale() -> None:
    [found] = rule.findings(gaps(0.8))
    assert found.where == ("bn",) and found.variant == "gap" and found.severity is Severity.WARNING


def test_healthy_gaps_are_clear() -> None:
    assert rule.outcome(gaps(0.03)).status is Status.CLEAR


@pytest.mark.parametrize("batch", [8, 16, 32])
def test_small_batches_scatter_by_chance(batch: int) -> None:
    assert not list(rule.findings(gaps(0.67 / np.sqrt(batch), batch=batch)))


def test_the_limit() -> None:
    assert not list(rule.findings(gaps(0.3, batch=1000), mean_gap=0.5))
    assert list(rule.findings(gaps(0.3, batch=1000)))


def test_training_batches_in_eval_mode_are_the_surest_sign() -> None:
    run = a_run({"loss/train": steady(200, 0.5)}, facts=BN).with_(
        a_run({"eval/train_in_eval": steady(10, 5.0)}, steps=np.arange(10) * 20 + 10).signals
    )
    [found] = rule.findings(run)
    assert found.variant == "eval" and found.facts["ratio"] == pytest.approx(10, rel=0.1)


def test_overfitting_leaves_training_batches_alone() -> None:
    run = a_run({"loss/train": steady(200, 0.5)}, facts=BN).with_(
        a_run({"eval/train_in_eval": steady(10, 0.45)}, steps=np.arange(10) * 20 + 10).signals
    )
    assert rule.outcome(run).status is Status.CLEAR


def test_tiny_batches_are_mentioned_and_a_single_sample_is_a_warning() -> None:
    assert next(rule.findings(gaps(0.1, batch=4))).severity is Severity.INFO
    run = gaps(0.02).with_(events=[Event(40, "batch_size_one", {"count": 3})])
    [found] = rule.findings(run)
    assert found.variant == "one" and found.severity is Severity.WARNING and "3 times" in found.message


def test_the_first_steps_lag_by_design() -> None:
    assert not list(rule.findings(gaps(0.8, n=6)))


@pytest.mark.parametrize(("last", "found"), [(0.45, True), (0.05, False)])
def test_of_a_few_late_readings_every_one_must_lie_apart(last: float, found: bool) -> None:
    steps = np.array([*range(8), 42, 92, 192])
    mean = np.array([0.4] * 10 + [last])
    table = {
        "bn_mean_gap/module": {"bn": mean},
        "bn_var_gap/module": {"bn": np.full(11, 0.04)},
        "batch/size": np.full(11, 56.0),
    }
    assert bool(list(rule.findings(a_run(table, steps=steps, facts=BN)))) is found


@pytest.mark.parametrize(
    ("momentum", "val", "found"),
    [
        (0.99, [0.4, 0.3, 0.8, 0.2, 1.5, 0.2], ["warning"]),
        (0.99, [0.5, 0.4, 0.31, 0.3, 0.3, 0.3], ["info"]),  # large batches are all alike
        (0.1, [0.4, 0.3, 0.8, 0.2, 1.5, 0.2], []),
        (1.0, [0.4, 0.3, 0.8, 0.2, 1.5, 0.2], []),  # the statistics are recomputed on purpose
    ],
)
def test_a_momentum_that_forgets_all_but_the_last_batch(momentum: float, val: list[float], found: list[str]) -> None:
    signals = {"loss/train": np.full(60, 0.28), "loss/val": Series(np.arange(6) * 10, np.array(val))}
    run = a_run(signals, facts={"model.batchnorm_momentum": {"bn1": momentum, "bn2": 0.1}})
    got = [f for f in rule.findings(run) if f.variant == "momentum"]
    assert [str(f.severity.name).lower() for f in got] == found
    assert all(f.where == ("bn1",) for f in got)


def test_without_an_evaluation_a_distance_is_a_remark() -> None:
    [found] = rule.findings(gaps(0.8))
    assert found.severity is Severity.WARNING
    [found] = rule.findings(a_run(gaps(0.8).signals, facts=BN))
    assert found.severity is Severity.INFO


def test_statistics_of_another_model_begin_anew() -> None:
    folds, at = (
        {"optimizer.steps": [186, 186, 186], "optimizer.fresh_at_step": 186},
        np.r_[np.arange(0, 183, 6), np.arange(187, 192), 220, 373, 374],
    )
    wide = np.where(np.isin(at, [187, 188, 189, 190, 191, 373, 374]), 0.9, 0.1)
    tables = {
        n: Matrix(at, ("1",), v[:, None]) for n, v in (("bn_mean_gap/module", 0 * wide + 0.07), ("bn_var_gap/module", wide))
    }
    run = a_run({"loss/val": steady(558, 0.3), "batch/size": np.full(558, 64.0)}).with_(tables)
    assert list(rule.findings(run)) and rule.outcome(run.with_(facts=folds)).status is Status.CLEAR
