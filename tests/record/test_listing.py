"""Finding records in folders."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from record.records import a_record
from traindx.record import fresh_dir, is_record, list_records


def test_a_record_is_known_by_its_manifest_or_its_files(tmp_path: Path) -> None:
    path = a_record(tmp_path / "run")
    assert is_record(path)
    assert is_record(path / "run.json")
    (path / "run.json").unlink()
    assert is_record(path)
    assert not is_record(tmp_path)
    assert not is_record(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run.json").write_text('{"schema": "somebody.else/1"}')
    assert not is_record(tmp_path / "other")
    assert not is_record(Path(__file__))


def test_a_list_says_what_each_run_is(tmp_path: Path) -> None:
    a_record(tmp_path / "b", steps=range(30))
    a_record(tmp_path / "a", how="exception", name="my run")
    a_record(tmp_path / "a", steps=range(5, 20), how="exit")
    a_record(tmp_path / "a", rank=1)
    (tmp_path / "notes").mkdir()
    (tmp_path / "file.csv").write_text("step,loss\n")
    found = {r.path.name: r for r in list_records(tmp_path)}
    assert sorted(found) == ["a", "b"]
    assert (found["a"].name, found["a"].ended, found["a"].last_step) == ("my run", "exit", 19)
    assert (found["a"].ranks, found["a"].restarts) == (2, 1)
    assert (found["b"].ended, found["b"].last_step, found["b"].trouble) == ("closed", 29, None)
    assert abs(found["b"].updated - time.time()) < 60
    assert [r.path.name for r in list_records(tmp_path / "b")] == ["b"]


def test_newest_comes_first(tmp_path: Path) -> None:
    for name in ("z", "m", "a"):
        a_record(tmp_path / name, steps=range(2), batch=2)
        time.sleep(0.01)
    assert [r.path.name for r in list_records(tmp_path)] == ["a", "m", "z"]


def test_a_damaged_or_newer_record_does_not_spoil_the_list(tmp_path: Path) -> None:
    for name in ("good", "newer", "torn", "bare"):
        a_record(tmp_path / name)
    manifest = json.loads((tmp_path / "newer" / "run.json").read_text())
    (tmp_path / "newer" / "run.json").write_text(json.dumps({**manifest, "schema": "traindx.record/99"}))
    words = tmp_path / "torn" / "rank0-start0" / "words-000001.tdx"
    words.write_bytes(words.read_bytes()[:-10])
    shutil.rmtree(tmp_path / "bare" / "rank0-start0")
    found = {r.path.name: r for r in list_records(tmp_path, now=time.time() + 3600)}
    assert "format 99" in str(found["newer"].trouble)
    assert found["torn"].ended == "killed"
    assert found["bare"].last_step is None
    assert found["good"].ended == "closed"


def test_a_thousand_runs_are_listed(tmp_path: Path) -> None:
    """The promise is 3 s, and bench/record.py has the figure."""
    model = a_record(tmp_path / "r0000", steps=range(100), batch=10)
    for i in range(1, 1000):
        shutil.copytree(model, tmp_path / f"r{i:04d}")
    found = list_records(tmp_path)
    assert len(found) == 1000
    assert {r.last_step for r in found} == {99}


@pytest.mark.parametrize(
    ("name", "plain"), [("train.py", "train.py"), ("a b/../c\n", "a-b-..-c"), ("", "run"), ("--x", "x"), ("é😀", "run")]
)
def test_a_new_run_gets_a_plain_name(tmp_path: Path, name: str, plain: str) -> None:
    path = fresh_dir(tmp_path, name, now=0.0)
    assert path.parent == tmp_path
    assert path.name.startswith(f"{plain}-19")
    path.mkdir()
    assert fresh_dir(tmp_path, name, now=0.0).name == f"{path.name}-2"
