"""WIRE002: parameters that cannot learn."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire002_frozen_unexpected import frozen_unexpected as rule
from traindx.run import Event, Run, Series

SHAPES = {f"body.{i}.{part}": size for i in range(4) for part, size in (("weight", [8, 8]), ("bias", [8]))}
OWNERS = dict.fromkeys(SHAPES, "Linear")


def seen(frozen: list[str], modules: list[str] | None = None, **facts: object) -> Run:
    table = {
        "model.frozen": frozen,
        "model.frozen_modules": modules or [],
        "model.param_shapes": SHAPES,
        "model.param_module": OWNERS,
        "model.trainable": 100,
        **facts,
    }
    return a_run({"loss/train": [1.0, 1.0], "loop/eval_submodules": [0.0, 0.0]}, facts=table)


def test_everything_frozen_is_critical() -> None:
    [found] = rule.findings(seen(list(SHAPES), **{"model.trainable": 0}))
    assert found.severity is Severity.CRITICAL and found.variant == "nothing"


def test_half_a_layer_is_a_warning_that_names_it() -> None:
    [found] = rule.findings(seen(["body.2.weight"]))
    assert found.severity is Severity.WARNING and found.where == ("body.2.weight",)


def test_training_only_biases_is_a_way_of_training() -> None:
    [found] = rule.findings(seen([n for n in SHAPES if n.endswith("weight")]))
    assert found.severity is Severity.INFO


def test_the_limit_says_what_is_common() -> None:
    weights = ["body.0.weight", "body.1.weight"]
    assert next(rule.findings(seen(weights))).severity is Severity.WARNING
    assert next(rule.findings(seen(weights), common=0.4)).severity is Severity.INFO


def test_whole_modules_frozen_before_the_first_step_are_intent() -> None:
    frozen = ["body.0.weight", "body.0.bias"]
    [found] = rule.findings(seen(frozen, ["body.0"], finetune=True, frozen_by_intent=True))
    assert found.severity is Severity.INFO and found.variant == "intent" and found.where == ("body.0",)


def test_without_loaded_weights_it_says_that_they_stay_random() -> None:
    frozen = ["body.0.weight", "body.0.bias"]
    shapes = SHAPES | {"body.0.weight": [8, 3]}
    [found] = rule.findings(seen(frozen, ["body.0"], finetune=False, **{"model.param_shapes": shapes}))
    assert found.severity is Severity.INFO and found.variant == "scratch"


def test_a_frozen_copy_is_a_target_network() -> None:
    frozen = ["body.0.weight", "body.0.bias"]
    [found] = rule.findings(seen(frozen, ["body.0"], finetune=False))
    assert found.variant == "intent"


def test_a_fixed_table_of_positions_is_no_layer() -> None:
    [found] = rule.findings(seen(["pos"], **{"model.param_shapes": SHAPES | {"pos": [16, 8]}}))
    assert found.severity is Severity.INFO


def test_frozen_batchnorm_that_still_counts_is_mentioned() -> None:
    outline = [{"name": "body.0.bn", "class": "BatchNorm2d", "params": 0, "order": 1}]
    found = list(rule.findings(seen(["body.0.weight", "body.0.bias"], ["body.0"], finetune=True, **{"model.outline": outline})))
    assert [f.variant for f in found] == ["intent", "statistics"]
    assert all(f.severity is Severity.INFO for f in found)


def test_nothing_frozen_is_clear() -> None:
    assert rule.outcome(seen([])).status is Status.CLEAR


def test_frozen_after_training_began_is_a_warning_from_that_step_on() -> None:
    run = a_run(
        loss__train=[1.0] * 40, facts={"model.frozen": [], "model.frozen_later": {"body.0.weight": 14, "body.0.bias": 14}}
    )
    [found] = rule.findings(run)
    assert found.variant == "later" and found.severity is Severity.WARNING and found.steps == (14, 39)


def test_a_freeze_at_the_start_of_a_new_phase_is_intent() -> None:
    facts = {"model.frozen": [], "model.frozen_later": {"body.0.weight": 14}}
    loaded = a_run(loss__train=[1.0] * 40, facts=facts, events=[Event(14, "load", {"what": "model"})])
    assert next(rule.findings(loaded)).severity is Severity.INFO
    renewed = a_run(loss__train=[1.0] * 40, facts={**facts, "optimizer.fresh_at_step": 14})
    assert next(rule.findings(renewed)).severity is Severity.INFO


def test_parameters_that_never_had_a_gradient_were_not_frozen_later() -> None:
    facts = {"model.frozen": [], "model.frozen_later": {"new.weight": 30}}
    nan = float("nan")
    second = a_run({"grad_norm/param": {"old.weight": [1.0] * 40, "new.weight": [nan] * 40}}, facts=facts)
    assert next(rule.findings(second)).severity is Severity.INFO
    learned = a_run({"grad_norm/param": {"old.weight": [1.0] * 40, "new.weight": [1.0] * 30 + [nan] * 10}}, facts=facts)
    assert next(rule.findings(learned)).severity is Severity.WARNING


def test_a_freeze_noticed_some_looks_after_a_new_phase_is_intent_too() -> None:
    facts = {"model.frozen_later": {"a": 20}, "model.param_shapes": {"a": [4], "b": [4]}, "optimizer.fresh_at_step": 10}

    def looked(after: list[float]) -> Run:
        grads = {"a": [1.0 + i for i in range(10)] + after, "b": [1.0] * 40}
        return a_run({"grad_norm/param": grads, "loss/train": [1.0] * 40}, facts=facts)

    stale, learning = looked([7.0] * 30), looked([7.0 + i for i in range(30)])
    assert [f.severity for f in rule.findings(stale)] == [Severity.INFO]
    assert [f.severity for f in rule.findings(learning)] == [Severity.WARNING]


def test_random_values_that_the_optimizer_holds_and_that_keep_the_loss_high_were_meant_to_learn() -> None:
    frozen = [n for n in SHAPES if not n.startswith("body.3")]
    table = {
        "model.loaded": False,
        "finetune": False,
        "optimizer.groups": [{"params": len(SHAPES)}],
        "loss.kind": "ce",
        "loss.classes": 10,
    }
    modules = ["body.0", "body.1", "body.2"]
    stuck = seen(frozen, modules, **table).with_({"loss/train": Series(range(200), [1.9] * 200)})
    [found] = rule.findings(stuck)
    assert found.variant == "forgotten" and found.severity is Severity.WARNING and "83%" in found.message
    fits = stuck.with_({"loss/train": Series(range(200), [0.3] * 200)})  # random features that do
    left_out = stuck.with_(facts={"optimizer.groups": [{"params": 2}]})  # the optimizer was given the head only
    trained = stuck.with_(facts={"finetune": True})
    for run in (fits, left_out, trained):
        assert [f.severity for f in rule.findings(run)] == [Severity.INFO]
    at_chance = left_out.with_({"loss/train": Series(range(200), [2.29] * 200)})  # nothing was learned at all
    [found] = rule.findings(at_chance)
    assert found.variant == "forgotten" and found.severity is Severity.WARNING and "the optimizer holds" not in found.message
