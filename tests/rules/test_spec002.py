"""SPEC002: fakes that are all alike."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.spec002_gan_mode_collapse import gan_mode_collapse as rule
from traindx.run import Run


def fakes(values: np.ndarray) -> Run:
    return a_run(gan__fake_diversity=values, steps=np.arange(len(values)) * 50)


def test_says_how_little_they_differ() -> None:
    [found] = rule.findings(fakes(np.r_[steady(20, 0.9), steady(20, 0.05)]))
    assert found.severity is Severity.WARNING and found.steps == (1000, 1950)


def test_an_untrained_generator_varies_little() -> None:
    assert rule.outcome(fakes(np.r_[steady(8, 0.02), steady(30, 0.8)])).status is Status.CLEAR


def test_the_limit() -> None:
    assert not list(rule.findings(fakes(steady(40, 0.4))))
    assert list(rule.findings(fakes(steady(40, 0.4)), least=0.6))


def test_fakes_that_once_differed_are_not_waited_for() -> None:
    few = a_run(gan__fake_diversity=[0.3, 0.9, 0.05, 0.1, 0.06], steps=np.array([1, 40, 150, 220, 320]))
    assert [f.severity for f in rule.findings(few)] == [Severity.WARNING]
    young = a_run(gan__fake_diversity=[0.05, 0.06, 0.05, 0.1, 0.06], steps=np.array([1, 40, 150, 220, 320]))
    assert not list(rule.findings(young))


def test_fakes_that_never_differed_are_told_sooner() -> None:
    looks = np.array([1, 40, 80, 160, 320])
    assert [f.steps for f in rule.findings(a_run(gan__fake_diversity=[0.001, 0.004, 0.007, 0.002, 0.005], steps=looks))] == [
        (1, 320)
    ]
    assert not list(rule.findings(a_run(gan__fake_diversity=[0.04, 0.04, 0.05, 0.04, 0.05], steps=looks)))
    assert not list(rule.findings(a_run(gan__fake_diversity=[0.001] * 5, steps=looks // 2)))
