"""Long runs: bounded on disk and in memory, and no spike, no non-finite count and no record is silently gone."""

from __future__ import annotations

import gc
import itertools
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from record.records import files, quiet
from traindx.record import Budget, read
from traindx.record.format import COUNT_TYPE, MARK_TYPE, Column, Layout, Rows, Span
from traindx.record.tiers import EVERY, FAN, SPAN, STANDS_OUT, Tape, merged
from traindx.record.worker import Worker

TINY = Budget(
    narrow=(24_000, 8_000, 8_000, 8_000, 8_000), wide=(60_000, 20_000, 40_000, 20_000, 20_000), words=200_000, parts=4
)


class ByHand:
    """A worker driven turn by turn, without its thread."""

    def __init__(self, path: Path, budget: Budget = TINY) -> None:
        self.path = path
        self.worker = Worker(path, 0, budget, "run", quiet, {"sync": 0.0})

    def write(self, steps: range, values: Any) -> None:
        for step in steps:
            self.worker.queue.append((step, float(step), values(step)))

    def turn(self, final: str | None = None) -> None:
        self.worker.turn(final)


def size(path: Path) -> int:
    return sum(f.stat().st_size for f in files(path))


def long_run(path: Path, steps: int, values: Any, *, batch: int = 200, budget: Budget = TINY) -> None:
    hand = ByHand(path, budget)
    for a in range(0, steps, batch):
        hand.write(range(a, min(a + batch, steps)), values)
        hand.turn()
        assert size(path) <= budget.total
    hand.turn("closed")


SPIKES = {701: 90.0, 9_999: 70.0, 17_123: -80.0}


NOISE = np.random.default_rng(0).normal(size=(20_000, 9))


def noisy(step: int) -> dict[str, Any]:
    loss = 2.0 + 0.1 * NOISE[step, 8]
    norms = (1.0 + 0.1 * NOISE[step, :8]).astype(np.float32)
    if step in SPIKES:
        loss, norms[3] = SPIKES[step], SPIKES[step]
    if step in (2_500, 2_501):
        loss, norms[5] = float("nan"), np.inf
    return {"loss/train": loss, "lr": 0.1, "grad_norm/param": norms}


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiers") / "run"
    long_run(path, 20_000, noisy)
    return path


def test_a_long_run_stays_within_its_bytes(thinned: Path) -> None:
    levels = {f.name.split("-")[0] for f in files(thinned)}
    assert {"narrow.0", "narrow.1", "narrow.2", "wide.0", "wide.1", "wide.2", "words"} <= levels
    assert size(thinned) <= TINY.total


def test_every_spike_survives_at_its_own_step(thinned: Path) -> None:
    run = read(thinned)
    for signal in (run["loss/train"], run["grad_norm/param"].column("3")):
        for step, value in SPIKES.items():
            assert value in signal.values[signal.steps == step].tolist(), step


def test_nothing_but_true_numbers_is_shown(thinned: Path) -> None:
    run = read(thinned)
    loss, norms = run["loss/train"], run["grad_norm/param"]
    assert len(np.unique(loss.steps)) == len(loss)
    for step, value in zip(loss.steps.tolist(), loss.values.tolist()):
        true = noisy(step)["loss/train"]
        assert np.float32(value) == np.float32(true) or (value != value and true != true)
    for step, row in zip(norms.steps.tolist(), norms.values):
        true = noisy(step)["grad_norm/param"]
        assert np.all(np.isnan(row) | (row.astype(np.float32) == true)), step


def test_noise_alone_adds_no_extremes(thinned: Path) -> None:
    """Shown extremes would make an old part look wilder than the new: only what stands out may be shown."""
    loss = read(thinned)["loss/train"]
    odd = [s for s in loss.steps.tolist() if s < 10_000 and (s + 1) % EVERY]
    assert set(odd) <= {701, 9_999, 2_500}


def test_values_that_were_not_finite_are_shown_and_counted(thinned: Path) -> None:
    run = read(thinned)
    loss = run["loss/train"]
    assert np.isnan(loss.values[loss.steps == 2_500]).all()
    assert (loss.steps == 2_500).any()
    assert np.isinf(run["grad_norm/param"].column("5").values).any()
    assert any("loss/train: 2 values in them were not finite (2 NaN, 0 infinite)" in note for note in run.notes)
    assert any("grad_norm/param: 2 values in them were not finite (0 NaN, 2 infinite)" in note for note in run.notes)
    assert not any("lost" in note for note in run.notes)


def test_the_newest_records_are_all_there(thinned: Path) -> None:
    run = read(thinned)
    for signal in (run["loss/train"], run["grad_norm/param"]):
        newest = signal.steps[signal.steps > 19_700]
        assert newest.tolist() == list(range(19_701, 20_000))


