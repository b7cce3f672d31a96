"""Odd but healthy curves stay quiet under every rule of this part; sick ones are found by the rules they belong to."""

from __future__ import annotations

import pytest

import zoo
from traindx.finding import Severity, Status
from traindx.rule import catalogue

RULES = {code: rule for code, rule in catalogue().items() if code[:4] in ("LOSS", "GRAD", "OPTM")}


@pytest.mark.parametrize("name", list(zoo.HEALTHY))
def test_nothing_above_info_is_said_about_a_healthy_run(name: str) -> None:
    run = zoo.HEALTHY[name]()
    outcomes = [rule.outcome(run) for rule in RULES.values()]
    assert not [o.reason for o in outcomes if o.status is Status.BROKEN]
    assert not [f.message for o in outcomes for f in o.findings if f.severity > Severity.INFO]


@pytest.mark.parametrize("name", list(zoo.SICK))
def test_a_sick_run_is_found(name: str) -> None:
    run = zoo.SICK[name]()
    for code in zoo.SICK_CODES[name]:
        outcome = RULES[code].outcome(run)
        assert outcome.status is Status.FOUND, f"{code}: {outcome.status} {outcome.reason}"
