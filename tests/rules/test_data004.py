"""DATA004: labels that have nothing to do with the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run, noise
from traindx.finding import Confidence, Severity, Status
from traindx.rules.data004_labels_uninformative import labels_uninformative as rule
from traindx.run import Run, Series

EMPTY = {"n": 2000, "features": 64, "kind": "class", "score": 0.101, "null_mean": 0.100, "null_sd": 0.006, "permutations": 19}
TELLING = {**EMPTY, "score": 0.45}
BALANCED = {str(c): 100 for c in range(10)}
CE = {"loss.kind": "ce", "loss.classes": 10, "data.class_counts": BALANCED}


def _run(val: float, train: float = 0.2, loss: float = 2.30, **facts: Any) -> Run:
    named = {k.replace("__", "."): v for k, v in facts.items()}
    signals = {
        "loss/train": loss + noise(400, 0.02),
        "accuracy/train": np.linspace(0.1, train, 400),
        "accuracy/val": Series(np.arange(50, 401, 50), val + noise(8, 0.005)),
    }
    return a_run(signals, facts={**CE, "data.val_class_counts": BALANCED, **named})


def test_an_empty_probe_and_failure_on_new_data_is_a_warning() -> None:
    [found] = rule.findings(_run(0.10, data__label_probe=EMPTY))
    assert found.severity is Severity.WARNING and found.confidence is Confidence.STRONG
    assert "0.101; shuffled labels give 0.100" in found.message and "chance is 0.1" in found.message


def test_a_telling_probe_is_clear() -> None:
    assert rule.outcome(_run(0.10, data__label_probe=TELLING)).status is Status.CLEAR


def test_success_on_new_data_proves_the_labels() -> None:
    assert rule.outcome(_run(0.6, data__label_probe=EMPTY)).status is Status.CLEAR


def test_a_probe_on_few_samples_says_nothing() -> None:
    assert rule.outcome(_run(0.10, data__label_probe={**EMPTY, "n": 200})).status is Status.CLEAR


def test_a_short_run_is_unsure() -> None:
    outcome = rule.outcome(_run(0.10, data__label_probe=EMPTY).between(hi=60))
    assert outcome.status is Status.UNSURE


def test_trial_and_probe_together_are_critical() -> None:
    [found] = rule.findings(_run(0.10, data__label_probe=EMPTY, trial__label_info={"z": 0.3}))
    assert found.severity is Severity.CRITICAL


def test_the_trial_alone_may_be_a_parity_task() -> None:
    [found] = rule.findings(_run(0.10, trial__label_info={"z": -0.4}))
    assert found.confidence is Confidence.SUGGESTIVE and found.severity is Severity.INFO


def test_an_informative_trial_is_clear() -> None:
    assert rule.outcome(_run(0.10, trial__label_info={"z": 13.0})).status is Status.CLEAR


def test_a_shift_by_rows_is_named() -> None:
    [found] = rule.findings(_run(0.10, trial__label_info={"z": 0.2, "offset": -1, "offset_z": 14.0}))
    assert found.variant == "offset" and "-1 rows" in found.message


def test_memorising_without_a_probe_is_a_hypothesis() -> None:
    [found] = rule.findings(_run(0.10, train=0.9))
    assert found.variant == "memorised" and found.confidence is Confidence.SUGGESTIVE


def test_chance_level_without_a_probe_is_unsure_not_clear() -> None:
    assert rule.outcome(_run(0.10)).status is Status.UNSURE


def test_the_loss_at_the_entropy_of_the_labels_counts_as_failure() -> None:
    run = a_run(loss__train=2.3026 + noise(400, 0.01), facts={**CE, "data.label_probe": EMPTY})
    assert rule.outcome(run).status is Status.FOUND
    falling = a_run(loss__train=2.3 - np.linspace(0, 2, 400), facts={**CE, "data.label_probe": EMPTY})
    assert rule.outcome(falling).status is Status.UNSURE


def test_the_limit_is_the_users() -> None:
    weak = {**EMPTY, "score": EMPTY["null_mean"] + 4 * EMPTY["null_sd"]}
    assert not list(rule.findings(_run(0.10, data__label_probe=weak)))
    assert list(rule.findings(_run(0.10, data__label_probe=weak), z=5.0))


def test_lopsided_classes_leave_a_probe_without_power() -> None:
    lopsided = {"data.class_counts": {"0": 950, "1": 50}, "data.val_class_counts": {"0": 950, "1": 50}}
    flat = {**EMPTY, "score": 0.95, "null_mean": 0.95, "null_sd": 1e-16}
    run = _run(0.95, data__label_probe=flat).with_(facts=lopsided)
    assert rule.outcome(run).status is Status.UNSURE


def test_one_lucky_evaluation_is_no_skill() -> None:
    run = _run(0.10, data__label_probe=EMPTY)
    val = run.series("accuracy/val")
    lucky = run.with_({"accuracy/val": Series(val.steps, np.r_[0.4, val.values[1:]])})
    lasting = run.with_({"accuracy/val": Series(val.steps, np.r_[[0.4] * 3, val.values[3:]])})
    assert [f.severity for f in rule.findings(lucky)] == [Severity.WARNING]
    assert not list(rule.findings(lasting))


def test_labels_that_change_from_pass_to_pass_are_shuffled_apart() -> None:
    [found] = rule.findings(_run(0.10, data__conflicts=160, data__met_again=180))
    assert found.variant == "apart" and found.severity is Severity.CRITICAL and "160 of 180 repeated inputs" in found.message


def test_labels_that_mostly_stay_or_are_learned_all_the_same_are_not() -> None:
    assert not list(rule.findings(_run(0.10, data__conflicts=60, data__met_again=180, data__label_probe=TELLING)))
    assert not list(rule.findings(_run(0.6, data__conflicts=160, data__met_again=180)))  # two tasks on one input
    assert not list(rule.findings(_run(0.10, data__conflicts=18, data__met_again=20, data__label_probe=TELLING)))  # too few


def test_lucky_evaluations_of_a_restless_guess_are_no_skill() -> None:
    restless = np.array([0.25, 0.22, 0.09, 0.11, 0.06, 0.1, 0.12, 0.08] * 3)
    run = _run(0.10, data__label_probe=EMPTY).with_({"accuracy/val": Series(np.arange(24) * 16, restless)})
    assert [f.severity for f in rule.findings(run)] == [Severity.WARNING]


def test_texts_must_be_learned_by_heart_before_their_labels_are_blamed() -> None:
    words = {"data__token": {"vocab": 500}}
    assert rule.outcome(_run(0.1, **words, data__label_probe=EMPTY)).status is Status.UNSURE
    [found] = rule.findings(_run(0.1, loss=0.6, **words, data__label_probe=EMPTY))
    assert found.severity is Severity.WARNING


def test_validation_that_never_beats_an_untrained_network_is_a_hypothesis() -> None:
    train = np.linspace(1.39, 1.0, 400) + noise(400, 0.03)
    val = Series(np.arange(20, 401, 20), np.r_[np.full(10, 1.385), np.linspace(1.385, 1.5, 10)])
    [found] = rule.findings(a_run({"loss/train": train, "loss/val": val}))
    assert found.variant == "nothing" and found.severity is Severity.INFO
    honest = Series(val.steps, np.r_[np.linspace(1.35, 1.2, 10), np.linspace(1.2, 1.5, 10)])  # it learned, then overfits
    assert rule.outcome(a_run({"loss/train": train, "loss/val": honest})).status is Status.CLEAR
    flat = 1.39 + noise(400, 0.03)
    assert rule.outcome(a_run({"loss/train": flat, "loss/val": val})).status is Status.CLEAR
