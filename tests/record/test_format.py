"""Frames, and what may stand in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from traindx.record import format as f

LAYOUT = f.Layout(
    (f.Column("loss/train", None, False, 0), f.Column("grad_norm/param", 3, False, 7), f.Column("mem/rss", None, True, 0))
)


def frames(*payloads: bytes) -> bytes:
    return f.prologue() + b"".join(f.frame(f.Kind.FACTS, 9, i + 1, p) for i, p in enumerate(payloads))


def test_frames_come_back_in_order() -> None:
    found, gaps, end = f.scan(frames(b"{}", b"", b"abc"))
    assert [bytes(x.payload) for x in found] == [b"{}", b"", b"abc"]
    assert [x.seq for x in found] == [1, 2, 3]
    assert not gaps
    assert end == len(frames(b"{}", b"", b"abc"))


def test_one_flipped_bit_costs_one_frame() -> None:
    data = frames(b"first", b"second", b"third")
    for at in range(f.PROLOGUE.size, len(data)):
        for bit in (1, 128):
            broken = bytearray(data)
            broken[at] ^= bit
            found, gaps, _ = f.scan(bytes(broken))
            assert len(found) == 2, at
            assert len(gaps) == 1


def test_a_cut_leaves_whole_frames() -> None:
    data = frames(b"first", b"second", b"third")
    for cut in range(f.PROLOGUE.size, len(data) + 1):
        found, gaps, end = f.scan(data[:cut])
        assert [bytes(x.payload) for x in found] == [b"first", b"second", b"third"][: len(found)]
        whole = found[-1].offset + found[-1].size if found else f.PROLOGUE.size
        assert end == whole
        assert (not gaps) == (whole == cut)
        assert all(g.torn for g in gaps)


def test_a_hole_of_zeros_is_stepped_over() -> None:
    data = bytearray(frames(b"x" * 200, b"y" * 200, b"z" * 200))
    data[100:400] = bytes(300)
    found, gaps, _ = f.scan(bytes(data))
    assert [bytes(x.payload)[:1] for x in found] == [b"z"]
    assert len(gaps) == 1


def test_a_length_beyond_reason_allocates_nothing() -> None:
    head = f.HEAD.pack(f.MAGIC, f.Kind.FACTS, 9, 1, 2**32 - 1, 0)[:-4]
    data = f.prologue() + head + f.CRC.pack(0) + b"rest"
    assert f.scan(data)[0] == []


def test_the_version_is_read_only_from_a_whole_prologue() -> None:
    assert f.version_of(f.prologue()) == f.VERSION
    assert f.version_of(f.prologue(7)) == 7
    for at in range(f.PROLOGUE.size):
        broken = bytearray(f.prologue())
        broken[at] ^= 2
        assert f.version_of(bytes(broken)) is None
    assert f.version_of(b"") is None


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(
            hnp.arrays(np.int64, n),
            hnp.arrays(np.float64, n),
            hnp.arrays(np.float32, (n, LAYOUT.singles)),
            hnp.arrays(np.float64, (n, LAYOUT.doubles)),
        )
    ),
    st.integers(0, 2**40),
)
@settings(max_examples=60, deadline=None)
def test_rows_come_back_bit_for_bit(arrays: tuple[np.ndarray, ...], first: int) -> None:
    rows = f.Rows(LAYOUT.identity, first, 1, *arrays)
    back = f.unpack_rows(memoryview(f.pack_rows(rows)), {LAYOUT.identity: LAYOUT})
    assert back.first == first
    for a, b in zip((back.steps, back.times, back.singles, back.doubles), arrays):
        assert a.tobytes() == b.tobytes()


def test_rows_that_do_not_fit_their_layout_are_refused() -> None:
    rows = f.Rows(LAYOUT.identity, 0, 1, np.zeros(2, np.int64), np.zeros(2), np.zeros((2, 4), np.float32), np.zeros((2, 1)))
    packed = f.pack_rows(rows)
    with pytest.raises(ValueError, match="do not fit"):
        f.unpack_rows(memoryview(packed[:-1]), {LAYOUT.identity: LAYOUT})
    with pytest.raises(KeyError):
        f.unpack_rows(memoryview(packed), {})
    with pytest.raises(ValueError, match="too short"):
        f.unpack_rows(memoryview(b"abc"), {LAYOUT.identity: LAYOUT})
    with pytest.raises(ValueError, match="too short"):
        f.unpack_span(memoryview(b"abc"), {LAYOUT.identity: LAYOUT})


def test_a_span_comes_back() -> None:
    marks = np.zeros(2, f.MARK_TYPE)
    marks["column"], marks["value"] = [1, 4], [np.nan, 7.0]
    counts = np.zeros(1, f.COUNT_TYPE)
    span = f.Span(LAYOUT.identity, 50, 100, (5, 60), 9.0, np.ones((4, 4), np.float32), np.full((4, 1), np.inf), marks, counts)
    back = f.unpack_span(memoryview(f.pack_span(span)), {LAYOUT.identity: LAYOUT})
    assert (back.first, back.count, back.last, back.steps, back.time) == (50, 100, 149, (5, 60), 9.0)
    assert back.marks.tobytes() == marks.tobytes()
    assert np.isinf(back.doubles).all()


@pytest.mark.parametrize(
    "rows", [None, {}, [], [["a", 10**9, 0, 0]], [["a", -1, 0, 0]], [[1, 2, 0, 0]], [["a"]], "text", [["a", 1.5, 0, 0]]]
)
def test_a_layout_that_claims_the_impossible_is_refused(rows: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        f.Layout.of(rows)


def test_a_layout_knows_its_places() -> None:
    assert [(c.signal, at) for c, at in LAYOUT.places] == [("loss/train", 0), ("grad_norm/param", 1), ("mem/rss", 0)]
    assert f.Layout.of(f.from_json(LAYOUT.text)).identity == LAYOUT.identity


def test_words_hold_what_json_cannot() -> None:
    value = {"nan": float("nan"), "np": np.float32(1.5), "array": np.arange(3), "set": {2, 1}, "bytes": b"x", "lone": "\ud800"}
    back = f.from_json(f.to_json(value))
    assert back["np"] == 1.5
    assert back["array"] == [0, 1, 2]
    assert back["set"] == [1, 2]
    assert back["nan"] != back["nan"]


def test_nesting_beyond_reason_is_a_value_error() -> None:
    with pytest.raises(ValueError):
        f.from_json(b"[" * 200_000 + b"]" * 200_000)
