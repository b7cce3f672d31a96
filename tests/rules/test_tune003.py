"""TUNE003: padding that is learned."""

from __future__ import annotations

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.tune003_padding_in_loss import padding_in_loss as rule


def test_says_how_much_of_the_targets_is_padding() -> None:
    [found] = rule.findings(a_run(facts={"data.pad_label_share": 0.45, "data.token": {"pad_id": 0}}))
    assert found.severity is Severity.WARNING and "45%" in found.message and "ignore_index=0" in found.fix


def test_a_trace_is_clear() -> None:
    assert rule.outcome(a_run(facts={"data.pad_label_share": 0.002})).status is Status.CLEAR
    assert list(rule.findings(a_run(facts={"data.pad_label_share": 0.002}), most=0.001))


def test_the_one_end_of_every_text_may_share_the_id() -> None:
    facts = {"data.pad_label_share": 0.02, "data.token": {"pad_id": 2, "eos_id": 2}}
    assert rule.outcome(a_run({"batch/length": np.full(30, 60.0)}, facts=facts)).status is Status.CLEAR
    assert list(rule.findings(a_run({"batch/length": np.full(30, 60.0)}, facts={**facts, "data.pad_label_share": 0.4})))


def test_tags_are_no_tokens() -> None:
    facts = {"data.pad_label_share": 0.39, "data.token": {"pad_id": 0, "vocab": 201}}
    assert rule.outcome(a_run(facts={**facts, "loss.classes": 5})).status is Status.CLEAR
    assert list(rule.findings(a_run(facts={**facts, "loss.classes": 5}), alike=0.0))
    assert list(rule.findings(a_run(facts={**facts, "loss.classes": 204})))


def test_a_guessed_padding_id_is_believed_where_it_fills_the_targets() -> None:
    for share, severity in ((0.05, Severity.INFO), (0.6, Severity.WARNING)):
        facts = {"data.pad_label_share": share, "data.token": {"pad_id": 0, "pad_stated": False}}
        assert [f.severity for f in rule.findings(a_run(facts=facts))] == [severity]


def test_tags_at_the_padding_of_the_input_count() -> None:
    facts = {
        "data.pad_position_share": 0.65,
        "data.pad_label_share": 0.65,
        "data.token": {"pad_id": 0, "vocab": 80},
        "loss.classes": 6,
    }
    [found] = rule.findings(a_run(facts=facts))
    assert found.severity is Severity.WARNING and "65%" in found.message and "-100" in found.fix
    assert rule.outcome(a_run(facts={**facts, "data.pad_position_share": 0.0})).status is Status.CLEAR
    assert rule.outcome(a_run(facts={**facts, "loss.reduction": "none"})).status is Status.BLIND  # a mask may be multiplied in


def test_a_prompt_among_the_labels_is_a_remark() -> None:
    [found] = rule.findings(a_run(facts={"data.prompt_share": 0.6, "data.pad_label_share": 0.0}))
    assert found.severity is Severity.INFO and found.variant == "prompt" and "60%" in found.message
    assert rule.outcome(a_run(facts={"data.prompt_share": 0.1})).status is Status.CLEAR
