"""DATA001: values that are not numbers, or far outside everything before."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, learning, noise, steady
from traindx.finding import Confidence, Severity, Status
from traindx.rules.data001_invalid_values import invalid_values as rule
from traindx.run import Event, Run

BAD = [{"step": 7, "field": "x", "kind": "nonfinite", "samples": [17, 40]}]


def _loss(broken_from: int | None = None) -> np.ndarray:
    loss = learning(100)
    if broken_from is not None:
        loss[broken_from:] = np.nan
    return loss


def test_one_nan_is_enough_and_the_samples_are_named() -> None:
    counts = np.zeros(100)
    counts[7] = 2
    known = [{**row, "indexes": [117, 140]} for row in BAD]
    [found] = rule.findings(a_run(batch__input_nonfinite=counts, loss__train=_loss(7), facts={"data.bad_samples": known}))
    assert found.where == ("x of sample 117", "x of sample 140")
    [found] = rule.findings(a_run(batch__input_nonfinite=counts, loss__train=_loss(7), facts={"data.bad_samples": BAD}))
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.EXACT
    assert found.where[0] == "x row 17 in the batch of step 7" and found.steps == (7, 7)
    assert "first at step 7: x row 17" in found.message


def test_a_script_that_skips_bad_batches_does_not_make_their_loss_finite() -> None:
    skips = [Event(1, "nan_hidden", {"how": "skipped", "count": 9})]
    [found] = rule.findings(a_run(batch__input_nonfinite=[0, 3, 0, 1], loss__train=[1.0, 0.9, 0.8, 0.7], events=skips))
    assert found.variant == "skipped" and found.severity is Severity.WARNING and "stayed finite" not in found.message


def test_missing_values_that_the_code_masks_are_a_remark() -> None:
    [found] = rule.findings(a_run(batch__input_nonfinite=[0, 3, 0, 1], loss__train=[1.0, 0.9, 0.8, 0.7]))
    assert found.variant == "masked" and found.severity is Severity.INFO


def test_a_nan_elsewhere_in_the_run_takes_the_remark_back() -> None:
    event = Event(3, "nonfinite", {"what": "grad"})
    [found] = rule.findings(a_run(batch__input_nonfinite=[0, 3, 0, 1], loss__train=[1.0, 0.9, 0.8, 0.7], events=[event]))
    assert found.severity is Severity.CRITICAL


def test_clean_batches_are_clear() -> None:
    run = a_run(batch__input_nonfinite=np.zeros(50), batch__input_extreme=np.zeros(50), loss__train=_loss()[:50])
    assert rule.outcome(run).status is Status.CLEAR


def test_extremes_without_effect_are_a_remark_and_with_effect_a_warning() -> None:
    far = np.zeros(300)
    far[[200, 240, 280]] = 1
    calm = steady(300)
    [found] = rule.findings(a_run(batch__input_extreme=far, loss__train=calm))
    assert found.severity is Severity.INFO
    hit = calm.copy()
    hit[[200, 240, 280]] += 5.0
    [found] = rule.findings(a_run(batch__input_extreme=far, loss__train=hit))
    assert found.severity is Severity.WARNING and found.facts["signal"] == "loss/train"


def test_what_every_twentieth_sample_has_is_the_shape_of_the_feature() -> None:
    def rare(per_batch: float) -> Run:
        return a_run(batch__input_extreme=np.full(50, per_batch), batch__size=np.full(50, 50.0), loss__train=_loss()[:50])

    assert rule.outcome(rare(12.0)).status is Status.CLEAR and list(rule.findings(rare(12.0), common=0.5))
    assert [f.variant for f in rule.findings(rare(1.0))] == ["extreme"]


def test_two_extreme_samples_are_below_the_limit() -> None:
    run = a_run(batch__input_extreme=[0.0] * 98 + [1.0, 1.0])
    assert not list(rule.findings(run))
    assert list(rule.findings(run, least_extreme=2))


def test_empty_sequences_are_mentioned() -> None:
    bad = [{"step": 1, "field": "ids", "kind": "empty", "samples": [3]}]
    [found] = rule.findings(a_run(facts={"data.bad_samples": bad}))
    assert found.variant == "odd" and found.severity is Severity.INFO and "ids row 3 in the batch of step" in found.message


def _coded(loss: np.ndarray, **facts: Any) -> Run:
    far = np.zeros(100)
    far[10::2] = 1.0
    told = {
        "data.usual_spread": 1.0,
        "data.input_stats": {"mean": -490.0, "std": 7000.0, "min": -99999.0, "max": 4.0, "n": 2000},
        **{k.replace("__", "."): v for k, v in facts.items()},
    }
    return a_run({"batch/input_nonfinite": np.zeros(100), "batch/input_extreme": far, "loss/train": loss}, facts=told)


def test_a_code_for_missing_values_is_critical_where_nothing_is_learned() -> None:
    [found] = rule.findings(_coded(1e6 + noise(100, 1e3)))
    assert found.variant == "owning" and found.severity is Severity.CRITICAL and "-99999" in found.message
    [found] = rule.findings(_coded(learning(100, floor=0.1), loss__kind="ce", loss__classes=10, loss__reduction="mean"))
    assert found.variant == "extreme" and found.severity is Severity.INFO
    [found] = rule.findings(_coded(1e6 + noise(100, 1e3), data__usual_spread=6000.0))
    assert found.variant == "extreme"


def test_a_blank_picture_for_many_samples_is_a_warning() -> None:
    facts = {"data.commonest": {"share": 0.25, "samples": 400, "labels": 3}, "data.continuous": True}
    signals = {"batch/input_nonfinite": np.zeros(100), "loss/train": learning(100)}
    [found] = rule.findings(a_run(signals, facts=facts))
    assert found.variant == "blank" and found.severity is Severity.WARNING and "25%" in found.message
    met = {"loss.kind": "mse", "data.seen": {"train": 100, "val": 0}, "data.conflicts": 70}  # states of a replay buffer
    assert rule.outcome(a_run(signals, facts={**facts, **met})).status is Status.CLEAR
    for other in ({"data.continuous": False}, {"data.commonest": {"share": 0.25, "samples": 400, "labels": 1}}):
        assert rule.outcome(a_run(signals, facts={**facts, **other})).status is Status.CLEAR


def test_samples_that_come_again_every_epoch_count_once() -> None:
    rows = [
        {"step": e * 40 + i, "field": "input", "kind": "extreme", "samples": [0], "indexes": [i]}
        for e in range(3)
        for i in range(5)
    ]
    far = np.zeros(120)
    far[[r["step"] for r in rows]] = 1.0
    [found] = rule.findings(a_run(batch__input_extreme=far, loss__train=np.ones(120), facts={"data.bad_samples": rows}))
    assert found.facts["samples"] == 5 and found.message.startswith("5 samples")


def test_one_batch_is_one_batch() -> None:
    one = np.r_[np.zeros(40), 1.0, np.zeros(19)]
    run = a_run({"batch/input_nonfinite": one, "loss/train": np.r_[learning(40), np.full(20, np.nan)]})
    [found] = [f for f in rule.findings(run) if f.variant == "nonfinite"]
    assert "in 1 batch, first" in found.message


def test_a_batch_that_was_not_looked_at_and_broke_the_step_is_named_by_its_replay() -> None:
    """Counts are taken on some steps; the replay of the broken one knows the sample."""
    broke = [Event(57, "nonfinite", {"what": "loss"})]
    origin = {"op": "input", "blame": "batch", "proven": True, "sample": 3, "sample_in_data": 4803}
    looked = {"batch__input_nonfinite": np.zeros(57), "loss__train": _loss(57), "events": broke}
    [found] = rule.findings(a_run(**looked, facts={"origin": origin, "data.loader": {"batch_size": 16}}))
    assert found.variant == "replayed" and found.where == ("sample 4803",) and found.steps == (57, 57)
    assert found.severity is Severity.CRITICAL
    assert rule.outcome(a_run(**looked, facts={"origin": origin})).status is Status.BLIND
