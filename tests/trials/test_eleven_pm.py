"""The 11 PM scenario: validation has not moved for two hours, for eleven different reasons."""

from __future__ import annotations

import pytest
from clinic import eleven
from clinic.case import Case, written

VARIANTS = list(written("eleven_pm"))


@pytest.mark.slow
@pytest.mark.parametrize("case", VARIANTS, ids=lambda c: c.name)
def test_the_investigation_ends_with_the_right_verdict(case: Case) -> None:
    found = eleven.look_into(case)
    assert found["right"], found
    assert found["cpu_s"] < eleven.ALLOWED_S, found


def test_there_are_eleven_and_each_says_what_an_investigation_should_end_with() -> None:
    assert len(VARIANTS) == 11 and all(c.investigated for c in VARIANTS)


def test_the_table_counts_what_is_wrong() -> None:
    rows = [
        {"case": "saddle", "verdict": "restart", "right": True, "trials": ["sharpness"], "cpu_s": 21.4},
        {"case": "noise_floor", "verdict": "wait", "right": False, "trials": [], "cpu_s": 9.0},
        {"case": "torn", "error": "x", "right": False, "cpu_s": 1.0},
    ]
    text = eleven.page(rows)
    assert "1 of 3" in text and "| noise floor | wrong: wait | none needed | 9 s |" in text and "wrong: failed" in text
