"""DATA002: inputs far from unit scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runs import a_run, judged, learning
from traindx.finding import Severity, Status
from traindx.rules.data002_unscaled_inputs import unscaled_inputs as rule
from traindx.run import Run

PIXELS = {"mean": 33.3, "std": 78.5, "min": 0.0, "max": 255.0, "n": 2000}
CE = {"loss.kind": "ce", "loss.classes": 10}


def _run(scale: dict[str, float], loss: Any = None, integral: bool = False, **more: Any) -> Run:
    table: dict[str, Any] = {} if loss is None else {"loss/train": loss}
    if integral:
        table["batch/input_integral"] = np.ones(30)
    return a_run(table, facts={"data.input_stats": scale, **CE, **more})


def test_says_that_pixels_were_not_divided() -> None:
    [found] = rule.findings(_run(PIXELS, integral=True))
    assert found.variant == "pixels" and found.severity is Severity.WARNING
    assert "255" in found.message and "0.131" in found.fix


def test_large_scale_with_an_absurd_first_loss_is_a_warning() -> None:
    [found] = rule.findings(_run({**PIXELS, "max": 900.0}, loss=16.0 * np.exp(-np.arange(300) / 60)))
    assert found.variant == "large" and found.severity is Severity.WARNING


def test_raw_inputs_that_train_well_are_a_remark() -> None:
    [found] = judged(rule, _run({**PIXELS, "max": 900.0}, loss=learning(300)))
    assert found.severity is Severity.INFO


def test_divided_twice() -> None:
    [found] = rule.findings(_run({"mean": 5e-4, "std": 1.2e-3, "min": 0.0, "max": 0.0039, "n": 2000}))
    assert found.variant == "twice"


def test_off_centre() -> None:
    [found] = rule.findings(_run({"mean": 290.0, "std": 8.0, "min": 260.0, "max": 310.0, "n": 2000}))
    assert found.variant == "offset" and found.facts["offset"] == pytest.approx(36.25)


def test_one_feature_drowns_the_others_and_both_are_named() -> None:
    channels = {"mean": [0.0, 0.0, 0.0], "std": [0.5, 900.0, 1.0]}
    scale = {"mean": 0.0, "std": 15.0, "min": -99.0, "max": 99.0, "n": 2000}
    found = list(rule.findings(_run(scale, **{"data.channel_stats": channels})))
    assert [f.variant for f in found] == ["uneven"] and found[0].where[1].startswith("feature 1")


@pytest.mark.parametrize(
    "scale",
    [
        {"mean": 0.0, "std": 1.0, "min": -3.0, "max": 3.0, "n": 2000},
        {"mean": 0.13, "std": 0.31, "min": 0.0, "max": 1.0, "n": 2000},
        {"mean": 4.9, "std": 6.0, "min": 0.0, "max": 16.0, "n": 2000},  # small digits, 0 … 16
        {"mean": 0.001, "std": 0.02, "min": 0.0, "max": 1.0, "n": 2000},  # bag of words
    ],
)
def test_usual_inputs_are_clear(scale: dict[str, float]) -> None:
    assert rule.outcome(_run(scale, integral=scale["max"] == 16.0)).status is Status.CLEAR


def _outline(*kinds: str) -> list[dict[str, Any]]:
    return [{"name": f"m.{i}", "class": k, "params": 1, "order": i} for i, k in enumerate(kinds)]


def test_a_net_that_normalises_its_input_is_not_judged() -> None:
    run = _run(PIXELS, **{"model.outline": _outline("Flatten", "BatchNorm1d", "Linear")})
    assert rule.outcome(run).status is Status.MUTED


def test_a_norm_right_after_the_first_layer_absorbs_the_scale() -> None:
    [found] = rule.findings(_run(PIXELS, **{"model.outline": _outline("Conv2d", "BatchNorm2d", "ReLU")}))
    assert found.severity is Severity.INFO


def test_too_few_samples_leave_it_unsure_and_say_how_many_steps() -> None:
    run = a_run(batch__size=np.full(5, 20.0), facts={"data.input_stats": {**PIXELS, "n": 100}})
    outcome = rule.outcome(run)
    assert outcome.status is Status.UNSURE and outcome.needs_steps == 5


def test_the_limit_is_the_users() -> None:
    scale = {"mean": 0.0, "std": 10.0, "min": -40.0, "max": 40.0, "n": 2000}
    assert not list(rule.findings(_run(scale)))
    assert list(rule.findings(_run(scale), most=5.0))


@pytest.mark.parametrize(("end", "severity"), [(8.0, Severity.WARNING), (0.1, Severity.INFO)])
def test_a_fall_to_worse_than_the_mean_is_no_learning(end: float, severity: Severity) -> None:
    n = 300
    loss = end + 1700 * np.exp(-np.arange(n) / 20)
    facts = {"data.input_stats": {"mean": 0.0, "std": 1130.0, "min": -3e3, "max": 3e3, "n": 1000}, "loss.kind": "mse"}
    signals = {"loss/train": loss, "batch/label_std": np.ones(n), "batch/label_mean": np.zeros(n)}
    [found] = judged(rule, a_run(signals, facts=facts))
    assert found.severity is severity


def test_a_few_extreme_values_are_not_the_scale_of_the_inputs() -> None:
    few = {"batch/input_extreme": np.full(60, 1.0), "batch/size": np.full(60, 48.0)}
    coded = {"mean": -490.0, "std": 7000.0, "min": -99999.0, "max": 4.0, "n": 2000}
    run = a_run(few, facts={"data.input_stats": coded})
    assert rule.outcome(run).status is Status.FOUND
    assert rule.outcome(run.with_(facts={"data.usual_spread": 1.0})).status is Status.MUTED
    assert rule.outcome(run.with_(facts={"data.usual_spread": 300.0})).status is Status.FOUND  # ordinary ones are large too


def test_what_the_script_makes_of_a_batch_is_judged_and_not_the_batch() -> None:
    fine, features = {"mean": 0.0, "std": 0.9, "min": -2.0, "max": 2.0, "n": 2000}, {"std": [0.5, 900.0, 1.0]}
    told = {"data.given_stats": fine, "data.channel_stats": features}
    assert rule.outcome(_run(PIXELS, integral=True, **told)).status is Status.CLEAR
    [found] = rule.findings(_run(fine, **{"data.given_stats": PIXELS | {"max": 900.0}}))
    assert found.variant == "large"
