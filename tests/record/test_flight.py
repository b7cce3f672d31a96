"""Dumps of PyTorch's flight recorder are read as plain data, and compared between ranks."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from traindx.record import flight
from traindx.run import Run

REAL = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for n in (3, 4):
    dist.all_reduce(torch.ones(n, 2))
dist.barrier()
open(sys.argv[1], "wb").write(torch._C._distributed_c10d._dump_fr_trace())
"""


def _entry(seq: int, op: str = "all_reduce", size: int = 8, done: bool = True, line: int = 7) -> dict[str, Any]:
    frames = [
        {"name": "f", "filename": "/x/torch/distributed/c10d.py", "line": 1},
        {"name": "g", "filename": "/me/t.py", "line": line},
    ]
    state = "completed" if done else "started"
    return {
        "frames": frames, "process_group": ("0", "default_pg"), "collective_seq_id": seq, "profiling_name": f"nccl:{op}",
        "input_sizes": [[size]], "state": state, "is_p2p": False,
    }  # fmt: skip


def _tail(*entries: dict[str, Any]) -> flight.Entries:
    return flight.tail({"entries": list(entries)})


def test_a_dump_that_torch_made_is_read(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "nccl_trace_rank_3"
    subprocess.run([sys.executable, "-c", REAL, str(path)], check=True, capture_output=True, timeout=900)
    found, notes = flight.beside(tmp_path, {0: Run(), 3: Run()})
    assert list(found) == [3] and not notes
    assert [(e["seq"], e["op"], e["sizes"]) for e in found[3]][:2] == [(1, "all_reduce", [[3, 2]]), (2, "all_reduce", [[4, 2]])]
    assert found[3][0]["done"]


def test_dumps_lie_where_torch_was_told_to_put_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "dumps"
    run.mkdir()
    elsewhere.mkdir()
    (elsewhere / "trace_1").write_bytes(pickle.dumps({"version": "2.4", "entries": [_entry(5)]}))
    said = Run(facts={"flight_recorder": f"{elsewhere}/trace_", "started": 0.0})
    late = Run(facts={"flight_recorder": f"{elsewhere}/trace_", "started": 4e9})  # the file is of an earlier run
    assert flight.beside(run, {1: said}) == ({}, [])  # the record says so, and data names no paths
    monkeypatch.setenv(flight.FLIGHT[0], f"{elsewhere}/trace_")
    assert flight.beside(run, {1: said})[0][1][0]["seq"] == 5
    assert flight.beside(run, {1: late}) == ({}, [])


def test_json_is_read_and_anything_else_refused(tmp_path: Path) -> None:
    assert flight.loaded(json.dumps({"entries": []}).encode()) == {"entries": []}
    for bad in (b"", b"x", b"{", pickle.dumps([1]), pickle.dumps(Path("x")), pickle.dumps({"entries": print})):
        with pytest.raises(ValueError):
            flight.loaded(bad)
    (tmp_path / "trace_rank_0").write_bytes(pickle.dumps({"entries": print}))
    found, [note] = flight.beside(tmp_path, {0: Run()})
    assert not found and "does not belong" in note


def test_the_first_collective_that_differs_is_named() -> None:
    problem = flight.compared(
        {0: _tail(_entry(1), _entry(2)), 1: _tail(_entry(1), _entry(2, "barrier", done=False)), 2: _tail(_entry(1), _entry(2))}
    )
    assert problem is not None and (problem["kind"], problem["seq"], problem["ranks"]) == ("differ", 2, [1])
    assert problem["calls"]["1"] == "barrier of 8 at t.py:7"
    sizes = flight.compared({0: _tail(_entry(4, size=8)), 1: _tail(_entry(4, size=3))})
    assert sizes is not None and sizes["kind"] == "differ"


def test_a_rank_that_never_came_is_named_only_while_the_others_wait() -> None:
    waits = flight.compared({0: _tail(_entry(1), _entry(2, done=False)), 1: _tail(_entry(1))})
    assert waits is not None and (waits["kind"], waits["ranks"]) == ("missing", [1])
    assert flight.compared({0: _tail(_entry(1), _entry(2)), 1: _tail(_entry(1))}) is None
    assert flight.compared({0: _tail(_entry(1))}) is None
    assert flight.compared({0: _tail(_entry(1)), 1: _tail(_entry(1))}) is None


def test_operations_whose_sizes_may_differ_are_left_alone() -> None:
    assert flight.compared({0: _tail(_entry(1, "all_to_all", 3)), 1: _tail(_entry(1, "all_to_all", 9))}) is None
