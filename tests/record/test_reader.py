"""Reading: process starts joined, a live run followed, ranks side by side, other versions."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from record.records import SMALL, a_record, a_writer, cells, files, loss_at, write_step
from traindx.errors import NewerRecord, NothingReadable
from traindx.record import follow, read, read_ranks
from traindx.record.format import VERSION, prologue
from traindx.run import Event, Run

GOLDEN = Path(__file__).parents[1] / "data" / "records"


def test_a_resume_that_goes_back_is_believed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    a_record(path, steps=range(30), how="exception")
    writer = a_writer(path)
    for step in range(20, 40):
        writer.write(step, {"loss/train": -1.0 - step})
    writer.close()
    run = read(path)
    assert run["loss/train"].steps.tolist() == list(range(40))
    assert run["loss/train"].values[:20].tolist() == [loss_at(s) for s in range(20)]
    assert run["loss/train"].values[20:].tolist() == [-1.0 - s for s in range(20, 40)]
    [seam] = run.events_of("resume")
    assert seam.data == {"previous_last_step": 29, "steps_repeated": 10}
    assert run.facts["ended"] == "closed"
    assert run["grad_norm/param"].steps.tolist() == list(range(20))
    assert sorted(p.name for p in path.iterdir()) == ["rank0-start0", "rank0-start1", "run.json"]


def test_many_resumes_are_joined_in_order_of_their_start(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for start in range(12):  # start10 comes after start9, not after start1
        a_record(path, steps=range(10 * start, 10 * start + 15))
    assert read(path)["loss/train"].steps.tolist() == list(range(125))


def test_two_processes_of_one_rank_at_once_are_both_kept_and_noted(tmp_path: Path) -> None:
    path = tmp_path / "run"
    first, second = a_writer(path), a_writer(path)
    for writer in (first, second):
        write_step(writer, 0)
        assert writer.flush()
    for step in range(1, 50):
        write_step(first, step)
        write_step(second, step)
    second.close()
    first.close()
    run = read(path)
    assert run["loss/train"].steps.tolist() == list(range(50))
    assert any("two processes recorded as the same rank" in note for note in run.notes)
    assert len(list(path.glob("rank0-start*"))) == 2


def test_a_live_run_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    writer = a_writer(path, flush=0.01)
    write_step(writer, 0)
    assert writer.flush()
    follower = follow(path)
    assert follower.run["loss/train"].steps.tolist() == [0]
    assert follower.run.facts["ended"] == "running"
    assert not follower.poll()
    same = follower.run
    assert follower.run is same
    write_step(writer, 1)
    writer.fact("device", "cpu")
    assert writer.flush()
    assert follower.poll()
    assert follower.run["loss/train"].steps.tolist() == [0, 1]
    assert follower.run.facts["device"] == "cpu"
    assert same["loss/train"].steps.tolist() == [0]
    writer.close()
    assert follower.poll()
    assert follower.run.facts["ended"] == "closed"


def test_readers_of_a_live_run_that_is_being_thinned_see_a_growing_prefix(tmp_path: Path) -> None:
    path = tmp_path / "run"
    writer = a_writer(path, flush=0.005, sync=0.01, budget=SMALL)
    wrong: list[object] = []

    def watch() -> None:
        follower, last = None, -1
        while thread_go.is_set():
            try:
                follower = follow(path) if follower is None else follower
                follower.poll()
                run = follower.run
            except NothingReadable:
                continue
            wrong.extend(note for note in run.notes if "lost" in note or "damaged" in note)
            losses = run.series("loss/train")
            if len(losses):
                if losses.steps[-1] < last or len(np.unique(losses.steps)) != len(losses):
                    wrong.append((last, losses.steps[-1]))
                last = int(losses.steps[-1])
                if losses.values.tolist() != [loss_at(s) for s in losses.steps.tolist()]:
                    wrong.append("a wrong number")

    thread_go = threading.Event()
    thread_go.set()
    threads = [threading.Thread(target=watch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(12_000):
        write_step(writer, step)
        if step % 50 == 0:
            time.sleep(0.002)
    writer.close(wait=60)
    assert writer.state == "closed"
    thread_go.clear()
    for thread in threads:
        thread.join(30)
    assert not wrong
    assert writer.dropped == 0
    assert cells(follow(path).run) == cells(read(path))
    assert len(files(path)) > 5


def test_a_follower_outlives_its_run(tmp_path: Path) -> None:
    import shutil

    path = a_record(tmp_path / "run")
    follower = follow(path)
    shutil.rmtree(path)
    assert not follower.poll()
    assert len(follower.run["loss/train"]) == 12


def test_a_batch_that_is_half_there_is_waited_for(tmp_path: Path) -> None:
    path = a_record(tmp_path / "run")
    file = path / "rank0-start0" / "narrow.0-000001.tdx"
    data = file.read_bytes()
    file.write_bytes(data[:-40])
    follower = follow(path)
    assert follower.run["loss/train"].steps.tolist() == list(range(9))
    assert any("ends inside a batch" in note for note in follower.run.notes)
    with file.open("ab") as grown:
        grown.write(data[-40:])
    assert follower.poll()
    assert follower.run["loss/train"].steps.tolist() == list(range(12))
    assert follower.run.notes == ()


# -- ranks ----------------------------------------------------------------------------------------------------------------


def ranks(path: Path, world: int, present: range, *, lag: int = 0) -> Path:
    for rank in present:
        writer = a_writer(path, rank=rank)
        writer.fact("world_size", world)
        for step in range(40 - (lag if rank == present[-1] else 0)):
            values = {
                "loss/train": rank + step / 100,
                "time/step": 1.0,
                "time/backward": 0.25 * rank,
                "batch/fingerprint": 2**50 + rank,
            }
            writer.write(step, {**values, "rank/fingerprint": 2**51 + step})
        writer.close()
    return path


def test_ranks_are_read_apart_and_merged(tmp_path: Path) -> None:
    path = ranks(tmp_path / "run", 3, range(3))
    runs = read_ranks(path)
    assert sorted(runs) == [0, 1, 2]
    assert runs[2]["loss/train"].values[0] == 2.0
    run = read(path)
    assert run["loss/train"] == runs[0]["loss/train"]
    assert run["rank/loss"].names == ("0", "1", "2")
    assert run["rank/loss"].values[10] == pytest.approx([0.1, 1.1, 2.1])
    assert run["rank/batch"].values[0].tolist() == [2**50, 2**50 + 1, 2**50 + 2]
    assert (run["rank/params"].values[:, 0] == run["rank/params"].values[:, 1]).all()
    assert run["rank/step_time"].values[0].tolist() == [1.0, 0.75, 0.5]
    assert read(path, rank=1).facts["rank"] == 1
    assert run.notes == ()


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    run = read(ranks(tmp_path / "run", 8, range(3)))
    assert "5 of 8 ranks wrote nothing: 3, 4, 5, 6, 7" in run.notes


def test_ranks_that_disagree_are_named(tmp_path: Path) -> None:
    path = ranks(tmp_path / "run", 2, range(1))
    ranks(path, 4, range(1, 2))
    assert any("disagree" in note for note in read(path).notes)


def test_a_rank_that_fell_silent_is_an_event(tmp_path: Path) -> None:
    path = ranks(tmp_path / "run", 2, range(2), lag=30)
    words = path / "rank1-start0" / "words-000001.tdx"
    words.unlink()  # no last word, no sign of life
    [lost] = read(path).events_of("rank_lost")
    assert (lost.data["rank"], lost.data["last_step"], lost.data["how"]) == (1, 9, "silent")


def test_a_rank_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingReadable, match="rank 5 wrote nothing; there are ranks 0"):
        read(a_record(tmp_path / "run"), rank=5)


# -- what is no record, and records of other versions ----------------------------------------------------------------------


def test_what_is_no_record_is_refused_clearly(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "nowhere", tmp_path / "file", tmp_path):
        with pytest.raises(NothingReadable, match=str(path)):
            read(path)


def test_the_manifest_may_be_named_instead(tmp_path: Path) -> None:
    path = a_record(tmp_path / "run")
    assert cells(read(path / "run.json")) == cells(read(path))


def test_a_newer_record_is_refused_by_its_manifest(tmp_path: Path) -> None:
    path = a_record(tmp_path / "run")
    manifest = json.loads((path / "run.json").read_text())
    manifest.update(schema=f"traindx.record/{VERSION + 1}", traindx="9.9")
    (path / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(NewerRecord, match=f"written by traindx 9.9 in record format {VERSION + 1}.*Upgrade"):
        read(path)


def test_a_newer_segment_is_refused_too(tmp_path: Path) -> None:
    path = a_record(tmp_path / "run")
    file = files(path)[0]
    data = file.read_bytes()
    file.write_bytes(prologue(VERSION + 1) + data[len(prologue()) :])
    with pytest.raises(NewerRecord):
        read(path)


def golden(version: Path) -> tuple[Run, dict[str, object]]:
    return read(version / "run"), json.loads((version / "expected.json").read_text())


@pytest.mark.parametrize("version", sorted(GOLDEN.iterdir()), ids=lambda p: p.name)
def test_records_of_every_version_are_read(version: Path) -> None:
    run, expected = golden(version)
    told = {
        "cells": sorted([signal, name, step, repr(value)] for signal, name, step, value in cells(run)),
        "facts": dict(run.facts),
        "events": [[e.step, e.kind, dict(e.data), e.time] for e in run.events],
        "notes": list(run.notes),
    }
    assert json.loads(json.dumps(told)) == expected


def _start(path: Path, *events: Event, steps: range = range(10)) -> None:
    writer = a_writer(path)
    for event in events:
        writer.event(event)
    for step in steps:
        writer.write(step, {"loss/train": float(step)})
    writer.close()


LOAD, SAVE = Event(0, "load", {"what": "model"}), Event(9, "checkpoint", {"holds": ["model"]})


def test_a_process_that_went_on_from_a_checkpoint_follows_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "run"
    for events in ((SAVE,), (LOAD, SAVE), (LOAD,)):
        _start(path, *events)
    run = read(path)
    assert run["loss/train"].steps.tolist() == list(range(30))
    assert [(e.step, e.data["steps_repeated"]) for e in run.events_of("resume")] == [(10, 0), (20, 0)]
    assert [e.step for e in run.events_of("load")] == [10, 20]


def test_two_trainings_from_the_same_weights_do_not_follow_each_other(tmp_path: Path) -> None:
    for name, (first, second) in {"tuned": ((LOAD, SAVE), (LOAD,)), "unsaved": ((), (LOAD,)), "anew": ((SAVE,), ())}.items():
        path = tmp_path / name
        _start(path, *first)
        _start(path, *second)
        assert read(path)["loss/train"].steps.tolist() == list(range(10)), name
