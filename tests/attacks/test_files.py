"""Files that others lay beside a run: links, pipes, devices, bombs (S8, S9, S14, S21)."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import struct
import threading
from pathlib import Path
from typing import Any

import pytest

from traindx import api, opening
from traindx.errors import EnvironmentFault, NothingReadable
from traindx.forensics.capsule import Capsule, load, save
from traindx.importers import mlflow
from traindx.record import diary, flight
from traindx.run import Run

LOG = "step,loss\n" + "".join(f"{i},{2 / (i + 1)}\n" for i in range(40))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "train.csv").write_text(LOG)
    return tmp_path / "train.csv"


def _private(path: Path) -> None:
    secret = path.parent.parent / "private.txt"
    secret.write_text(json.dumps({"time": 1, "kind": "note", "text": "my own"}) + "\n")
    path.symlink_to(secret)


DIARIES: dict[str, Any] = {
    "fifo": os.mkfifo,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "link to a private file": _private,
    "link to itself": lambda path: path.symlink_to(path),
    "folder": lambda path: path.mkdir(),
    "deep JSON": lambda path: path.write_text("[" * 200_000),
    "time beyond every calendar": lambda path: path.write_text('{"time": 1e300, "kind": "note", "text": "x"}\n'),
    "time that is none": lambda path: path.write_text('{"time": NaN, "kind": "note", "text": "x"}\n'),
    "sparse giant": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "wrong types": lambda path: path.write_text(
        '{"time": 1, "kind": ["note"]}\n{"time": true, "kind": "trial", "trial": [1]}\n'
    ),
}


@pytest.mark.parametrize("what", DIARIES)
def test_a_diary_that_is_none_says_nothing_and_hurts_nothing(log: Path, what: str) -> None:
    place = diary.place(log)
    DIARIES[what](place)
    told = [diary.told(entry) for entry in diary.entries(log)]
    assert "my own" not in told and "x" not in told
    [run] = api.load(log)
    assert len(run.series("loss/train")) == 40


def test_a_note_is_not_written_through_a_link_and_is_private(log: Path) -> None:
    elsewhere = log.with_name("elsewhere")
    elsewhere.write_text("")
    diary.place(log).symlink_to(elsewhere)
    with pytest.raises(EnvironmentFault):
        diary.write(log, "note", text="x")
    assert elsewhere.read_text() == ""
    diary.place(log).unlink()
    assert diary.write(log, "note", text="x").stat().st_mode & 0o777 == 0o600


def _entry(**said: Any) -> dict[str, Any]:
    return {
        "process_group": ["0", "x"],
        "collective_seq_id": 1,
        "profiling_name": "nccl:all_reduce",
        "input_sizes": [[2]],
        **said,
    }


def _laughs() -> bytes:
    """A pickle whose lists hold one another twice each: nothing in memory, everything once written out."""
    made: Any = ["ha"]
    for _ in range(60):
        made = [made, made]
    return pickle.dumps({"entries": [_entry(input_sizes=made, process_group=made, profiling_name=made)]}, 2)


DUMPS: dict[str, bytes] = {
    "memo of two gigabytes": b"\x80\x02]r" + struct.pack("<I", 1 << 28) + b".",
    "calls": b"cos\nsystem\n(S'true'\ntR.",
    "long string that is not there": b"\x80\x04X" + struct.pack("<I", 1 << 31) + b".",
    "deep": b"\x80\x02" + b"(" * 100_000 + b"l" * 100_000 + b".",
    "deep JSON": b'{"entries": ' + b"[" * 200_000,
    "laughs": _laughs(),
    "wrong types": json.dumps({"entries": [_entry(collective_seq_id={}, frames=[[1]], state=[]), 3, None]}).encode(),
    "not a list": json.dumps({"entries": {"a": 1}}).encode(),
}


@pytest.mark.parametrize("what", DUMPS)
def test_a_hostile_dump_of_the_flight_recorder_costs_only_itself(tmp_path: Path, what: str) -> None:
    (tmp_path / "trace_rank_0").write_bytes(DUMPS[what])
    found, notes = flight.beside(tmp_path, {0: Run()})
    assert len(found) + len(notes) == 1
    flight.compared({0: found.get(0, []), 1: found.get(0, [])})


def test_numbers_of_collectives_that_lie_far_apart_are_compared_at_once() -> None:
    ends = {0: [1, 10**18], 1: [1, 2]}
    tails = {r: flight.tail({"entries": [_entry(collective_seq_id=s) for s in seqs]}) for r, seqs in ends.items()}
    assert flight.compared(tails) is not None


def test_dumps_that_are_pipes_or_links_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace_rank_0")
    (tmp_path / "trace_rank_1").symlink_to("/dev/zero")
    assert flight.beside(tmp_path, {0: Run(), 1: Run()})[0] == {}


def test_every_bit_of_a_capsules_manifest_counts(tmp_path: Path) -> None:
    path = save(Capsule(3, {"models": [], "lr": 0.0059}, None, {"command": ["train.py"]}), tmp_path)
    manifest = path / "capsule.json"
    whole = manifest.read_bytes()
    said = json.loads(whole)
    load(path)
    silent = []
    for at in range(len(whole)):
        for bit in (0, 3):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            manifest.write_bytes(bytes(data))
            try:
                load(path)
            except NothingReadable:
                continue
            if json.loads(data) != said:
                silent.append((at, bit))
    assert not silent


def test_capsules_are_private(tmp_path: Path) -> None:
    path = save(Capsule(3, {"models": []}, None, {}), tmp_path / "capsules")
    assert path.stat().st_mode & 0o777 == 0o700 == path.parent.stat().st_mode & 0o777
    assert {f.stat().st_mode & 0o777 for f in path.iterdir()} == {0o600}


def test_a_database_with_thousands_of_runs_is_read_in_part_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mlflow.db"
    with sqlite3.connect(file) as link:
        link.execute("CREATE TABLE runs (run_uuid TEXT, name TEXT, start_time INTEGER)")
        link.execute(
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan INTEGER)"
        )
        link.execute("CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT)")
        count = mlflow.MOST_RUNS + 100
        link.executemany("INSERT INTO runs VALUES (?, ?, ?)", [(f"r{i}", f"run {i}", i) for i in range(count)])
        rows = [("loss", 2 / (s + 1), s, f"r{i}", s, 0) for i in range(count) for s in range(6)]
        link.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)
    link.close()
    runs = api.load(file)
    assert (
        len(runs) == mlflow.MOST_RUNS
        and any("run 599" in r.source for r in runs)
        and not any("run 5)" in r.source for r in runs)
    )
    assert "of 600 runs the newest 500 are read" in capsys.readouterr().err


def test_a_pipe_that_you_name_is_read_and_one_that_is_found_is_not(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writes = threading.Thread(target=pipe.write_text, args=(LOG,), daemon=True)
    writes.start()
    [run] = api.load(pipe)
    assert len(run.series("loss/train")) == 40
    writes.join()
    with pytest.raises(OSError, match="regular"):
        opening.opened(pipe)
    with pytest.raises(OSError):
        opening.opened(Path("/dev/zero"), named=True)
