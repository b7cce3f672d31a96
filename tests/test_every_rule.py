"""What every rule promises."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from each import each
from runs import a_run
from traindx import signals
from traindx.finding import Status
from traindx.rule import FAMILIES, Rule, _alternatives, catalogue
from traindx.run import Matrix, Run, Series

RULES = list(catalogue().values())
every_rule = each(RULES, lambda r: r.code)
SECTIONS = ("## What it sees", "## Why it matters", "## What else looks like this", "## What to do")


@every_rule
def test_has_a_page_with_all_sections(rule: Rule) -> None:
    missing = [s for s in SECTIONS if s not in rule.page]
    assert not missing, f"{rule.code}: the module docstring lacks {missing}"
    assert rule.summary.endswith("."), "the first line says what the condition is, as a sentence"


@every_rule
def test_lives_in_a_file_named_after_it(rule: Rule) -> None:
    module = rule.look.__module__.rsplit(".", 1)[1]
    assert module == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
    assert re.fullmatch(r"[A-Z]{4}\d{3}", rule.code) and rule.family in FAMILIES


@every_rule
def test_has_a_test_file(rule: Rule) -> None:
    here = Path(__file__).parent / "rules"
    assert list(here.glob(f"test_{rule.code.lower()}*.py")), f"write tests/rules/test_{rule.code.lower()}.py"


@every_rule
def test_is_built_on_signals_that_exist(rule: Rule) -> None:
    for need in rule.needs:
        for name in _alternatives(need):
            if name.startswith("fact:"):
                assert name[5:] in signals.FACTS, f"{rule.code} needs the unknown fact {name[5:]}"
            elif name.startswith("event:"):
                assert name[6:] in signals.EVENTS, f"{rule.code} needs the unknown event {name[6:]}"
            else:
                assert name in signals.SIGNALS, f"{rule.code} needs the unknown signal {name}"


@every_rule
def test_explains_only_rules_that_exist(rule: Rule) -> None:
    assert set(rule.explains) <= set(catalogue()), f"{rule.code} explains unknown {set(rule.explains) - set(catalogue())}"


def _filled(rule: Rule, values: np.ndarray) -> Run:
    table: dict[str, Series | Matrix] = {}
    for need in rule.needs:
        for name in _alternatives(need):
            if name.startswith(("fact:", "event:")):
                continue
            spec = signals.SIGNALS[name]
            name = name.replace("/*", "/thing")
            steps = np.arange(len(values))
            if spec.per == "step":
                table[name] = Series(steps, values)
            else:
                table[name] = Matrix(steps, ("a", "b"), np.column_stack([values, values]))
    return Run(table)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf, -1.0, 1e30], ids=str)
def test_never_breaks(value: float) -> None:
    outcomes = {(r.code, n): r.outcome(_filled(r, np.full(n, value))) for r in RULES for n in (1, 3, 60, 1200)}
    assert not {key: o.reason for key, o in outcomes.items() if o.status is Status.BROKEN}


@every_rule
def test_never_breaks_on_a_mixture(rule: Rule) -> None:
    values = np.random.default_rng(0).normal(size=1500)
    values[::7] = np.nan
    values[3::11] = np.inf
    outcome = rule.outcome(_filled(rule, values))
    assert outcome.status is not Status.BROKEN, outcome.reason


@every_rule
def test_on_an_empty_run_it_is_blind_not_clear(rule: Rule) -> None:
    outcome = rule.outcome(a_run())
    assert outcome.status in (Status.BLIND, Status.MUTED), f"{rule.code} said {outcome.status} about nothing"


@every_rule
def test_limits_carry_defaults_that_work(rule: Rule) -> None:
    rule.outcome(a_run(), **rule.settings)
