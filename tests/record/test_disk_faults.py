"""A disk that refuses: training goes on, the record degrades, says so once per step, and recovers."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from patience import not_hanging, until
from record.records import a_writer, cells, failing, loss_at, write_step
from traindx.record import Writer, read

STEPS = range(12)
CALLS = ("write", "fsync", "open", "mkdir", "link")


def recorded(path: Path, said: list[str], **every: float) -> Writer:
    """A short run that pays no heed to its recorder."""
    writer = a_writer(path, say=said.append, **{"flush": 0.01, "sync": 0.0, "retry": 0.01, **every})
    for step in STEPS:
        write_step(writer, step)
        if step % 3 == 2:
            writer.flush()
    if every.get("retry", 0) < 1:
        until(lambda: writer.state != "memory" or (writer.flush() and writer.state != "memory"))
    return writer


def uses(path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a healthy run makes that call."""
    count = 0
    real = getattr(os, call)

    def counting(*args: Any, **names: Any) -> Any:
        nonlocal count
        count += 1
        return real(*args, **names)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, counting)
        recorded(path, []).close()
    return count


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("call", CALLS)
def test_one_refusal_at_every_call_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int) -> None:
    most = uses(tmp_path / "healthy", call, monkeypatch)
    assert most >= 1
    for k in range(1, most + 1):
        said: list[str] = []
        path = tmp_path / f"run{k}"
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing(getattr(os, call), k, OSError(code, os.strerror(code))))
            writer = recorded(path, said)
            writer.close()
        assert writer.state == "closed"
        run = read(path)
        assert run["loss/train"].values.tolist() == [loss_at(s) for s in STEPS], (call, k)
        assert run["loss/train"].steps.tolist() == list(STEPS)
        assert len(run["grad_norm/param"]) == len(STEPS)
        assert not any("lost" in note for note in run.notes), run.notes
        changes = [(e.data["from"], e.data["to"]) for e in run.events_of("record")]
        assert changes in ([], [("ok", "memory"), ("memory", "ok")]), (call, k, changes)
        assert len(said) == len(changes)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_lasting_refusal_at_every_call_leaves_a_readable_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    most = uses(tmp_path / "healthy", call, monkeypatch)
    for k in range(1, most + 1):
        path = tmp_path / f"run{k}"
        with monkeypatch.context() as patch:
            patch.setattr(
                os, call, failing(getattr(os, call), k, OSError(errno.ENOSPC, "No space left on device"), lasting=True)
            )
            writer = recorded(path, [], retry=60.0)
            with not_hanging():
                writer.close()
        if list(path.rglob("*.tdx")):
            losses = read(path).series("loss/train")
            assert losses.steps.tolist() == list(range(len(losses)))
            assert losses.values.tolist() == [loss_at(s) for s in range(len(losses))]
            assert len(losses) + writer.dropped >= len(STEPS)


def test_what_the_disk_refused_is_written_when_it_has_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    writer = a_writer(tmp_path / "run", say=said.append, flush=0.01, sync=0.0, retry=0.05)
    write_step(writer, 0)
    assert writer.flush()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", failing(os.write, 1, OSError(errno.ENOSPC, "No space left on device"), lasting=True))
        for step in range(1, 50):
            write_step(writer, step)
        assert not writer.flush()
        assert writer.state == "memory"
    while not writer.flush():
        time.sleep(0.02)
    writer.close()
    run = read(tmp_path / "run")
    assert run["loss/train"].steps.tolist() == list(range(50))
    assert [e.data["to"] for e in run.events_of("record")] == ["memory", "ok"]
    assert len(said) == 2
    assert "No space left on device" in said[0]


def test_memory_is_bounded_while_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traindx.record.worker.IN_MEMORY", 5_000)
    writer = a_writer(tmp_path / "run", flush=0.01, retry=0.05)
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", failing(os.mkdir, 1, OSError(errno.EROFS, "Read-only file system"), lasting=True))
        for step in range(2000):
            write_step(writer, step)
            if step % 100 == 0:
                writer.flush()
        rings = writer._worker.shelf._rings
        assert sum(r.waiting for r in rings.values() if r.name.endswith(".0")) < 20_000
    while not writer.flush():
        time.sleep(0.02)
    writer.close()
    run = read(tmp_path / "run")
    assert run["loss/train"].steps[-1] == 1999
    assert len(run["loss/train"]) < 2000
    assert any("were lost while the disk refused" in note for note in run.notes)


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[: max(1, len(data) // 3)]))
        recorded(tmp_path / "run", []).close()
    run = read(tmp_path / "run")
    assert run["loss/train"].steps.tolist() == list(STEPS)
    assert run.notes == ()


def test_a_short_write_and_then_no_room_leaves_no_torn_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a quota does: success with fewer bytes, then an error."""
    real, calls = os.write, 0

    def quota(fd: int, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 6:
            return real(fd, data[: len(data) // 2])
        if calls == 7:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")
        return real(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", quota)
        recorded(tmp_path / "run", []).close()
    run = read(tmp_path / "run")
    assert run["loss/train"].steps.tolist() == list(STEPS)
    assert not any("batch" in note or "damaged" in note for note in run.notes)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_directory_is_not_made_again(tmp_path: Path, replaced: bool) -> None:
    said: list[str] = []
    path = tmp_path / "run"
    writer = a_writer(path, say=said.append, flush=0.01, sync=0.0, retry=0.02, give_up=0.2)
    write_step(writer, 0)
    assert writer.flush()
    shutil.rmtree(path)
    if replaced:
        path.write_text("a file now")
    steps = itertools.count(1)

    def off() -> bool:
        write_step(writer, next(steps))
        writer.flush(wait=0.2)
        return writer.state == "off"

    assert until(off)
    assert path.is_file() if replaced else not path.exists()
    assert len(said) == 2
    assert "recording is off" in said[-1]
    writer.close()


def test_a_renamed_directory_goes_on_being_written(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "run", flush=0.01, sync=0.0)
    write_step(writer, 0)
    assert writer.flush()
    (tmp_path / "run").rename(tmp_path / "moved")
    write_step(writer, 1)
    assert writer.flush()
    writer.close()
    assert read(tmp_path / "moved")["loss/train"].steps.tolist() == [0, 1]
    assert not (tmp_path / "run").exists()


def test_a_place_that_cannot_be_is_said_once_and_given_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    said: list[str] = []
    writer = a_writer(tmp_path / "file" / "run", say=said.append, flush=0.01, retry=0.02, give_up=0.1)

    def off() -> bool:
        write_step(writer, 0)
        return writer.state == "off"

    assert until(off)
    assert [text.split(":")[0] for text in said][1:] == ["recording is off"]
    assert (tmp_path / "file").read_text() == "not a directory"


def test_foreign_files_in_the_directory_stay(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / "model.pt").write_bytes(b"precious")
    recorded(path, []).close()
    assert (path / "model.pt").read_bytes() == b"precious"
    assert len(cells(read(path))) == len(STEPS) * 5
