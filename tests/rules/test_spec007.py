"""SPEC007: noise levels that do not learn."""

from __future__ import annotations

import numpy as np

from runs import a_run, learning, steady
from traindx.finding import Severity, Status
from traindx.rules.spec007_diffusion_schedule_fault import diffusion_schedule_fault as rule
from traindx.run import Run


def levels(**odd: np.ndarray) -> Run:
    bins = {f"b{i}": learning(300, 1.0 - 0.1 * i, 0.2 - 0.02 * i, 0.01, i) for i in range(8)}
    return a_run({"diffusion/loss/bin": bins | odd})


def test_names_the_level_that_stays_behind() -> None:
    [found] = (f for f in rule.findings(levels(b4=steady(300, 0.6, 0.01))) if f.variant == "")
    assert found.where == ("b4",) and found.severity is Severity.WARNING


def test_levels_that_all_learn_are_clear() -> None:
    assert rule.outcome(levels()).status is Status.CLEAR


def test_the_ends_have_little_to_learn() -> None:
    assert not [f for f in rule.findings(levels(b0=steady(300, 1.0, 0.01))) if f.variant == ""]


def test_the_limit() -> None:
    half = levels(b4=np.linspace(0.6, 0.45, 300))
    assert not [f for f in rule.findings(half) if f.variant == ""]
    assert [f for f in rule.findings(half, stuck=0.7) if f.variant == ""]


def test_disorder_is_info() -> None:
    rng = np.random.default_rng(3)
    bins = {f"b{i}": learning(300, 1.0, f, 0.01, i) for i, f in enumerate(rng.permutation(np.linspace(0.1, 0.5, 8)))}
    assert all(f.severity is Severity.INFO for f in rule.findings(a_run({"diffusion/loss/bin": bins})))
