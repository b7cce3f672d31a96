"""REPR004: worse than before, or luck?"""

from __future__ import annotations

from typing import Any

from runs import a_run
from traindx.finding import Severity, Status
from traindx.rules.repr004_regression_or_seed_luck import regression_or_seed_luck as rule
from traindx.run import Run


def _run(**more: Any) -> Run:
    base = {"signal": "loss/val", "step": 400, "sigma": 5.2, "windows": 4, "reference": "runs/old", "seeds": 3}
    return a_run(facts={"compare.separation": {**base, **more}})


def test_names_the_step_and_the_reference() -> None:
    [found] = rule.findings(_run())
    assert found.steps == (400, 400) and found.where == ("loss/val",) and "runs/old" in found.message
    assert found.severity is Severity.WARNING


def test_with_fewer_seeds_it_is_a_remark() -> None:
    [found] = rule.findings(_run(seeds=1))
    assert found.severity is Severity.INFO and "own noise" in found.message


def test_within_the_spread_or_for_a_moment_only_is_clear() -> None:
    assert rule.outcome(_run(sigma=2.0)).status is Status.CLEAR
    assert rule.outcome(_run(windows=1)).status is Status.CLEAR
    assert list(rule.findings(_run(sigma=2.0), sigma=1.5))
