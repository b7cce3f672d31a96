"""Runs in a line, for tests: `a_run(grad_norm={"w": steady(), "b": leap})`."""

from __future__ import annotations

from typing import Any

import numpy as np

from traindx import course
from traindx.diagnosis.severity import capped
from traindx.finding import Finding
from traindx.rule import Rule
from traindx.run import Event, Run


def a_run(
    signals: dict[str, Any] | None = None,
    *,
    steps: Any = None,
    facts: dict[str, Any] | None = None,
    events: list[Event] | None = None,
    **named: Any,
) -> Run:
    """A run from plain lists; keyword names use `__` for `/`: `loss__train=[...]`."""
    table = dict(signals or {})
    table.update({name.replace("__", "/"): value for name, value in named.items()})
    return Run.of(table, steps=steps, facts=facts, events=events or ())


def noise(n: int, sd: float = 1.0, seed: int = 0, ar: float = 0.0) -> np.ndarray:
    """AR(1) noise with stationary deviation `sd`."""
    rng = np.random.default_rng(seed)
    e = rng.normal(size=n)
    out = np.empty(n)
    out[0] = e[0]
    for i in range(1, n):
        out[i] = ar * out[i - 1] + np.sqrt(1 - ar * ar) * e[i]
    return sd * out


def learning(n: int = 1000, start: float = 2.3, floor: float = 0.3, sd: float = 0.05, seed: int = 0) -> np.ndarray:
    """A healthy loss curve: a power law towards a floor, with sampling noise."""
    t = np.arange(n)
    return floor + (start - floor) * (1 + t / 20) ** -0.7 + noise(n, sd, seed)


def steady(n: int = 400, level: float = 1.0, sd: float = 0.05, seed: int = 0) -> np.ndarray:
    return level * (1 + noise(n, sd, seed))


def judged(rule: Rule, run: Run, **limits: Any) -> list[Finding]:
    """What a rule finds, as loud as the table of severities lets it be in this run."""
    return list(capped([rule.outcome(run, **limits)], course.learned(run))[0].findings)
