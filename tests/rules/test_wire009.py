"""WIRE009: samples of a batch influence each other."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire009_batch_mixing import batch_mixing as rule
from traindx.run import Run


def test_a_measured_dependency_names_the_module() -> None:
    [found] = rule.findings(a_run(facts={"trial.batch_mixing": {"ratio": 0.098, "module": "head"}}))
    assert found.severity is Severity.CRITICAL and found.where == ("head",) and "0.098" in found.message


def test_rounding_is_no_dependency_and_the_limit_decides() -> None:
    run = a_run(facts={"trial.batch_mixing": {"ratio": 1e-8}})
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, ratio=1e-9))


def test_softmax_over_the_batch_is_seen_in_passing() -> None:
    [found] = rule.findings(a_run(facts={"loss.column_probabilities": True, "loss.site": "m.py:4"}))
    assert found.variant == "softmax" and found.where == ("m.py:4",)


def test_routers_with_capacity_mix_by_design() -> None:
    run = a_run({"expert_load/expert": {"r.0": [0.5], "r.1": [0.5]}}, facts={"trial.batch_mixing": {"ratio": 0.1}})
    [found] = rule.findings(run)
    assert found.severity is Severity.INFO


def test_without_a_measurement_it_is_blind() -> None:
    assert rule.outcome(a_run(loss__train=[1.0])).status is Status.BLIND


def test_a_log_softmax_over_the_batch_is_seen_by_its_axis() -> None:
    head = {"kind": "log_softmax", "range": [None, 0.0], "dim": 0}
    [found] = rule.findings(a_run(facts={"model.head_activation": head, "loss.input_shape": [32, 10]}))
    assert found.variant == "softmax"
    right = {"model.head_activation": {**head, "dim": 1}, "loss.input_shape": [32, 10]}
    assert rule.outcome(a_run(facts=right)).status is Status.BLIND


def test_a_softmax_over_the_batch_inside_the_model_is_named() -> None:
    [found] = rule.findings(a_run(facts={"model.batch_softmax": ["attention"], "loss.kind": "ce"}))
    assert found.variant == "inside" and found.where == ("attention",) and found.severity is Severity.CRITICAL


def test_contrastive_losses_compare_samples_by_design() -> None:
    run = a_run(facts={"model.batch_softmax": ["similarity"], "loss.kind": "contrastive", "trial.batch_mixing": {"ratio": 0.0}})
    assert rule.outcome(run).status is Status.CLEAR


def test_a_recurrent_layer_that_takes_samples_for_time() -> None:
    def given(sizes: list[int], target: list[int]) -> list[str]:
        found = rule.findings(a_run(facts={"model.time_first": {"rnn": sizes}, "loss.target_shape": target, **trial}))
        return [f.variant for f in found]

    trial = {"trial.batch_mixing": {"ratio": 0.0}}
    assert given([40, 18], [40]) == ["time"] and given([40, 18], [40, 1]) == ["time"]
    assert given([18, 40], [40]) == []  # as it should be
    assert given([40, 40], [40]) == []  # cannot be told
    assert given([500, 1], [500]) == []  # one long sequence with a target per step
    assert given([18, 40], [18, 40]) == []  # a target per step and sample
    [found] = rule.findings(a_run(facts={"model.time_first": {"rnn": [40, 18]}, "loss.target_shape": [40]}))
    assert found.where == ("rnn",) and "40 samples of 18 steps" in found.message and "batch_first=True" in found.fix


def test_a_view_that_swaps_axes_is_named_with_its_shapes() -> None:
    def run(old: list[int], new: list[int]) -> Run:
        return a_run(facts={"model.scrambled": {"rnn": {"from": old, "to": new}}})

    [mixed] = rule.findings(run([10, 50, 8], [50, 10, 8]))
    assert mixed.variant == "scrambled" and mixed.where == ("rnn",) and mixed.severity is Severity.CRITICAL
    assert "50 × 10 × 8" in mixed.message
    [image] = rule.findings(run([50, 12, 12, 3], [50, 3, 12, 12]))
    assert image.severity is Severity.WARNING
