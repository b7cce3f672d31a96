"""SPEC005: tokens all go to a few experts."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.spec005_moe_router_collapse import moe_router_collapse as rule
from traindx.run import Run


def router(*loads: float, n: int = 60) -> Run:
    return a_run({"expert_load/expert": {f"moe/{i}": steady(n, v, 0.01, i) for i, v in enumerate(loads)}})


def test_names_the_idle_experts() -> None:
    [found] = rule.findings(router(0.97, 0.01, 0.01, 0.001, 0.001, 0.001, 0.003, 0.004))
    assert found.severity is Severity.WARNING and "moe/3" in found.where and found.facts["router"] == "moe"


def test_experts_that_specialise_are_fine() -> None:
    assert rule.outcome(router(0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05)).status is Status.CLEAR


def test_two_experts_are_judged_by_entropy_and_the_limit_decides() -> None:
    assert list(rule.findings(router(0.99, 0.01)))
    assert not list(rule.findings(router(0.8, 0.2)))
    assert list(rule.findings(router(0.8, 0.2), entropy=0.9))


def test_heads_of_tasks_that_follow_each_other_are_no_router() -> None:
    heads = {f"heads.{i}": np.where(np.arange(100) // 25 == i, 1.0, 0.0) for i in range(4)}
    assert rule.outcome(a_run({"expert_load/expert": heads})).status is Status.CLEAR
    one = {f"heads.{i}": np.full(100, float(i == 1)) for i in range(4)}
    assert list(rule.findings(a_run({"expert_load/expert": one})))


def test_the_first_steps_do_not_count() -> None:
    early = {f"moe/{i}": np.r_[np.full(20, float(i == 0)), np.full(80, 0.25)] for i in range(4)}
    assert not list(rule.findings(a_run({"expert_load/expert": early})))


def test_routers_are_judged_one_by_one() -> None:
    loads = {"a/0": np.full(40, 0.5), "a/1": np.full(40, 0.5), "b/0": np.full(40, 1.0), "b/1": np.zeros(40)}
    [found] = rule.findings(a_run({"expert_load/expert": loads}))
    assert found.facts["router"] == "b" and found.where == ("b/1",)


def listed(called: int, of: int = 8) -> Run:
    outline = [{"name": f"experts.{i}", "class": "FFN", "params": 9, "order": 1 if i < called else None} for i in range(of)]
    idle = [f"experts.{i}" for i in range(called, of)]
    return a_run(loss__train=[1.0], facts={"model.outline": outline, "model.never_called": idle})


def test_without_loads_modules_that_are_never_called_tell() -> None:
    [found] = rule.findings(listed(1))
    assert found.variant == "idle" and "only 1 of 8" in found.message and len(found.where) == 7


def test_a_stack_with_one_forgotten_layer_is_no_router() -> None:
    assert rule.outcome(listed(7)).status is Status.CLEAR
    assert rule.outcome(listed(8)).status is Status.BLIND  # all are called: nothing routes here
