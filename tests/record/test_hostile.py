"""Files that pass every checksum and still lie: a reader refuses, skips and counts; it never breaks."""

from __future__ import annotations

import os
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from record.records import a_record, cells, files
from traindx.errors import TraindxError
from traindx.record import follow, is_record, list_records, read
from traindx.record.format import HEAD, PROLOGUE, Kind, frame, prologue, scan, to_json
from traindx.run import Run

VALUES: list[Any] = [
    None,
    True,
    1,
    -1,
    1.5,
    float("nan"),
    10**30,
    "text",
    [],
    {},
    [None],
    [[]],
    [[1, 2, 3, 4]],
    [["loss/train", None, 0, 0]] * 3,
    [["x", 10**9, 0, 0]],
    [["x", 5, 0, "names"]],
    [[10**30, "spike", {}, None]],
    [[1, "spike", [], "when"]],
    [[1, None, {}, float("inf")]],
    {"rank": "x", "start": None, "created": "yesterday"},
    {"created": float("nan"), "stream": -1},
    {"time": "now", "step": "x", "made": 5, "dropped": "many", "lost": None, "odd": []},
    {"time": 1e300, "step": 10**40, "made": {"x": None, "1": 10**30}, "odd": {"a": {}}, "how": ["?"]},
    {"time": float("nan"), "made": {"-1": -5}, "dropped": -3, "lost": 10**40, "how": None},
    {"world_size": 10**12},
    {"world_size": -4, "started": "x", "ended": 5},
]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return a_record(tmp_path / "run")


def stream_of(path: Path) -> int:
    return scan(path.read_bytes())[0][0].stream


def looked_at(path: Path) -> Run | None:
    """Read it in every way; only errors made on purpose may come out."""
    is_record(path)
    list_records(path.parent)
    try:
        follow(path).poll()
        run = read(path)
    except TraindxError:
        return None
    assert run.steps is None or len(run.steps) == 2
    run.between(0, 5)
    return run


@pytest.mark.parametrize("kind", [*Kind, 0, 77, 255])
def test_words_of_any_shape_in_any_frame(record: Path, kind: int) -> None:
    whole = cells(read(record))
    for file in files(record):
        data, stream = file.read_bytes(), stream_of(file)
        for value in VALUES:
            file.write_bytes(data + frame(kind, stream, 99, to_json(value)))
            run = looked_at(record)
            assert run is None or whole <= cells(run)
        file.write_bytes(data)


@pytest.mark.parametrize("kind", [Kind.ROWS, Kind.SPAN])
def test_numbers_that_claim_the_impossible(record: Path, kind: Kind) -> None:
    rng = random.Random(0)
    file = record / "rank0-start0" / "wide.0-000001.tdx"
    data, stream = file.read_bytes(), stream_of(file)
    rows = next(f for f in scan(data)[0] if f.kind == Kind.ROWS)
    extremes = [0, 1, 2, 50, 2**31, 2**32 - 1]
    for _ in range(120):
        payload = bytearray(rows.payload)
        for at in rng.sample(range(0, 24, 4), rng.randint(1, 3)):
            struct.pack_into("<I", payload, at, rng.choice(extremes))
        if rng.random() < 0.5:
            payload = payload[: rng.randrange(len(payload))] + rng.randbytes(rng.randrange(40))
        file.write_bytes(data + frame(kind, stream, 50, bytes(payload)))
        assert looked_at(record) is not None


def test_random_bytes_behind_a_right_checksum(record: Path) -> None:
    rng = random.Random(1)
    for file in files(record):
        data, stream = file.read_bytes(), stream_of(file)
        for _ in range(60):
            junk = b"".join(
                frame(rng.choice(list(Kind)), stream, rng.randrange(20), rng.randbytes(rng.randrange(200))) for _ in range(3)
            )
            file.write_bytes(data + junk)
            assert looked_at(record) is not None
        file.write_bytes(data)


def test_a_whole_file_of_junk(record: Path) -> None:
    rng = random.Random(2)
    for file in files(record):
        data = file.read_bytes()
        lying = HEAD.pack(b"\xd7TDX", 4, 1, 1, 2**31, 0)
        for junk in (b"", b"\0" * 5000, rng.randbytes(5000), prologue(), data * 2, data[::-1], lying):
            file.write_bytes(junk)
            run = looked_at(record)
            assert run is None or run.notes, (file.name, junk[:40])
        file.write_bytes(data)


def test_steps_at_the_ends_of_what_an_integer_holds(tmp_path: Path) -> None:
    from record.records import a_writer

    writer = a_writer(tmp_path / "run")
    for step in (0, 2**63 - 1, -(2**63), 5):
        writer.write(step, {"lr": 1.0, "grad_norm/param": np.ones(2)})
    writer.close()
    assert read(tmp_path / "run")["lr"].steps.tolist() == [-(2**63), 0, 5, 2**63 - 1]


def test_pipes_links_and_folders_in_place_of_files_are_not_followed(record: Path, tmp_path: Path) -> None:
    folder = record / "rank0-start0"
    secret = tmp_path / "secret"
    secret.write_bytes(b"do not read")
    (folder / "narrow.0-000777.tdx").symlink_to(secret)
    (folder / "narrow.0-000778.tdx").mkdir()
    os.mkfifo(folder / "narrow.0-000779.tdx")
    (record / "rank0-start5").symlink_to(tmp_path)
    (record / "rank0-start6").write_text("a file")
    (record / "run.json").unlink()
    os.mkfifo(record / "run.json")
    run = read(record)
    assert len(run["loss/train"]) == 12
    assert not any("7777" in note for note in run.notes)


def test_a_file_beyond_reason_is_read_only_so_far(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cells(read(record))
    monkeypatch.setattr("traindx.record.segment._MOST_BYTES", 10_000_000)
    monkeypatch.setattr("traindx.record.segment._AT_ONCE", 1_000_000)
    file = record / "rank0-start0" / "narrow.0-000001.tdx"
    with file.open("r+b") as sparse:
        sparse.truncate(8 << 40)
    run = read(record)
    assert cells(run) == whole
    assert any("larger than any segment" in note for note in run.notes)


def test_an_unreadable_file_is_noted_and_the_rest_is_read(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refusing(path: Any, *args: Any, **names: Any) -> Any:
        if Path(path).name.startswith("wide.0"):
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **names)

    monkeypatch.setattr(os, "open", refusing)
    run = read(record)
    assert len(run["loss/train"]) == 12
    assert any("cannot be read (Permission denied)" in note for note in run.notes)
    assert PROLOGUE.size == 16
