"""TUNE002: batches without a label."""

from __future__ import annotations

import numpy as np

from runs import a_run, learning
from traindx.finding import Confidence, Severity, Status
from traindx.rules.tune002_labels_all_masked import labels_all_masked as rule
from traindx.run import Event


def _valid(*empty: int) -> np.ndarray:
    share = np.full(100, 0.4)
    share[list(empty)] = 0
    return share


def test_one_empty_batch_is_a_warning_with_its_step() -> None:
    [found] = rule.findings(a_run({"batch/valid_targets": _valid(40), "loss/train": learning(100)}))
    assert found.severity is Severity.WARNING and found.steps == (40, 40) and found.confidence is Confidence.EXACT


def test_many_empty_batches_are_critical() -> None:
    [found] = rule.findings(a_run({"batch/valid_targets": _valid(*range(0, 100, 10))}))
    assert found.severity is Severity.CRITICAL


def test_no_label_at_all_is_critical() -> None:
    [found] = rule.findings(a_run({"batch/valid_targets": np.zeros(20)}))
    assert found.variant == "all" and found.severity is Severity.CRITICAL


def test_a_run_that_ended_in_nan_over_it_is_critical() -> None:
    loss = learning(100)
    loss[40:] = np.nan
    [found] = rule.findings(a_run({"loss/train": loss}, events=[Event(40, "empty_targets", {"count": 1})]))
    assert found.severity is Severity.CRITICAL and found.steps == (40, 40)


def test_almost_nothing_counts() -> None:
    [found] = rule.findings(a_run({"batch/valid_targets": np.full(50, 0.004)}))
    assert found.variant == "sparse" and found.severity is Severity.WARNING


def test_masked_language_models_are_clear() -> None:
    run = a_run({"batch/valid_targets": np.full(50, 0.15)})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, valid=0.2))


def test_sequences_without_a_label_are_counted_too() -> None:
    def seen(empty: int, rows: int = 60, padded: bool = True) -> list[object]:
        told = {"rows": rows, "empty": empty, "padded": padded}
        return [f.severity for f in rule.findings(a_run(facts={"data.empty_rows": told}))]

    assert seen(20) == [Severity.WARNING]
    assert seen(20, padded=False) == [Severity.INFO]  # blocks may lie within one prompt
    assert not seen(2) and not seen(3) and not seen(4, rows=12)
    [found] = rule.findings(a_run(facts={"data.empty_rows": {"rows": 60, "empty": 20, "padded": True}}))
    assert "33%" in found.message and found.variant == "rows"
