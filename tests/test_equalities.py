"""Equalities in messages are true: each is worked out again."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from runs import a_run
from traindx.rule import catalogue
from traindx.stats import floor_match, integer_chance

LN = re.compile(r"ln\(?(?:e \+ )?(\d+)(?: − 1\))? = ([\d.]+)")


@pytest.mark.parametrize("classes", [3, 10, 12, 1000])
@pytest.mark.parametrize("noise", [0.001, 0.02, 0.3])
def test_the_logarithm_in_a_message_is_that_of_its_number(classes: int, noise: float) -> None:
    curve = math.log(classes) + np.random.default_rng(0).normal(0, noise, 400)
    for finding in catalogue()["LOSS011"].outcome(a_run(loss__train=curve)).findings:
        for number, value in LN.findall(finding.message):
            true = math.log(int(number) + (math.e - 1 if "ln(e" in finding.message else 0))
            assert float(value) == pytest.approx(true, abs=6e-4), finding.message


def test_a_quiet_curve_at_chance_has_such_a_message() -> None:
    curve = math.log(10) + np.random.default_rng(0).normal(0, 0.001, 400)
    [finding] = catalogue()["LOSS011"].outcome(a_run(loss__train=curve)).findings
    assert "ln 10 = 2.303" in finding.message


def test_no_message_sets_two_measured_numbers_equal() -> None:
    both = re.compile(r"\{\w+(:[^}]*)?\} = (\{|ln)")
    assert not [
        (c, s) for c, r in catalogue().items() for s in r.says.values() if both.search(re.sub(r"ln \{classes[^}]*\}", "ln", s))
    ]


def test_a_noisy_level_does_not_match_a_number_far_away() -> None:
    assert floor_match(3.266, 1.0, {"uniform": math.log(12)}) == []
    assert integer_chance(3.266, 1.0) is None
