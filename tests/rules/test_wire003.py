"""WIRE003: no path from the loss back to a part of the model."""

from __future__ import annotations

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.wire003_detached_graph import detached_graph as rule
from traindx.run import Event, Run

SHAPES = {"encoder.weight": [50, 20], "encoder.bias": [50], "head.weight": [10, 50], "head.bias": [10]}
NAN = float("nan")


def seen(unreachable: list[str], grads: dict[str, list[float]] | None = None, **facts: object) -> Run:
    table = {"model.unreachable": unreachable, "model.param_shapes": SHAPES, **facts}
    signals: dict[str, object] = {"loss/train": [1.0, 1.0]}
    if grads:
        signals["grad_norm/param"] = grads
    return a_run(signals, facts=table)


def test_names_the_part_that_is_cut_off_and_where() -> None:
    [found] = rule.findings(seen(["encoder.bias", "encoder.weight"], **{"model.boundary": "encoder"}))
    assert found.severity is Severity.CRITICAL
    assert found.where == ("encoder.weight", "encoder.bias")
    assert "cut after encoder" in found.message


def test_a_loss_without_a_graph() -> None:
    run = a_run(events=[Event(0, "detached_loss", {"site": "train.py:20", "count": 1})])
    [found] = rule.findings(run)
    assert found.variant == "loss" and found.where == ("train.py:20",)


def test_a_small_part_is_a_warning_and_the_limit_decides() -> None:
    assert next(rule.findings(seen(["head.bias"]))).severity is Severity.WARNING
    assert next(rule.findings(seen(["head.bias"]), critical_share=0.001)).severity is Severity.CRITICAL


def test_one_gradient_in_the_record_clears_a_branch_used_now_and_then() -> None:
    grads = {"encoder.weight": [NAN, 0.3], "encoder.bias": [NAN, 0.1], "head.weight": [1.0, 1.0]}
    assert rule.outcome(seen(["encoder.weight", "encoder.bias"], grads)).status is Status.CLEAR


def test_modules_that_are_never_called_belong_to_another_rule() -> None:
    assert not list(rule.findings(seen(["encoder.weight"], **{"model.never_called": ["encoder"]})))


def test_a_teacher_that_mirrors_a_student_is_info() -> None:
    twin = {f"teacher.{n}": s for n, s in SHAPES.items()}
    [found] = rule.findings(seen(list(twin), **{"model.param_shapes": SHAPES | twin}))
    assert found.severity is Severity.INFO and found.variant == "copy"
