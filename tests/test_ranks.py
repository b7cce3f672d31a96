"""Looking across ranks."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from runs import a_run
from traindx import ranks
from traindx.finding import Blind, Muted

NAN = float("nan")


def test_the_examples_hold() -> None:
    assert doctest.testmod(ranks).failed == 0


def test_only_records_of_two_ranks_count() -> None:
    seen = ranks.rows(a_run({"rank/params": {"0": [1.0, 2.0, 3.0], "1": [1.0, NAN, 4.0]}}), "rank/params")
    assert seen.steps.tolist() == [0, 2] and seen.equal.tolist() == [True, False]


def test_says_why_it_cannot_look() -> None:
    with pytest.raises(Muted):
        ranks.rows(a_run(facts={"world_size": 1}), "rank/params")
    with pytest.raises(Blind):
        ranks.rows(a_run(facts={"world_size": 4}), "rank/params")
    with pytest.raises(Muted):
        ranks.rows(
            a_run({"rank/params": {"0": [1.0], "1": [2.0]}}, facts={"distributed": "fsdp"}), "rank/params", sharded=False
        )


def test_without_a_majority_all_stand_apart() -> None:
    assert ranks.apart(("0", "1"), np.array([1.0, 2.0])) == ("0", "1")
    assert ranks.number("rank3") == 3 and ranks.number("node-a") is None
