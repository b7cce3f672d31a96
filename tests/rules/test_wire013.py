"""WIRE013: a sequence model sees what it is to predict."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.wire013_mask_or_shift_leak import mask_or_shift_leak as rule
from traindx.run import Run


def model(floor: float, val: float | None = None, **facts: object) -> Run:
    signals: dict[str, object] = {"loss/train": floor + 4.0 * np.exp(-np.arange(400) / 30)}
    table = {"loss.kind": "ce", "loss.classes": 60, "loss.site": "lm.py:40", **facts}
    run = a_run(signals, facts=table)
    return run.with_({"loss/val": a_run(x=np.full(10, val)).series("x")}) if val is not None else run


def test_predicting_its_own_input() -> None:
    [found] = rule.findings(model(0.001, **{"loss.self_target_share": 1.0}))
    assert found.variant == "own-input" and found.severity is Severity.CRITICAL and found.where == ("lm.py:40",)


def test_an_autoencoder_that_has_something_left_to_learn_is_left_alone() -> None:
    run = model(1.5, **{"loss.self_target_share": 1.0})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, low=0.9))


def test_a_causal_model_that_is_asked_for_its_own_input_is_told_before_it_has_learned_to_copy() -> None:
    masks = {"none": 0, "causal": 6, "masked": 0, "open": 0}
    own = {"loss.self_target_share": 1.0, "model.attention_masks": masks}
    [found] = rule.findings(model(1.5, **own))
    assert found.variant == "own-causal" and found.severity is Severity.CRITICAL and found.where == ("lm.py:40",)
    constant = {**own, "loss.next_target_share": 1.0}  # sequences of one and the same token
    denoising = {**own, "loss.self_target_share": 0.85}
    encoder = {**own, "model.attention_masks": {**masks, "none": 6}}
    for other in (constant, denoising, encoder):
        assert not list(rule.findings(model(1.5, **other)))


def test_labels_shifted_twice() -> None:
    [found] = rule.findings(model(1.5, **{"loss.second_target_share": 1.0, "loss.next_target_share": 0.1}))
    assert found.variant == "twice" and found.severity is Severity.WARNING and found.where == ("lm.py:40",)


def test_text_of_period_one_is_shifted_once_all_the_same() -> None:
    masks = {"none": 0, "causal": 6, "masked": 0}
    shares = {"loss.second_target_share": 1.0, "loss.next_target_share": 1.0, "model.attention_masks": masks}
    assert not list(rule.findings(model(1.5, **shares)))


def test_next_token_prediction_without_any_mask() -> None:
    facts = {"loss.next_target_share": 1.0, "model.attention_masks": {"none": 80, "causal": 0, "masked": 0}}
    [found] = rule.findings(model(1.5, **facts))
    assert found.variant == "unmasked" and "80" in found.message


def test_a_mask_that_is_off_by_one_shows_the_future() -> None:
    masks = {"none": 0, "causal": 0, "masked": 0, "open": 6, "ahead": 1}
    [found] = rule.findings(model(1.5, **{"loss.next_target_share": 1.0, "model.attention_masks": masks}))
    assert found.variant == "open" and "diagonal is off by 1" in found.message and found.severity is Severity.CRITICAL
    padding = {"none": 0, "causal": 0, "masked": 0, "open": 6}
    [found] = rule.findings(model(1.5, **{"loss.next_target_share": 1.0, "model.attention_masks": padding}))
    assert "something else" in found.message
    beside = {**padding, "causal": 6}  # an encoder with padding masks, and a causal decoder
    assert not list(rule.findings(model(1.5, **{"loss.next_target_share": 1.0, "model.attention_masks": beside})))


def test_an_encoder_beside_a_masked_decoder_is_fine() -> None:
    facts = {"loss.next_target_share": 1.0, "model.attention_masks": {"none": 40, "causal": 40}}
    assert not list(rule.findings(model(1.5, **facts)))


def test_masked_language_models_do_not_predict_the_next_token() -> None:
    facts = {"loss.next_target_share": 0.02, "model.attention_masks": {"none": 40}}
    assert not list(rule.findings(model(1.5, **facts)))


def test_losses_too_good_for_natural_text_are_only_asked_about() -> None:
    [found] = rule.findings(model(0.005, val=0.02, **{"loss.next_target_share": 1.0}))
    assert found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO


def test_memorising_shows_in_validation() -> None:
    assert not list(rule.findings(model(0.005, val=3.0, **{"loss.next_target_share": 1.0})))


def test_unseen_masks_leave_it_blind() -> None:
    assert rule.outcome(model(1.5, **{"loss.next_target_share": 1.0})).status is Status.BLIND


def test_a_measured_leak_is_a_fact() -> None:
    [found] = rule.findings(model(1.5, **{"trial.future_leak": {"ratio": 0.3}}))
    assert found.variant == "future" and found.confidence is Confidence.EXACT
    assert not list(rule.findings(model(1.5, **{"trial.future_leak": {"ratio": 0.0}})))


def test_an_autoencoder_that_sums_up_may_say_what_it_was_told() -> None:
    [found] = rule.findings(model(0.001, **{"loss.self_target_share": 1.0, "model.condensed": True}))
    assert found.variant == "own-input" and found.severity is Severity.INFO
    two = {"model.recurrent": {"both_ways": 0, "all": 2}}
    assert next(rule.findings(model(0.001, **{"loss.self_target_share": 1.0, **two}))).severity is Severity.INFO


def test_a_decoder_that_is_shown_its_target() -> None:
    shown = {"loss.self_target_share": 1.0, "loss.next_target_share": 0.1, "loss.beside_source": True}
    [found] = rule.findings(model(1.5, **shown))
    assert found.variant == "own-target" and found.severity is Severity.CRITICAL
    shifted = {"loss.self_target_share": 0.1, "loss.next_target_share": 1.0, "loss.beside_source": True}
    assert rule.outcome(model(1.5, **shifted)).status is Status.BLIND


def test_a_language_model_that_reads_both_ways() -> None:
    both = {"loss.next_target_share": 1.0, "model.recurrent": {"both_ways": 1, "all": 1}}
    [found] = rule.findings(model(1.5, **both))
    assert found.variant == "both-ways" and found.severity is Severity.CRITICAL
    mixed = {"loss.next_target_share": 1.0, "model.recurrent": {"both_ways": 1, "all": 2}}  # an encoder beside a decoder
    assert rule.outcome(model(1.5, **mixed)).status is Status.BLIND
