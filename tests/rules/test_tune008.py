"""TUNE008: fine-tuning without the pretrained weights."""

from __future__ import annotations

from typing import Any

from runs import a_run, learning
from traindx.finding import Confidence, Severity, Status
from traindx.rules.tune008_pretrained_not_loaded import pretrained_not_loaded as rule
from traindx.run import Event, Run

LM = {"loss.kind": "ce", "loss.classes": 50257, "data.token": {"vocab": 50257}}


def _run(first: float, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    return a_run(loss__train=learning(100, start=first, floor=2.0), facts={**LM, **named})


def test_a_first_loss_at_ln_v_says_so() -> None:
    [found] = rule.findings(_run(10.8, model__loaded={"missing": [], "unexpected": [], "unloaded_share": 0.0}))
    assert found.severity is Severity.CRITICAL and found.confidence is Confidence.STRONG and "ln 50257" in found.message


def test_keys_that_did_not_fit_are_exact() -> None:
    loaded = {"missing": ["h.0.attn.weight"], "unexpected": ["module.h.0.attn.weight"], "unloaded_share": 0.97}
    [found] = rule.findings(_run(3.0, model__loaded=loaded))
    assert found.variant == "keys" and found.confidence is Confidence.EXACT and "h.0.attn.weight" in found.message


def test_loaded_weights_that_were_overwritten_are_named_unless_it_is_a_head() -> None:
    lost = {"share": 0.97, "names": ["encoder.0.weight"]}
    [found] = rule.findings(_run(3.0, model__overwritten=lost, finetune=True))
    assert found.variant == "overwritten" and found.severity is Severity.WARNING and found.where == ("encoder.0.weight",)
    assert rule.outcome(_run(3.0, model__overwritten={**lost, "share": 0.2}, finetune=True)).status is Status.CLEAR


def test_loaded_weights_begin_low() -> None:
    assert rule.outcome(_run(3.1, finetune=True)).status is Status.CLEAR
    assert list(rule.findings(_run(3.1, finetune=True), share=0.2))


def test_a_fresh_classification_head_begins_at_ln_c() -> None:
    facts = {"loss.kind": "ce", "loss.classes": 10, "model.loaded": {"unloaded_share": 0.01}, "data.token": {"vocab": 30000}}
    assert rule.outcome(a_run(loss__train=learning(100, start=2.3), facts=facts)).status is Status.CLEAR


def test_training_from_scratch_is_not_judged() -> None:
    assert rule.outcome(_run(10.8, finetune=False)).status is Status.MUTED


def test_a_load_in_mid_run_that_fits_nothing_is_seen_too() -> None:
    shapes = {"a.weight": [8, 8], "a.bias": [8]}
    event = Event(
        200, "load", {"what": "model", "missing": ["a.weight", "a.bias"], "unexpected": ["module.a.weight", "module.a.bias"]}
    )
    [found] = rule.findings(a_run(loss__train=learning(100), facts={"model.param_shapes": shapes}, events=[event]))
    assert found.variant == "keys" and found.facts["share"] == 1.0
    fits = Event(200, "load", {"what": "model", "missing": [], "unexpected": []})
    assert (
        rule.outcome(a_run(loss__train=learning(100), facts={"model.param_shapes": shapes}, events=[fits])).status
        is Status.CLEAR
    )
    head = Event(0, "load", {"what": "model", "missing": ["a.weight"], "unexpected": []})
    assert (
        rule.outcome(a_run(loss__train=learning(100), facts={"model.param_shapes": shapes}, events=[head])).status
        is Status.CLEAR
    )


def test_weights_that_were_read_and_left_lying() -> None:
    facts = {"model.read_unused": {"share": 1.0, "names": ["embed.weight"]}, "finetune": False}
    [found] = rule.findings(a_run(facts=facts))
    assert found.variant == "unread" and found.severity is Severity.WARNING and "embed.weight" in found.message
