"""Who went first: from the ranks' last words, and from their launcher where it could speak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traindx.record import endings
from traindx.run import Event, Run, Series

BROKEN = {
    "type": "RuntimeError",
    "message": "[gloo/transport/tcp/pair.cc:553] Connection closed by peer",
    "file": "a.py",
    "line": 1,
}
OWN = {"type": "ValueError", "message": "sample 17 is broken", "file": "/home/me/train.py", "line": 52}
SILENT: dict[str, Any] = {}


def _rank(ended: str, steps: int = 100, error: Any = None, events: tuple[Event, ...] = ()) -> Run:
    facts = {"ended": ended, "world_size": 2} | ({"exception": error} if error else {})
    return Run({"loss/train": Series(np.arange(steps), np.ones(steps))}, facts, events)


def _told(runs: list[Run], launch: dict[str, Any] = SILENT) -> list[tuple[int, str, str]]:
    return [(e.data["rank"], e.data["how"], e.data["why"]) for e in endings.lost(dict(enumerate(runs)), launch)]


def _launch(folder: Path, *failures: tuple[int, int, int]) -> dict[str, Any]:
    told = [{"rank": r, "exitcode": c, "time": t} for r, c, t in failures]
    (folder / "launch-1.json").write_text(json.dumps({"failures": told}))
    return endings.launches(folder)


def test_an_error_of_its_own_is_first_and_broken_connections_follow() -> None:
    told = _told([_rank("exception", error=BROKEN), _rank("exception", error=OWN), _rank("killed")])
    assert told == [(1, "error", "ended with ValueError: sample 17 is broken (train.py:52)")]


def test_the_same_error_on_all_ranks_is_the_programs() -> None:
    assert not _told([_rank("exception", error=OWN), _rank("exception", error=OWN)])


def test_a_rank_that_left_in_good_order_leaves_the_others_waiting() -> None:
    assert _told([_rank("exception", error=BROKEN), _rank("exit")])[0][:2] == (1, "left")
    assert not _told([_rank("closed"), _rank("exit")])


def test_a_rank_that_said_nothing_is_gone_when_connections_broke() -> None:
    assert _told([_rank("exception", error=BROKEN), _rank("running")])[0][:2] == (1, "silent")


def test_the_launcher_knows_signal_and_order(tmp_path: Path) -> None:
    launch = _launch(tmp_path, (0, -15, 70), (1, -9, 70))
    assert _told([_rank("killed"), _rank("killed")], launch) == [(1, "signal", "was ended by SIGKILL")]
    assert (
        _told([_rank("killed"), _rank("killed")], _launch(tmp_path, (0, 3, 70), (1, -15, 71)))[0][2] == "ended with exit code 3"
    )
    assert not _told([_rank("killed"), _rank("killed")])  # without it nobody knows
    assert endings.launches(tmp_path, since=72.0) == {}  # it spoke of a launch before this one


@pytest.mark.parametrize("text", ["", "{", "[]", '{"failures": [{"rank": "x"}]}', '{"failures": [7]}'])
def test_what_is_no_launchers_word_is_not_believed(text: str, tmp_path: Path) -> None:
    (tmp_path / "launch-1.json").write_text(text)
    assert endings.launches(tmp_path) == {}


def test_a_silent_rank_beside_one_that_hangs() -> None:
    hang = Event(99, "hang", {"rank": 0, "seconds": 70})
    assert _told([_rank("running", events=(hang,)), _rank("killed")])[0][:2] == (1, "silent")
    assert _told([_rank("running"), _rank("killed", steps=60)])[0][:2] == (1, "silent")
    assert not _told([_rank("running"), _rank("killed", steps=95)])
