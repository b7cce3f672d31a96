"""Ranks side by side: what any of them found out is kept, with its rank."""

from __future__ import annotations

import numpy as np

from traindx.record.ranks import merge_ranks
from traindx.run import Event, Run, Series


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
