"""Records at an address: fetched and read as if they were here; a spool brings what is new there and never raises."""

from __future__ import annotations

import doctest
import sys
import time
from pathlib import Path

import pytest

from patience import LONG_S, until
from traindx import importers
from traindx.errors import EnvironmentFault, NothingReadable
from traindx.record import Writer, read, remote

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def place() -> str:
    """An empty folder in memory."""
    fs = fsspec.filesystem("memory")
    if fs.exists("/traindx"):
        fs.rm("/traindx", recursive=True)
    return "memory://traindx/run"


def _write(folder: Path, steps: int = 30) -> Path:
    writer = Writer(folder, name="far")
    for step in range(steps):
        writer.write(step, {"loss/train": 1.0 / (step + 1)})
    writer.close()
    return folder


def test_the_examples_hold() -> None:
    assert doctest.testmod(remote).failed == 0


def test_a_record_is_the_same_after_the_way_there_and_back(tmp_path: Path, place: str) -> None:
    folder = _write(tmp_path / "r")
    spool = remote.Spool(folder, place)
    assert spool.copy() >= 2 and spool.copy() == 0
    (run,) = importers.read(place)
    assert run.series("loss/train").values.tolist() == read(folder).series("loss/train").values.tolist()
    assert run.source == place


def test_what_was_written_since_is_brought_by_the_next_copy(tmp_path: Path, place: str) -> None:
    writer = Writer(tmp_path / "r", name="far")
    spool = remote.Spool(tmp_path / "r", place, every=0.05)
    spool.start()
    for step in range(50):
        writer.write(step, {"loss/train": 1.0})
        time.sleep(0.002)
    writer.close()
    assert spool.close()
    assert len(importers.read(place)[0].series("loss/train")) == 50


def test_a_folder_of_this_machine_is_an_address_too(tmp_path: Path) -> None:
    folder = _write(tmp_path / "r")
    (run,) = importers.read(folder.as_uri())
    assert run.series("loss/train").values.tolist() == read(folder).series("loss/train").values.tolist()


def _last(place: str) -> int:
    try:
        (run,) = importers.read(place)
    except NothingReadable:  # before the first copy
        return -1
    return int(run.series("loss/train").steps[-1])


def test_a_machine_that_is_lost_with_its_disk_loses_no_more_than_is_stated(tmp_path: Path, place: str) -> None:
    writer = Writer(tmp_path / "r", name="far")
    spool = remote.Spool(tmp_path / "r", place, every=0.1)
    spool.start()
    for written in range(0, 200, 50):
        for step in range(written, written + 50):
            writer.write(step, {"loss/train": 1.0})
        assert writer.flush(wait=LONG_S)  # the writer's own second
        assert until(lambda: _last(place) == written + 49)  # were the machine lost now, this is all there would ever be
    writer.close()
    spool.close()


def test_an_address_that_refuses_is_told_and_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    spool = remote.Spool(_write(tmp_path / "r"), place)

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(spool._fs, "put_file", refuse)
    assert spool.copy() == 0 and "not yours" in spool.trouble
    monkeypatch.undo()
    assert spool.copy() >= 2 and not spool.trouble


def test_names_that_lead_out_of_the_folder_are_refused() -> None:
    with pytest.raises(NothingReadable, match="leads out"):
        remote._inside("/bucket/run/../../etc/passwd", "/bucket/run")


def test_nothing_there_and_no_fsspec_are_said(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    with pytest.raises(NothingReadable, match="nothing there"):
        importers.read("memory://traindx/none")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(EnvironmentFault, match=r"traindx\[remote\]"):
        importers.read(place)
