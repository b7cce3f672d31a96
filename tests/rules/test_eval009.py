"""EVAL009: evaluation in the wrong mode."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.eval009_eval_mode_or_grad import eval_mode_or_grad as rule
from traindx.run import Event, Run, Series


def _run(*layers: str, **signals: Any) -> Run:
    outline = [{"name": f"m{i}", "class": k, "params": 1, "order": i} for i, k in enumerate(layers)]
    table = {f"eval/{name}": np.full(4, value) for name, value in signals.items()}
    return a_run(table, steps=[10, 20, 30, 40], facts={"model.outline": outline} if layers else {})


def test_training_mode_with_dropout_names_the_layers() -> None:
    [found] = rule.findings(_run("Linear", "Dropout", train_mode=1.0, grad_enabled=0.0))
    assert found.variant == "mode" and found.severity is Severity.WARNING and found.confidence is Confidence.EXACT
    assert found.where == ("Dropout",) and found.steps == (10, 40) and "4 of 4" in found.message


def test_without_such_layers_it_is_a_remark() -> None:
    [found] = rule.findings(_run("Linear", "ReLU", train_mode=1.0))
    assert found.variant == "harmless" and found.severity is Severity.INFO


def test_of_several_models_only_one_with_such_a_layer_minds() -> None:
    run = _run("Linear", "Dropout", train_mode=1.0)
    baseline = run.with_(signals={"eval/minds_mode": Series([10, 20], np.zeros(2))})
    [found] = rule.findings(baseline)
    assert found.steps == (30, 40) and "2 of 4" in found.message
    all_four = run.with_(signals={"eval/minds_mode": Series([10, 20, 30, 40], np.zeros(4))})
    assert rule.outcome(all_four).status is Status.CLEAR


def test_an_unseen_model_is_given_the_warning() -> None:
    [found] = rule.findings(_run(train_mode=1.0))
    assert found.variant == "mode"


def test_a_model_of_one_layer_is_known_though_its_outline_is_empty() -> None:
    for kind, variant in (("Linear", "harmless"), ("BatchNorm1d", "mode")):
        run = _run(train_mode=1.0).with_(facts={"model.outline": [], "model.class": kind})
        assert [f.variant for f in rule.findings(run)] == [variant]


def test_changed_statistics_are_critical_and_said_once() -> None:
    [found] = rule.findings(_run("BatchNorm1d", train_mode=1.0, buffers_changed=1.0))
    assert found.variant == "buffers" and found.severity is Severity.CRITICAL


def test_graphs_nobody_needs_are_a_warning() -> None:
    [found] = rule.findings(_run("Linear", train_mode=0.0, grad_enabled=1.0))
    assert found.variant == "grad" and found.severity is Severity.WARNING


def test_a_proper_evaluation_is_clear() -> None:
    run = _run("Linear", "Dropout", "BatchNorm2d", train_mode=0.0, grad_enabled=0.0, buffers_changed=0.0)
    assert rule.outcome(run).status is Status.CLEAR


def test_a_stray_forward_in_training_mode_is_below_the_limit() -> None:
    run = _run("Dropout", train_mode=0.1)
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, share=0.05))


def test_a_dropout_of_zero_minds_no_mode() -> None:
    rows = [{"name": "drop", "class": "Dropout", "params": 0, "order": 0, "inert": True}]
    [found] = rule.findings(a_run({"eval/train_mode": np.ones(4)}, facts={"model.outline": rows}))
    assert found.variant == "harmless" and found.severity is Severity.INFO


def test_dropout_without_training_stays_on_in_evaluation() -> None:
    event = Event(40, "eval_dropout", {"p": 0.5, "site": "net.py:9"})

    def run(step: int) -> Run:
        return a_run({"eval/train_mode": [0.0, 0.0]}, events=[event, Event(step, "evaluation", {"samples": 10})])

    [found] = rule.findings(run(40))
    assert found.variant == "dropout" and found.where == ("net.py:9",) and found.severity is Severity.WARNING
    assert not list(rule.findings(run(300)))  # not in an evaluation: a teacher, a sampler
