"""A damaged record: nothing wrong, at most one batch lost, and the loss is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from record.records import a_record, cells, files
from traindx.record import read
from traindx.run import Run

BATCH_CELLS = 3 * 5  # records of a batch × numbers of a record


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    path = a_record(tmp_path_factory.mktemp("damage") / "run", steps=range(9))
    run = read(path)
    assert run.notes == ()
    return path, run


def judged(damaged: Run, whole: Run, what: object) -> None:
    """The promise, for one damaged reading."""
    kept, should = cells(damaged), cells(whole)
    assert kept <= should, what  # nothing wrong
    assert len(should - kept) <= BATCH_CELLS, what  # one batch, of one stream
    for key, value in damaged.facts.items():
        assert key in ("ended", "started") or whole.facts[key] == value, what
    assert set(map(repr, damaged.events)) <= set(map(repr, whole.events)), what
    lost_words = len(whole.facts) - len(damaged.facts) + len(whole.events) - len(damaged.events)
    assert lost_words <= 1, what
    if len(kept) < len(should) or lost_words:
        assert damaged.notes or damaged.fact("ended") != "closed", what


def test_a_flipped_bit_in_every_byte(whole: tuple[Path, Run]) -> None:
    path, run = whole
    for file in files(path):
        data = file.read_bytes()
        for at in range(len(data)):
            broken = bytearray(data)
            broken[at] ^= 1 << (at % 8)
            file.write_bytes(broken)
            damaged = read(path)
            judged(damaged, run, (file.name, at))
            assert damaged.notes, (file.name, at)
        file.write_bytes(data)
    assert read(path) == run


def test_a_cut_at_every_byte(whole: tuple[Path, Run]) -> None:
    path, run = whole
    for file in files(path):
        data = file.read_bytes()
        for cut in range(len(data)):
            file.write_bytes(data[:cut])
            damaged = read(path)
            kept, should = cells(damaged), cells(run)
            assert kept <= should, (file.name, cut)
            assert damaged.notes or damaged.fact("ended") != "closed", (file.name, cut)
            before = {c for c in should if c[2] < _batches_before(data, cut) * 3}
            assert file.name.startswith("words") or before <= kept, (file.name, cut)
        file.write_bytes(data)
    assert read(path) == run


def _batches_before(data: bytes, cut: int) -> int:
    """Whole batches in the first `cut` bytes."""
    from traindx.record.format import Kind, scan

    return sum(f.kind == Kind.ROWS for f in scan(data[:cut])[0])


def test_zeroed_blocks_are_stepped_over(whole: tuple[Path, Run]) -> None:
    path, run = whole
    for file in files(path):
        data = file.read_bytes()
        for at in range(0, len(data), 64):
            broken = bytearray(data)
            broken[at : at + 64] = bytes(len(broken[at : at + 64]))
            file.write_bytes(broken)
            damaged = read(path)
            assert cells(damaged) <= cells(run)
            assert damaged.notes
        file.write_bytes(data)


def test_a_missing_file_is_a_reported_loss(whole: tuple[Path, Run]) -> None:
    path, run = whole
    for file in files(path):
        data = file.read_bytes()
        file.unlink()
        damaged = read(path)
        assert cells(damaged) <= cells(run)
        assert damaged.notes or damaged.fact("ended") != "closed", file.name
        file.write_bytes(data)


def test_garbage_and_foreign_files_do_no_harm(whole: tuple[Path, Run]) -> None:
    path, run = whole
    folder = path / "rank0-start0"
    strangers = [folder / "notes.txt", folder / "narrow.0-999999.tdx", path / "model.pt", path / "rank0-start0.bak"]
    for stranger in strangers:
        stranger.write_bytes(b"\x00\xff garbage" * 50)
    damaged = read(path)
    assert cells(damaged) == cells(run)
    assert any("999999" in note for note in damaged.notes)
    for stranger in strangers:
        stranger.unlink()


def test_a_segment_of_another_process_is_flagged(whole: tuple[Path, Run], tmp_path: Path) -> None:
    path, _ = whole
    other = a_record(tmp_path / "run", rank=3)
    copied = path / "rank0-start0" / "narrow.0-000007.tdx"
    copied.write_bytes((other / "rank3-start0" / "narrow.0-000001.tdx").read_bytes())
    assert any("another process" in note for note in read(path).notes)
    copied.unlink()


def test_without_or_with_a_changed_manifest_the_numbers_are_read(whole: tuple[Path, Run]) -> None:
    path, run = whole
    manifest = path / "run.json"
    text = manifest.read_bytes()
    for broken in (
        None,
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        text.replace(b'"name":"run"', b'"name":"won"'),
        b"\xff\xfe",
        b"x" * 2_000_000,
    ):
        manifest.unlink() if broken is None else manifest.write_bytes(broken)
        damaged = read(path)
        assert cells(damaged) == cells(run)
        assert any("run.json" in note for note in damaged.notes)
        manifest.write_bytes(text)
