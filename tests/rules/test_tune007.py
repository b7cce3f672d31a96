"""TUNE007: ids that do not fit."""

from __future__ import annotations

from typing import Any

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.tune007_tokenizer_or_template import tokenizer_or_template as rule
from traindx.run import Run


def _run(**token: Any) -> Run:
    base = {"vocab": 1000, "max_id": 999, "unk_share": 0.001, "double_bos": False}
    shapes = {"wte.weight": [1000, 64], "wpe.weight": [128, 64]}
    facts = {"data.token": {**base, **token}, "model.embeddings": ["wte.weight", "wpe.weight"], "model.param_shapes": shapes}
    return a_run(facts=facts)


def test_an_id_beyond_the_table_names_the_embedding() -> None:
    [found] = rule.findings(_run(max_id=1003))
    assert found.variant == "range" and found.severity is Severity.CRITICAL and found.where == ("wte.weight",)
    assert "1004" in found.fix


def test_unknown_tokens_and_a_doubled_beginning() -> None:
    run = _run(unk_share=0.08, double_bos=True)
    for tuned, severity in ((True, Severity.WARNING), (False, Severity.INFO)):
        found = list(rule.findings(run.with_(facts={"finetune": tuned})))
        assert [f.variant for f in found] == ["unknown", "double"]
        assert all(f.severity is severity for f in found)


def test_a_third_of_unknown_words_is_too_much_for_anybody() -> None:
    [found] = rule.findings(_run(unk_share=0.33))
    assert found.severity is Severity.WARNING


def test_a_look_up_that_ended_the_program_is_named() -> None:
    def died(**more: Any) -> Any:
        beyond = {"name": "tok", "rows": 64, "id": 66, "positions": False, **more}
        [found] = rule.findings(a_run(facts={"data.id_beyond": beyond}))
        return found

    assert died().variant == "range" and died().where == ("tok",) and "67 rows" in died().fix
    assert died(id=-100).variant == "negative" and "-100" in died(id=-100).message
    assert died(positions=True).variant == "long" and "67 positions" in died(positions=True).message


def test_a_fitting_tokenizer_is_clear() -> None:
    assert rule.outcome(_run()).status is Status.CLEAR
    assert list(rule.findings(_run(), unknown=0.0005))


def test_without_an_embedding_the_vocabulary_counts() -> None:
    run = a_run(facts={"data.token": {"vocab": 50, "max_id": 50}})
    assert rule.outcome(run).status is Status.FOUND


def test_one_id_that_fills_the_text_is_an_unknown_word() -> None:
    [found] = rule.findings(a_run(facts={"data.token": {"vocab": 60, "top_share": 0.7}, "loss.next_target_share": 1.0}))
    assert found.variant == "one-id" and found.severity is Severity.WARNING
    [events] = rule.findings(a_run(facts={"data.token": {"vocab": 60, "top_share": 0.7}, "loss.next_target_share": 0.1}))
    assert events.severity is Severity.INFO
    assert rule.outcome(a_run(facts={"data.token": {"vocab": 12, "top_share": 0.9}})).status is Status.CLEAR


def test_tokens_that_were_added_to_a_frozen_table_are_named() -> None:
    [found] = rule.findings(_run(added={"name": "wte", "ids": [1000, 1001], "ratio": 8.2}))
    assert found.variant == "added" and found.where == ("wte",) and "1000, 1001" in found.message
    assert found.severity is Severity.WARNING
