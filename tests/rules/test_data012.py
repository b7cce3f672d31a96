"""DATA012: the pipeline serves the same again and again."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.data012_pipeline_stuck import pipeline_stuck as rule
from traindx.run import Event, Run, Series

LOADER = {"dataset": "Digits", "length": 40, "sampler": "SequentialSampler", "batch_size": 32}


def _run(repeat: Any = None, fetched: int | None = None, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    if fetched is not None:
        named["data.fetched"] = {"batches": fetched, "iterators": fetched}
    return a_run({} if repeat is None else {"batch/repeat": repeat}, facts={"data.loader": LOADER, **named})


ALL = np.r_[0.0, np.ones(99)]


def test_the_first_batch_of_a_new_iterator_each_step_is_critical() -> None:
    [found] = rule.findings(_run(ALL, fetched=100))
    assert found.variant == "repeat" and found.severity is Severity.CRITICAL
    assert found.where == ("Digits",) and found.steps == (0, 99) and "100 times" in found.message


def test_a_batch_held_on_purpose_is_a_remark() -> None:
    run = _run(ALL, fetched=1)
    [found] = rule.findings(run)
    assert found.variant == "kept" and found.severity is Severity.INFO
    judged = run.with_(a_run({"loss/val": [1.0, 0.9]}).signals)
    [found] = rule.findings(judged)
    assert found.severity is Severity.WARNING, "who tests on one batch does not evaluate on others"
    [found] = rule.findings(judged.with_(facts={"data.same_set": True}))
    assert found.severity is Severity.INFO


def test_stuck_in_the_middle_is_a_warning() -> None:
    repeat = np.zeros(100)
    repeat[40:50] = 1
    [found] = rule.findings(_run(repeat, fetched=100))
    assert found.severity is Severity.WARNING and found.steps == (39, 49)


def test_two_equal_batches_are_chance() -> None:
    repeat = np.zeros(100)
    repeat[40] = 1
    assert rule.outcome(_run(repeat, fetched=100)).status is Status.CLEAR
    assert list(rule.findings(_run(repeat, fetched=100), least=2))


def test_full_batch_training_is_quiet() -> None:
    assert rule.outcome(_run(ALL, fetched=100, data__loader={**LOADER, "length": 1})).status is Status.CLEAR
    assert rule.outcome(_run(ALL, data__steps_per_epoch=1)).status is Status.CLEAR
    assert rule.outcome(a_run({"batch/repeat": ALL})).status is Status.CLEAR  # plain tensors, no loader


def test_fingerprints_do_as_well() -> None:
    [found] = rule.findings(
        a_run({"batch/fingerprint": np.full(100, 77.0)}, facts={"data.loader": LOADER, "data.fetched": {"batches": 100}})
    )
    assert found.variant == "repeat"


def test_constant_inputs_are_critical() -> None:
    [found] = rule.findings(a_run({"batch/input_std": np.zeros(10)}))
    assert found.variant == "constant" and found.severity is Severity.CRITICAL
    assert rule.outcome(a_run({"batch/input_std": np.r_[np.zeros(9), 0.1]})).status is Status.CLEAR


def test_a_subset_is_a_remark_and_replacement_is_quiet() -> None:
    [found] = rule.findings(_run(data__unique_share=0.6))
    assert found.variant == "subset" and found.severity is Severity.INFO
    for loader in ({**LOADER, "sampler": "WeightedRandomSampler"}, {**LOADER, "sampler": "RandomSampler", "replacement": True}):
        assert rule.outcome(_run(data__unique_share=0.63, data__loader=loader)).status is Status.CLEAR
    assert rule.outcome(_run(data__unique_share=0.6, data__duplicate_share=0.4)).status is Status.CLEAR


def test_a_single_sample_before_batchnorm() -> None:
    run = a_run({"batch/repeat": np.zeros(9)}, events=[Event(44, "batch_size_one", {"count": 3})])
    [found] = rule.findings(run)
    assert found.variant == "single" and found.facts["count"] == 3 and found.steps == (44, 44)


def test_an_iterator_made_anew_at_every_step_is_no_epoch_of_one_step() -> None:
    epochs = [Event(i, "epoch") for i in range(100)]
    loader = {"length": 30, "dataset": "TensorDataset"}
    run = _run(np.r_[0.0, np.ones(99)], fetched=100, data__loader=loader).with_(events=epochs)
    assert [f.variant for f in rule.findings(run)] == ["repeat"]


def test_the_same_state_met_twice_by_a_rollout_is_no_repeated_batch() -> None:
    same = {"batch/repeat": [0.0, 1, 1, 0, 0, 1, 0, 0], "loop/backwards": np.ones(8)}
    assert list(rule.findings(a_run({**same, "loop/forwards": np.ones(8)})))
    assert rule.outcome(a_run({**same, "loop/forwards": np.full(8, 40.0)})).status is Status.CLEAR
    assert rule.outcome(a_run({**same, "loop/forwards": np.ones(8)}, facts={"rl": True})).status is Status.MUTED


def test_a_full_batch_training_beside_another_in_one_program() -> None:
    same = Series([*range(2, 25), *range(62, 71)], np.r_[np.ones(23), np.zeros(9)])
    run = a_run({"loss/train": np.ones(480)}, facts={"optimizer.steps": [60, 420]}).with_(signals={"batch/repeat": same})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run.with_(facts={"optimizer.steps": [480]})))  # one training: the batches do differ later


def test_the_same_batch_an_epoch_later_is_no_repeat() -> None:
    prints = Series(np.arange(0, 880, 88), np.full(10, 7.0))
    run = a_run(facts={"data.loader": LOADER}).with_(signals={"batch/fingerprint": prints})
    assert rule.outcome(run).status is Status.CLEAR


def test_an_iterator_that_ran_dry_and_was_asked_again() -> None:
    def asked(count: int) -> Run:
        return a_run({"batch/repeat": np.zeros(40)}, events=[Event(39, "loader_dry", {"count": count})])

    [found] = rule.findings(asked(9))
    assert found.variant == "dry" and found.steps == (39, 39) and "9 times" in found.message
    assert not list(rule.findings(asked(1)))


def test_one_input_for_every_target() -> None:
    facts = {"data.seen": {"train": 1, "val": 1}, "data.class_counts": {str(c): 140 for c in range(10)}}
    [found] = rule.findings(a_run(facts=facts))
    assert found.variant == "alike" and found.severity is Severity.CRITICAL
    assert not list(rule.findings(a_run(facts={**facts, "data.seen": {"train": 2}})))
    assert not list(rule.findings(a_run(facts={**facts, "data.class_counts": {"0": 1400}})))


def test_inputs_that_stay_while_their_labels_change_are_a_buffer_filled_again() -> None:
    positives = np.random.default_rng(0).integers(8, 24, 40).astype(float)
    signals = {"batch/repeat": np.ones(40), "batch/labels/class": {"0": 32 - positives, "1": positives}}
    [found] = rule.findings(a_run(signals, facts={"data.steps_per_epoch": 1}))
    assert found.variant == "refilled" and found.severity is Severity.CRITICAL and "41 times" in found.message
    kept = {"batch/repeat": np.ones(40), "batch/labels/class": {"0": np.full(40, 12.0), "1": np.full(40, 20.0)}}
    assert not list(rule.findings(a_run(kept, facts={"data.steps_per_epoch": 1})))


def test_a_sampler_that_knows_two_samples_is_told_from_ordinary_draws_with_replacement() -> None:
    loader = {"sampler": "WeightedRandomSampler", "replacement": True, "samples": 2000, "length": 40}
    facts = {"data.loader": loader, "data.unique_share": 0.001, "data.seen": {"train": 2, "val": 500}}
    signals = {"batch/repeat": np.zeros(40), "eval/samples": Series(np.arange(0, 40, 10), np.full(4, 500.0))}
    [found] = rule.findings(a_run(signals, facts=facts))
    assert found.variant == "few" and found.severity is Severity.CRITICAL and "2 of the 2000" in found.message
    partly = {k: v for k, v in facts.items() if k != "data.unique_share"}
    [found] = rule.findings(a_run(signals, facts={**partly, "data.drawn": 900}))
    assert found.variant == "few"
    assert not list(rule.findings(a_run(signals, facts={**partly, "data.drawn": 100})))  # too few to tell
    usual = {**facts, "data.unique_share": 0.4, "data.seen": {"train": 1200, "val": 500}}
    assert not list(rule.findings(a_run(signals, facts=usual)))
    answers = {**facts, "data.seen": {"train": 2, "val": 2}}  # equal answers, not the same sample
    assert not list(rule.findings(a_run(signals, facts=answers)))
