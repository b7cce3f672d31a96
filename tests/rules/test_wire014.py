"""WIRE014: layers that no optimizer knows or no forward calls."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire014_unused_or_unregistered import unused_or_unregistered as rule
from traindx.run import Run

SHAPES = {"a.weight": [10, 10], "b.weight": [10, 10], "tiny.weight": [1]}


def seen(grads: dict[str, list[float]] | None = None, **facts: object) -> Run:
    table = {"model.param_shapes": SHAPES, "finetune": False, "model.never_called": [], **facts}
    return a_run({"grad_norm/param": grads} if grads else {"loss/train": [1.0]}, facts=table)


def test_modules_in_a_plain_list_are_named() -> None:
    layers = {"self.blocks": {"class": "Linear", "count": 4, "params": 400, "in_optimizer": False}}
    [found] = rule.findings(seen(**{"model.unregistered": layers}))
    assert found.severity is Severity.CRITICAL and found.where == ("self.blocks",)


def test_a_teacher_tucked_away_and_layers_an_optimizer_has_are_a_choice() -> None:
    layers = {
        "self._teacher": {"class": "ResNet", "count": 1, "params": 9, "in_optimizer": False},
        "self.heads": {"class": "Linear", "count": 3, "params": 9, "in_optimizer": True},
    }
    [found] = rule.findings(seen(**{"model.unregistered": layers}))
    assert found.severity is Severity.INFO


def test_a_layer_that_is_never_called_is_a_warning() -> None:
    [found] = rule.findings(seen(**{"model.never_called": ["b"]}))
    assert found.severity is Severity.WARNING and found.where == ("b",) and "49.8%" in found.message


def test_what_is_small_is_mentioned_and_the_limit_decides() -> None:
    run = seen(**{"model.never_called": ["tiny"]})
    assert next(rule.findings(run)).severity is Severity.INFO
    assert next(rule.findings(run, worth=0.001)).severity is Severity.WARNING


def test_a_layer_whose_weight_is_used_without_calling_it_is_in_use() -> None:
    run = seen({"a.weight": [1.0], "b.weight": [0.5]}, **{"model.never_called": ["b"]})
    assert rule.outcome(run).status is Status.CLEAR


def test_unused_heads_of_pretrained_models_are_info() -> None:
    [found] = rule.findings(seen(**{"model.never_called": ["b"], "finetune": True}))
    assert found.severity is Severity.INFO


def test_experts_that_were_not_chosen_have_sisters_that_were() -> None:
    outline = [{"name": f"experts.{i}", "class": "FFN", "params": 9, "order": 1 if i else None} for i in range(4)]
    shapes = {f"experts.{i}.weight": [3, 3] for i in range(4)}
    facts = {"model.never_called": ["experts.0"], "model.outline": outline, "model.param_shapes": shapes}
    [found] = rule.findings(seen(**facts))
    assert found.severity is Severity.INFO and found.variant == "experts"


def test_layers_inside_an_expert_are_part_of_it() -> None:
    outline = [{"name": f"experts.{i}", "class": "Sequential", "params": 9, "order": 1 if i == 3 else None} for i in range(4)]
    outline += [{"name": f"experts.{i}.0", "class": "Linear", "params": 9, "order": 2 if i == 3 else None} for i in range(4)]
    shapes = {f"experts.{i}.0.weight": [3, 3] for i in range(4)}
    facts = {"model.never_called": ["experts.0.0", "experts.1.0"], "model.outline": outline, "model.param_shapes": shapes}
    assert next(rule.findings(seen(**facts))).variant == "experts"


def test_linear_pairs_are_info_and_adapters_are_not_mentioned() -> None:
    facts = {"model.linear_pairs": [["a", "b"], ["lora.A", "lora.B"]], "model.adapters": ["lora.A.weight", "lora.B.weight"]}
    [found] = rule.findings(seen(**facts))
    assert found.variant == "linear" and found.where == ("a", "b") and found.severity is Severity.INFO