def test_rare_signals_are_kept_whole_while_dense_ones_are_thinned(tmp_path: Path) -> None:
    def values(step: int) -> dict[str, Any]:
        rare = {"loss/val": float(step), "eval/recall/class": np.full(4, step, np.float32)} if step % 200 == 0 else {}
        return {**noisy(step), **rare}

    long_run(tmp_path / "run", 12_000, values)
    run = read(tmp_path / "run")
    assert run["loss/val"].values.tolist() == list(range(0, 12_000, 200))
    assert run["eval/recall/class"].steps.tolist() == list(range(0, 12_000, 200))
    assert len(run["loss/train"]) < 6_000


@pytest.mark.parametrize(
    "sizes",
    [(1, 1_532, 1_618, 141), (1_700, 37, 1_700, 141, 1), (5_000, 1, 1, 1), (1,) * 9, (1, 2) * 1_000, (1,) * 1_000 + (3_000,)],
    ids=lambda sizes: f"{len(sizes)} batches of {sizes[0]}",
)
def test_nothing_is_lost_however_unevenly_records_come(
    tmp_path: Path, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # nobody pulls the plug here, and thousands take long
    hand = ByHand(tmp_path / "run", Budget().scaled(1 / 2000))
    at = 0
    for size in sizes:
        hand.write(range(at, at + size), lambda step: {"lr": 0.1, "grad_norm/param": np.full(20, step, np.float32)})
        hand.turn()
        at += size
    hand.turn("closed")
    hand.worker.shelf.close()
    assert not any("lost" in note for note in read(tmp_path / "run").notes)


def test_a_run_that_fits_is_not_thinned(tmp_path: Path) -> None:
    long_run(tmp_path / "run", 3_000, noisy, budget=Budget().scaled(0.05))
    run = read(tmp_path / "run")
    assert len(run["loss/train"]) == 3_000
    assert run.notes == ()


class Killed(BaseException):
    """Stands for kill -9: nothing of ours runs after it."""


def killed_at(k: int, patch: pytest.MonkeyPatch) -> None:
    """Let the process die before its k-th call to the system."""
    count = itertools.count(1)
    for name in ("write", "fsync", "open", "unlink", "mkdir", "link"):
        patch.setattr(os, name, _mortal(getattr(os, name), count, k))


def _mortal(real: Any, count: Iterator[int], k: int) -> Any:
    def call(*args: Any, **names: Any) -> Any:
        if next(count) >= k:
            raise Killed
        return real(*args, **names)

    return call


def survives(path: Path, k: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the run was over before the k-th call; checks what a reader finds after dying there."""
    hand = ByHand(path, Budget(narrow=(17_000, 8_000, 8_000, 8_000, 8_000), wide=(17_000,) * 5, words=200_000, parts=4))
    done, over = 0, False
    with monkeypatch.context() as patch:
        killed_at(k, patch)
        try:
            for a in range(0, 1_500, 50):
                hand.write(range(a, a + 50), noisy)
                hand.turn()
                done = a + 50
            over = True
        except Killed:
            over = False
    if done:
        run = read(path)
        for signal in (run["loss/train"], run["grad_norm/param"]):
            assert len(np.unique(signal.steps)) == len(signal), k  # nothing doubled
            assert signal.steps[-1] >= done - 1, k
        assert not any("lost" in note for note in run.notes), (k, run.notes)
        spike = run["loss/train"]
        assert done <= 701 or 90.0 in spike.values[spike.steps == 701], k
    hand.worker.shelf.close()
    return over


def test_dying_before_some_calls_to_the_system_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in range(3, 400, 17):
        survives(tmp_path / str(k), k, monkeypatch)


@pytest.mark.slow
def test_dying_before_any_call_to_the_system_loses_and_doubles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in itertools.count(1):
        if survives(tmp_path / str(k), k, monkeypatch):
            break
    assert k > 200


def test_memory_is_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    hand = ByHand(tmp_path / "run")

    def stretch(a: int, b: int) -> None:
        for i in range(a, b, 50):
            hand.write(range(i, i + 50), noisy)
            hand.turn()

    stretch(0, 8_000)
    gc.collect()
    tracemalloc.start()
    try:
        first = tracemalloc.get_traced_memory()[0]
        stretch(8_000, 16_000)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - first
    finally:
        tracemalloc.stop()
    assert grown < 200_000


# -- the sums against a slow, obvious twin --------------------------------------------------------------------------------

LAYOUT = Layout((Column("a", 3, False, 1), Column("b", None, True, 0)))


def rows_of(table: np.ndarray, wide: np.ndarray, first: int = 0) -> Rows:
    n = len(table)
    return Rows(
        LAYOUT.identity, first, 1, 10 * np.arange(first, first + n), np.arange(first, first + n, dtype=float), table, wide
    )


def spans_of(
    table: np.ndarray, wide: np.ndarray, cuts: list[int], span: int = SPAN
) -> tuple[list[Rows], list[Span], list[Span]]:
    tape = Tape(LAYOUT)
    thin: list[Rows] = []
    spans: list[Span] = []
    larger: list[Span] = []
    for a, b in itertools.pairwise([0, *cuts, len(table)]):
        for level, part in tape.add(tape.number(rows_of(table[a:b], wide[a:b], a)), span):
            if isinstance(part, Rows):
                thin.append(part)
            else:
                (spans if level == 2 else larger).append(part)
    return thin, spans, larger


def a_table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, 3)).astype(np.float32)
    table[:, 2] = np.nan
    table[n // 2, 0] = np.nan
    table[n // 3, 1] = -np.inf
    wide = rng.normal(size=(n, 1)) * 1e200
    wide[5] = np.inf
    return table, wide


def test_a_span_is_what_a_slow_look_gives() -> None:
    table, wide = a_table(2_000)
    thin, spans, _ = spans_of(table, wide, [7, 333, 334, 1_500])
    assert len(spans) == 2
    assert np.concatenate([t.steps for t in thin]).tolist() == [10 * i for i in range(EVERY - 1, 2_000, EVERY)]
    for i, span in enumerate(spans):
        rows = slice(1000 * i, 1000 * (i + 1))
        for stats, own in ((span.singles, table[rows]), (span.doubles, wide[rows])):
            for j in range(own.shape[1]):
                finite = own[np.isfinite(own[:, j]), j]
                wanted = (
                    [finite.min(), finite.max(), finite.mean(dtype=np.float64), own[-1, j]] if len(finite) else [np.nan] * 4
                )
                assert stats[:, j] == pytest.approx(wanted, rel=1e-6, nan_ok=True)
        counts = {int(c["column"]): (int(c["nan"]), int(c["up"]), int(c["down"])) for c in span.counts}
        own = np.concatenate([table[rows], wide[rows]], axis=1)
        for j in range(4):
            wanted = (np.isnan(own[:, j]).sum(), np.isposinf(own[:, j]).sum(), np.isneginf(own[:, j]).sum())
            assert counts.get(j, (0, 0, 0)) == wanted
        assert (span.first, span.last, span.steps) == (1000 * i, 1000 * i + 999, (10_000 * i, 10_000 * i + 9_990))


def test_spans_of_spans_are_spans_of_their_records() -> None:
    n = EVERY * FAN
    table, wide = a_table(n)
    _, spans, larger = spans_of(table, wide, [11, 700], span=EVERY)
    assert (len(spans), len(larger)) == (FAN, 1)
    _, [whole], _ = spans_of(table, wide, [], span=n)
    [joined] = larger
    assert joined.singles == pytest.approx(whole.singles, rel=1e-5, nan_ok=True)
    assert joined.doubles == pytest.approx(whole.doubles, rel=1e-12, nan_ok=True)
    assert joined.counts.tobytes() == whole.counts.tobytes()
    assert (joined.first, joined.count, joined.steps) == (whole.first, whole.count, whole.steps)


def shapes() -> dict[str, np.ndarray]:
    n = 1000
    t = np.arange(n)
    rng = np.random.default_rng(1)
    return {
        "constant": np.ones(n),
        "noise": rng.normal(size=n),
        "falling": 10 * np.exp(-t / 300) + 0.05 * rng.normal(size=n),
        "heavy tails": np.exp(rng.normal(size=n)),
        "oscillating": np.sin(t / 40),
    }


@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("length", [1, 5])
def test_a_spike_is_marked_whatever_surrounds_it(shape: str, length: int) -> None:
    table = np.repeat(shapes()[shape][:, None], 3, axis=1).astype(np.float32)
    at = slice(612, 612 + length)
    usual = np.abs(np.diff(table[:, 1])).mean()
    table[at, 1] += 40 * max(usual, 0.01)
    _, [span], _ = spans_of(table, np.zeros((1000, 1)), [])
    marks = span.marks[span.marks["column"] == 1]
    assert any(612 <= m["row"] < 612 + length and m["value"] == table[int(m["row"]), 1] for m in marks), shape


def test_smooth_or_noisy_signals_are_not_marked() -> None:
    for name in ("constant", "noise", "falling"):
        table = np.repeat(shapes()[name][:, None], 3, axis=1).astype(np.float32)
        _, [span], _ = spans_of(table, np.zeros((1000, 1)), [])
        assert not len(span.marks), name


def test_false_marks_on_noise_are_rare() -> None:
    rng = np.random.default_rng(2)
    marks = sum(
        len(spans_of(rng.normal(size=(1000, 3)).astype(np.float32), np.zeros((1000, 1)), [])[1][0].marks) for _ in range(100)
    )
    assert marks <= 3  # of 300,000 values
    assert STANDS_OUT == 6


def test_marks_of_heavy_tails_are_limited() -> None:
    layout = Layout((Column("a", 2_000, False, 1),))
    tape = Tape(layout)
    rng = np.random.default_rng(0)
    table = np.exp(3 * rng.normal(size=(1000, 2_000))).astype(np.float32)
    rows = Rows(layout.identity, 0, 1, np.arange(1000), np.zeros(1000), table, np.zeros((1000, 0)))
    [span] = [p for _, p in tape.add(tape.number(rows), SPAN) if isinstance(p, Span)]
    assert len(span.marks) <= 500
    again = merged([span, span], layout)
    assert len(again.marks) <= 500
    assert span.marks.dtype == MARK_TYPE
    assert span.counts.dtype == COUNT_TYPE
