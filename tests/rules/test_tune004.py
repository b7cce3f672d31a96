"""TUNE004: the end that is never learned."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.tune004_eos_never_learned import eos_never_learned as rule


def test_says_that_padding_took_the_end_with_it() -> None:
    facts = {"data.eos_share": 0.0, "finetune": True, "data.token": {"pad_id": 2, "eos_id": 2}}
    [found] = rule.findings(a_run(facts=facts))
    assert found.severity is Severity.WARNING and "same id" in found.message and "id 2" in found.fix


def test_most_texts_end_properly() -> None:
    run = a_run(facts={"data.eos_share": 0.8, "finetune": True})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, least=0.9))


def test_pretraining_on_a_stream_is_not_judged() -> None:
    assert rule.outcome(a_run(facts={"data.eos_share": 0.0, "finetune": False})).status is Status.MUTED


def test_padded_sequences_without_a_common_end_are_a_remark_outside_fine_tuning() -> None:
    facts = {"data.eos_share": 0.1, "finetune": False, "data.token": {"pad_id": 1, "eos_id": None}}
    [found] = rule.findings(a_run(facts=facts))
    assert found.severity is Severity.INFO and found.variant == "none" and "id 1" in found.message
    [tuned] = rule.findings(a_run(facts=facts | {"finetune": True}))
    assert tuned.severity is Severity.WARNING


def test_an_end_that_is_given_or_stated_and_not_asked_for_is_a_mistake_anywhere() -> None:
    def severity(**token: object) -> Severity:
        facts = {"data.eos_share": 0.0, "finetune": False, "data.token": {"pad_id": 0, "eos_id": 2, **token}}
        [found] = rule.findings(a_run(facts=facts))
        return found.severity

    assert severity() is Severity.INFO
    assert severity(eos_given=1.0) is Severity.WARNING
    assert severity(eos_named=True) is Severity.WARNING
