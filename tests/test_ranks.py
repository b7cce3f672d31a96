"""Looking across ranks."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from runs import a_run
from traindx import ranks
from traindx.finding import Blind, Muted
from traindx.run import Run

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


def test_ranks_that_run_dry_one_after_the_other_are_not_compared() -> None:
    signals = {"rank/params": {"0": [1.0, 2.0], "1": [1.0, 3.0]}, "rank/loss": {"0": [1.0, NAN], "1": [1.0, 2.0]}}
    joined = a_run(signals, facts={"distributed.joined": True})
    with pytest.raises(Muted, match="Join"):
        ranks.rows(joined, "rank/params")
    assert "not compared" in ranks.parting(joined)
    even = joined.with_(a_run({"rank/loss": {"0": [1.0, 2.0], "1": [1.0, 2.0]}}).signals)
    assert ranks.rows(even, "rank/params").equal.tolist() == [True, False]


def test_without_a_majority_all_stand_apart() -> None:
    assert ranks.apart(("0", "1"), np.array([1.0, 2.0])) == ("0", "1")
    assert ranks.number("rank3") == 3 and ranks.number("node-a") is None


def _pair(shift: float) -> tuple[Run, Run]:
    rng = np.random.default_rng(0)
    base = np.linspace(2.0, 1.0, 80) + 0.05 * rng.standard_normal(80)
    apart = np.where(np.arange(80) >= 40, shift, 0.0)
    many = a_run({"rank/loss": {"0": (base + 0.1 + apart).tolist(), "1": (base - 0.1 + apart).tolist()}})
    return many, a_run({"loss/train": base.tolist()})


def test_losses_of_the_same_batches_agree_or_part_at_a_step() -> None:
    assert ranks.separation(*_pair(0.0)) == (None, 80)
    assert ranks.separation(*_pair(2.0)) == (40, 80)


def test_it_is_said_whether_one_process_has_it_too() -> None:
    told = ranks.one_process(*_pair(0.0), [("LOSS001", "rises"), ("DIST001", "parted")], [("LOSS001", "rises")], 1)
    assert "LOSS001: yes, also there" in told[1] and "DIST001: no, only on all ranks" in told[2]
    assert "leaves the loss on one process at step 40" in ranks.one_process(*_pair(2.0), [], [], 1)[-1]
    assert "too few common steps" in ranks.one_process(a_run({}), a_run({}), [], [], 2)[-1]


def test_the_first_to_part_is_named_with_what_and_when() -> None:
    same, other = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 9.0, 9.0]
    run = a_run({"rank/params": {"0": same, "1": same, "2": other}, "rank/grads": {"0": same, "1": same, "2": same}})
    assert ranks.parted(run) == ("parameters", 2, ("2",))
    assert ranks.parted(a_run({"rank/params": {"0": same, "1": same}})) is None
    assert ranks.parted(a_run({})) is None


def test_ranks_are_shown_side_by_side_with_the_first_that_parted() -> None:
    same, other = [1.0, 2.0, 3.0], [1.0, 2.0, 9.0]
    run = a_run(
        {"rank/loss": {"0": [1.0, 2.0], "1": [3.0, 3.0]}, "rank/step_time": {"0": [0.01] * 3, "1": [9.0, 0.02, 0.02]}},
        facts={"ranks": {"0": {"ended": "closed"}, "1": {"ended": "killed"}, "2": {"ended": "killed"}}},
    )
    rows = ranks.table(run)
    assert [r["rank"] for r in rows] == ["0", "1", "2"]
    assert (
        rows[0]["loss"] == "1.5\u00a0±\u00a00.5" and rows[1]["median own ms"] == "20\u00a0±\u00a00" and rows[2]["loss"] == "–"
    )
    assert (rows[1]["last"], rows[2]["last"], rows[2]["ended"]) == (2, None, "killed")
    assert ranks.parting(run) == "their parameters were not compared"
    drifted = a_run({"rank/params": {"0": same, "1": same, "2": other}})
    assert ranks.parting(drifted) == "the parameters of rank 2 differ from the others from step 2 on"
    assert ranks.parting(a_run({"rank/params": {"0": same, "1": same}})) == "their parameters agree"
    assert "different parts" in ranks.parting(a_run({}, facts={"distributed": "fsdp2"}))
    assert ranks.table(a_run({"loss/train": [1.0, 2.0]})) == []


def test_among_many_ranks_those_that_parted_come_first() -> None:
    many = {str(i): [1.0, 2.0 + (i == 30)] for i in range(40)}
    assert [r["rank"] for r in ranks.table(a_run({"rank/params": many, "rank/loss": many}))][:3] == ["30", "0", "1"]
