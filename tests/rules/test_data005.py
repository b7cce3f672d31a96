"""DATA005: samples in an order that has a pattern."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, learning, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.data005_not_shuffled import not_shuffled as rule
from traindx.run import Run

EPOCHS, PER = 6, 50


def _blocks(classes: int = 5) -> np.ndarray:
    """A loss that jumps at every new class, the same way in every epoch."""
    shape = np.repeat(np.random.default_rng(1).normal(size=classes), PER // classes)
    return np.tile(shape, EPOCHS)


def _loss(pattern: np.ndarray, size: float = 0.3) -> np.ndarray:
    return learning(EPOCHS * PER, floor=1.0, sd=0.05) * np.exp(size * pattern)


def _run(loss: Any = None, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    return a_run({} if loss is None else {"loss/train": loss}, facts={"data.steps_per_epoch": PER, **named})


def _batches(order: np.ndarray, size: int = 32, classes: int = 4) -> dict[str, np.ndarray]:
    counts = np.array([np.bincount(b, minlength=classes) for b in order[: len(order) // size * size].reshape(-1, size)])
    return {str(c): counts[:, c].astype(float) for c in range(classes)}


def test_sorted_batches_are_critical_and_name_the_loader() -> None:
    labels = _batches(np.repeat(np.arange(4), 400))
    facts = {
        "data.label_dispersion": 28.0,
        "data.label_dispersion_p": 1e-300,
        "data.loader": {"dataset": "Digits", "shuffle": False},
    }
    [found] = rule.findings(a_run({"batch/labels/class": labels, "batch/size": np.full(50, 32.0)}, facts=facts))
    assert found.variant == "sorted" and found.severity is Severity.CRITICAL and "Digits" in found.where[0]


def test_a_short_shuffle_buffer_is_a_warning() -> None:
    [found] = rule.findings(_run(data__label_dispersion=9.4, data__label_dispersion_p=1e-50, data__loader={"batch_size": 64}))
    assert found.severity is Severity.WARNING


def test_a_sampler_of_ones_own_is_a_remark() -> None:
    loader = {"batch_size": 64, "sampler": "PKSampler"}
    [found] = rule.findings(_run(data__label_dispersion=4.0, data__label_dispersion_p=1e-50, data__loader=loader))
    assert found.severity is Severity.INFO


def test_one_class_after_the_other_is_a_warning_whoever_chose_the_order() -> None:
    labels = {"batch/labels/class": _batches(np.repeat(np.arange(4), 400)), "batch/size": np.full(50, 32.0)}
    mixed = {"batch/labels/class": _batches(np.random.default_rng(0).integers(0, 4, 1600)), "batch/size": np.full(50, 32.0)}
    for sampler in ("ByClass", "_InfiniteConstantSampler"):
        told = {"data.label_dispersion": 28.0, "data.label_dispersion_p": 1e-300, "data.loader": {"sampler": sampler}}
        assert [f.severity for f in rule.findings(a_run(labels, facts=told))] == [Severity.WARNING]
        assert [f.severity for f in rule.findings(a_run(mixed, facts=told)) if f.variant == "sorted"] == []


def _targets(values: np.ndarray, size: int = 20) -> dict[str, Any]:
    rows = values.reshape(-1, size)
    return {
        "loss/train": np.ones(len(rows)),
        "batch/label_min": rows.min(1),
        "batch/label_max": rows.max(1),
        "batch/label_mean": rows.mean(1),
        "batch/label_std": rows.std(1),
    }


def test_a_table_that_is_sorted_by_the_target_is_seen_within_twenty_updates() -> None:
    prices = np.sort(np.random.default_rng(0).normal(size=400))
    [up] = rule.findings(a_run(_targets(prices)))
    assert up.variant == "target" and up.severity is Severity.WARNING and up.confidence is Confidence.EXACT
    assert "above those of the batch before" in up.message
    [down] = rule.findings(a_run(_targets(prices[::-1])))
    assert "below" in down.message


def test_a_series_in_time_and_a_shuffled_table_are_not_sorted() -> None:
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=4000))
    trend = 0.001 * np.arange(4000) + rng.normal(size=4000)
    for values in (walk, trend, rng.normal(size=4000)):
        assert rule.outcome(a_run(_targets(values))).status is Status.UNSURE


def test_a_sorted_table_that_is_learned_all_the_same_is_a_remark() -> None:
    signals = _targets(np.sort(np.random.default_rng(0).normal(size=4000)))
    signals["loss/train"] = np.full(200, 0.001)
    assert [f.severity for f in rule.findings(a_run(signals, facts={"loss.kind": "mse"}))] == [Severity.INFO]
    assert [f.severity for f in rule.findings(a_run(signals))] == [Severity.WARNING]


def test_batches_of_one_source_each_are_grouped_not_sorted() -> None:
    rng = np.random.default_rng(0)
    labels = _batches(np.repeat(rng.permutation(np.repeat(np.arange(4), 12)), 32))
    facts = {"data.label_dispersion": 30.0, "data.label_dispersion_p": 1e-300}
    [found] = rule.findings(a_run({"batch/labels/class": labels, "batch/size": np.full(48, 32.0)}, facts=facts))
    assert found.variant == "grouped" and found.severity is Severity.WARNING


def test_shuffled_and_stratified_batches_are_clear() -> None:
    for ratio, p in ((0.99, 0.5), (0.01, 1.0), (1.4, 1e-3)):
        assert rule.outcome(_run(data__label_dispersion=ratio, data__label_dispersion_p=p)).status is Status.CLEAR


def test_contrastive_losses_may_group() -> None:
    run = _run(data__label_dispersion=8.0, data__label_dispersion_p=0.0, loss__kind="contrastive")
    assert rule.outcome(run).status is Status.CLEAR


def test_the_loss_curve_alone_shows_blocks() -> None:
    [found] = rule.findings(_run(_loss(_blocks())))
    assert found.variant == "profile" and found.severity is Severity.WARNING and found.facts["m"] > 0.3


def test_a_fixed_order_of_mixed_batches_is_a_remark() -> None:
    [found] = rule.findings(_run(_loss(np.tile(noise(PER, 1.0, seed=3), EPOCHS))))
    assert found.variant == "fixed" and found.severity is Severity.INFO


def test_batches_that_were_seen_in_another_order_share_no_course() -> None:
    assert rule.outcome(_run(_loss(_blocks()), data__order_repeats=False)).status is Status.CLEAR


def test_a_shuffled_run_is_clear() -> None:
    for seed in range(20):
        outcome = rule.outcome(_run(_loss(noise(EPOCHS * PER, 1.0, seed=seed))))
        assert outcome.status is Status.CLEAR, seed


def test_a_learning_rate_that_restarts_every_epoch_explains_the_shape() -> None:
    rate = np.tile(np.geomspace(1.0, 0.01, PER), EPOCHS)
    run = a_run(loss__train=_loss(np.tile(np.linspace(1, -1, PER) ** 3, EPOCHS)), lr=rate, facts={"data.steps_per_epoch": PER})
    assert rule.outcome(run).status is Status.CLEAR


def test_two_epochs_are_not_enough() -> None:
    outcome = rule.outcome(_run(_loss(_blocks())[: 2 * PER]))
    assert outcome.status is Status.UNSURE and outcome.needs_steps == PER


def test_the_same_order_seen_in_the_batches_is_exact_but_only_a_remark() -> None:
    [found] = rule.findings(_run(data__order_repeats=True))
    assert found.variant == "fixed" and found.confidence is Confidence.EXACT and found.severity is Severity.INFO
    assert not list(rule.findings(a_run(facts={"data.order_repeats": True, "data.steps_per_epoch": 1})))


def test_a_curriculum_is_not_judged() -> None:
    assert rule.outcome(_run(_loss(_blocks()), curriculum=True)).status is Status.MUTED


def test_limits_are_the_users() -> None:
    assert not list(rule.findings(_run(_loss(_blocks())), correlation=0.999))
    assert list(rule.findings(_run(data__label_dispersion=1.5, data__label_dispersion_p=1e-9), dispersion=1.2))


def test_blocks_that_look_like_a_smoothed_loss_are_seen_and_a_smoothed_loss_is_not() -> None:
    form = {"data.steps_per_epoch": PER, "log_form": {"loss/train": "ema"}}
    blocks = a_run({"loss/train": _loss(_blocks())}, facts=form)
    assert [f.variant for f in rule.findings(blocks)] == ["profile"]
    for seed in range(10):
        smooth = np.convolve(noise(EPOCHS * PER + 19, 0.2, seed), np.full(20, 0.05), "valid")
        assert rule.outcome(a_run({"loss/train": 1 + smooth}, facts=form)).status is Status.CLEAR, seed


def test_windows_of_a_series_in_the_order_of_time_are_a_remark() -> None:
    run = _run(_loss(_blocks()))
    assert [f.severity for f in rule.findings(run)] == [Severity.WARNING]
    assert [f.severity for f in rule.findings(run.with_(facts={"data.series": True}))] == [Severity.INFO]
    layers = [{"name": "rnn", "class": "LSTM", "order": 0}]
    sequence = {"model.outline": layers, "loss.kind": "mse"}
    assert [f.severity for f in rule.findings(run.with_(facts=sequence))] == [Severity.INFO]
    assert [f.severity for f in rule.findings(run.with_(facts={**sequence, "loss.kind": "ce"}))] == [Severity.WARNING]
