"""WIRE005: training forwards in eval mode."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire005_wrong_mode_training import wrong_mode_training as rule
from traindx.run import Event, Run


def seen(mode: object, *layers: str, **facts: object) -> Run:
    outline = [{"name": f"m{i}", "class": c, "params": 1, "order": i} for i, c in enumerate(layers)]
    return a_run({"loop/eval_mode": mode}, facts={"model.outline": outline, **facts} if layers else facts)


def test_left_over_from_an_evaluation_with_batchnorm_is_critical() -> None:
    [found] = rule.findings(seen([0] * 20 + [1] * 30, "Conv2d", "BatchNorm2d"))
    assert found.severity is Severity.CRITICAL and found.variant == "leftover"
    assert found.steps == (20, 49)


def test_with_dropout_only_it_is_a_warning() -> None:
    [found] = rule.findings(seen([1] * 10, "Linear", "Dropout"))
    assert found.severity is Severity.WARNING and "dropout is off" in found.message


def test_without_either_it_changes_nothing() -> None:
    [found] = rule.findings(seen([1] * 10, "Linear", "ReLU"))
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(("finetune", "severity"), [(True, Severity.WARNING), (False, Severity.CRITICAL)])
def test_from_the_first_step_it_depends_on_where_the_weights_came_from(finetune: bool, severity: Severity) -> None:
    [found] = rule.findings(seen([1] * 10, "BatchNorm1d", finetune=finetune))
    assert found.severity is severity


def test_a_head_on_a_frozen_body_may_train_in_eval_mode() -> None:
    body = {"finetune": True, "model.frozen_modules": ["m0", "m1"]}
    [found] = rule.findings(seen([1] * 10, "BatchNorm2d", "Dropout", "Linear", **body))
    assert found.severity is Severity.INFO and "in what is trained" in found.message
    [found] = rule.findings(seen([1] * 10, "BatchNorm2d", "Dropout", "Dropout", **body))
    assert found.severity is Severity.WARNING


def test_four_steps_are_a_look_between_epochs_and_the_limit_decides() -> None:
    run = seen([0] * 20 + [1] * 4 + [0] * 20, "BatchNorm1d")
    assert rule.outcome(run).status is Status.CLEAR
    assert list(rule.findings(run, least=4))


def test_frozen_norm_layers_from_the_first_step_are_intent() -> None:
    run = a_run({"loop/eval_mode": np.zeros(50), "loop/eval_submodules": np.full(50, 53.0)})
    assert rule.outcome(run).status is Status.CLEAR


def test_a_part_that_falls_asleep_and_stays_so_is_named() -> None:
    asleep = [0.0] * 20 + [2.0] * 30
    run = a_run(
        {"loop/eval_mode": np.zeros(50), "loop/eval_submodules": asleep}, facts={"model.eval_in_training": ["encoder.bn"]}
    )
    [found] = rule.findings(run)
    assert found.where == ("encoder.bn",) and found.steps == (20, 49) and found.severity is Severity.WARNING


def test_a_frozen_part_of_a_second_training_may_sleep() -> None:
    signals = {"loop/eval_mode": np.zeros(50), "loop/eval_submodules": [0.0] * 20 + [2.0] * 30}
    asleep = {"model.eval_in_training": ["backbone.1"]}
    assert not list(rule.findings(a_run(signals, facts=asleep, events=[Event(20, "retrained", {})])))
    assert not list(rule.findings(a_run(signals, facts=asleep | {"model.frozen_modules": ["backbone"]})))
