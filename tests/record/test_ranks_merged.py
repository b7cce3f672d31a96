"""Ranks side by side: what any of them found out is kept, with its rank."""

from __future__ import annotations

import numpy as np

from traindx.record.ranks import merge_ranks, own_time
from traindx.run import Event, Matrix, Run, Series


def _rank(ended: str, events: tuple[Event, ...] = (), steps: int = 10, **facts: object) -> Run:
    series = Series(np.arange(steps), np.linspace(1.0, 0.5, steps))
    return Run({"loss/train": series, "time/step": series}, {"world_size": 2, "ended": ended, **facts}, events)


def test_events_of_other_ranks_are_kept_with_their_rank() -> None:
    nan = Event(4, "nonfinite", {"what": "loss", "count": 1})
    merged = merge_ranks({0: _rank("closed"), 1: _rank("closed", (nan, Event(1, "mode", {})))})
    assert [(e.kind, e.data.get("rank")) for e in merged.events] == [("nonfinite", 1)]


def test_the_origin_comes_from_the_rank_whose_loss_broke_first() -> None:
    grad, loss = Event(4, "nonfinite", {"what": "grad"}), Event(4, "nonfinite", {"what": "loss"})
    merged = merge_ranks(
        {0: _rank("closed", (grad,), origin={"op": "far"}), 1: _rank("closed", (loss,), origin={"op": "near"})}
    )
    assert merged.fact("origin") == {"op": "near"}


def test_a_rank_that_went_without_a_word_is_lost_when_another_could_speak() -> None:
    assert [e.data["rank"] for e in merge_ranks({0: _rank("exception"), 1: _rank("killed")}).events_of("rank_lost")] == [1]
    assert not merge_ranks({0: _rank("killed"), 1: _rank("killed")}).events_of("rank_lost")


def test_mean_and_spread_of_each_rank_are_told() -> None:
    told = merge_ranks({0: _rank("closed"), 1: _rank("closed", steps=5)}).fact("ranks")
    assert (told["0"]["last_step"], told["1"]["last_step"]) == (9, 4)
    assert abs(told["0"]["loss_mean"] - 0.75) < 1e-9 and told["0"]["loss_std"] > 0


def _shards(rows: list[list[float]], steps: list[int]) -> Run:
    part = Matrix(np.array(steps), ("a", "b"), np.array(rows))
    return Run({"shard_norm/param": part}, {"world_size": 2, "ended": "closed", "distributed": "fsdp2"})


def test_norms_of_shards_become_norms_of_whole_gradients_and_it_is_said() -> None:
    merged = merge_ranks({0: _shards([[3.0, 1.0], [1.0, 1.0]], [0, 1]), 1: _shards([[4.0, np.nan], [9.0, 9.0]], [0, 2])})
    assert merged.matrix("grad_norm/param").values.tolist() == [[5.0, 1.0]]
    assert merged.series("grad_norm").steps.tolist() == [0] and abs(merged.series("grad_norm").values[0] - 26**0.5) < 1e-12
    assert any("made offline of the shards that 2 ranks hold (fsdp2)" in n for n in merged.notes)


def test_shards_of_a_missing_rank_make_no_whole() -> None:
    alone = Run({"shard_norm/param": Matrix(np.array([0]), ("a",), np.ones((1, 1)))}, {"world_size": 3})
    assert "grad_norm" not in merge_ranks({0: alone, 1: alone})


def test_parameters_whose_gradients_alone_differ_between_ranks_are_named() -> None:
    def norms(a: float, b: float, steps: tuple[int, ...] = (0, 5)) -> Run:
        return Run({"grad_norm/param": Matrix(np.array(steps), ("a", "b"), np.array([[a, b]] * len(steps)))}, {"world_size": 2})

    told = merge_ranks({0: norms(1.0, 2.0), 1: norms(1.0, 2.5, (5, 9))}).fact("ranks.unequal_gradients")
    assert told == {"names": ["b"], "differ": 1, "of": 2}
    for other in (norms(1.0, 2.0), norms(3.0, 4.0), norms(1.0, 2.5, (7, 9)), norms(1.0, 2.0 + 1e-7)):
        assert merge_ranks({0: norms(1.0, 2.0), 1: other}).fact("ranks.unequal_gradients") is None


def test_a_ranks_own_time_leaves_out_where_it_waits() -> None:
    step, backward = Series(np.arange(4), np.full(4, 0.5)), Series(np.array([1, 3]), np.array([0.4, 0.1]))
    both = Run({"time/step": step, "time/backward": backward})
    assert own_time(both).steps.tolist() == [1, 3] and np.allclose(own_time(both).values, [0.1, 0.4])
    assert own_time(both.with_({"time/own": step})) is step


def test_collectives_that_do_not_meet_are_an_event() -> None:
    def noted(op: str) -> tuple[Event, ...]:
        entry = {"group": "0", "seq": 7, "op": op, "sizes": [[4]], "done": False, "site": "t.py:3"}
        return (Event(9, "collectives", {"entries": [entry]}),)

    merged = merge_ranks({0: _rank("running", noted("all_reduce")), 1: _rank("running", noted("barrier"))})
    [event] = merged.events_of("collective_mismatch")
    assert event.data["calls"] == {"0": "all_reduce of 4 at t.py:3", "1": "barrier of 4 at t.py:3"}


def _launched(started: float, world: int, steps: int = 10) -> Run:
    series = Series(np.arange(steps), np.ones(steps), started + np.arange(steps))
    return Run({"loss/train": series, "time/step": series}, {"world_size": world, "started": started, "ended": "closed"})


def test_ranks_of_an_earlier_larger_launch_are_not_compared_with_the_later_one() -> None:
    merged = merge_ranks({0: _launched(500.0, 2), 1: _launched(501.0, 2), 2: _launched(100.0, 4), 3: _launched(100.0, 4)})
    assert merged.matrix("rank/loss").names == ("0", "1") and list(merged.fact("ranks")) == ["0", "1"]
    assert merged.notes == ("ranks 2, 3 took part in an earlier launch only, and are left out: 2 ranks trained last",)
    assert len(merge_ranks({0: _launched(100.0, 2), 1: _launched(103.0, 2)}).matrix("rank/loss").names) == 2


def test_a_larger_launch_after_a_smaller_one_has_all_its_ranks() -> None:
    merged = merge_ranks({r: _launched(500.0 + r, 4) for r in range(4)})
    assert len(merged.matrix("rank/loss").names) == 4 and not merged.notes
    alone = merge_ranks({0: _launched(500.0, 1), 1: _launched(100.0, 2)})
    assert "rank/loss" not in alone and "took part in an earlier launch" in alone.notes[0]


def test_a_rank_that_did_not_come_back_after_a_restart_is_left_out_and_a_slow_starter_is_not() -> None:
    back = _launched(500.0, 2)
    again = back.with_(events=[Event(0, "resume", {})])
    assert "rank/loss" not in merge_ranks({0: again, 1: _launched(100.0, 2)})
    assert len(merge_ranks({0: back, 1: _launched(100.0, 2)}).matrix("rank/loss").names) == 2
