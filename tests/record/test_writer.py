"""The caller's end: nothing waits, nothing raises, and what was written comes back."""

from __future__ import annotations

import decimal
import gc
import math
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import not_hanging, until
from record.records import NAMES, a_record, a_writer, loss_at, norms_at, write_step
from traindx.record import read
from traindx.record import worker as worker_module
from traindx.run import Event, Run


def written(path: Path, *records: tuple[Any, Any]) -> Run:
    writer = a_writer(path)
    for step, values in records:
        writer.write(step, values)
    writer.close()
    return read(path)


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    run = read(a_record(tmp_path / "run"))
    assert run["loss/train"].values.tolist() == [loss_at(s) for s in range(12)]
    assert run["loss/train"].times.tolist() == [1000.0 + s for s in range(12)]
    assert run["grad_norm/param"].names == NAMES
    assert np.array_equal(run["grad_norm/param"].values, np.stack([norms_at(s) for s in range(12)]))
    assert run.facts["optimizer.name"] == "SGD"
    assert run.facts["ended"] == "closed"
    assert run.events == (Event(2, "spike", {"signal": "loss/train"}, 1002.0),)
    assert run.notes == ()
    assert run.kind == "record"


NUMBER = st.one_of(st.floats(width=32), st.floats(), st.integers(-(2**53), 2**53), st.booleans())


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["loss/train", "lr", "metric/val/f1", "mem/rss"]),
            NUMBER,
            max_size=4,
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.lists(NUMBER, min_size=2, max_size=2), max_size=4),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_numbers_come_back(
    tmp_path_factory: pytest.TempPathFactory, scalars: list[dict[str, Any]], rows: list[list[Any]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "run"
    records = [*enumerate(scalars), *((100 + i, {"grad_norm/param": row}) for i, row in enumerate(rows))]
    run = written(path, *records)
    for name in {n for values in scalars for n in values}:
        wanted = [float(v[name]) for v in scalars if name in v]
        assert len(run[name]) == len(wanted)
        for got, want in zip(run[name].values, wanted):
            same = got == want or (math.isnan(want) and math.isnan(got))
            assert same or math.isclose(got, want, rel_tol=2**-24)  # 32 bits where that is enough
            assert same or not (want.is_integer() and abs(want) >= 2**24)  # whole numbers are never rounded
            assert np.isfinite(got) == np.isfinite(want)
    assert len(run.matrix("grad_norm/param")) == len(rows)


def test_fingerprints_and_bytes_keep_every_bit(tmp_path: Path) -> None:
    prints = [2**52 - 1 - i for i in range(5)]
    run = written(
        tmp_path / "run", *((i, {"batch/fingerprint": p, "mem/rss": 2**34 + i, "lr": 0.1}) for i, p in enumerate(prints))
    )
    assert run["batch/fingerprint"].values.astype(np.int64).tolist() == prints
    assert run["mem/rss"].values.tolist() == [2**34 + i for i in range(5)]


def test_numbers_that_are_not_finite_survive(tmp_path: Path) -> None:
    odd = [math.nan, math.inf, -math.inf, 1e300, 1e-300, -0.0]
    run = written(tmp_path / "run", *((i, {"loss/train": v, "grad_norm/param": np.array([v, 1.0])}) for i, v in enumerate(odd)))
    assert [repr(float(v)) for v in run["loss/train"].values] == [repr(v) for v in odd]
    assert [repr(float(v)) for v in run["grad_norm/param"].values[:, 0]] == [repr(v) for v in odd]


class Blocks:
    """Would never come back from being asked for a number."""

    def __float__(self) -> float:
        threading.Event().wait()
        return 0.0


@pytest.mark.parametrize(
    "value",
    [None, "7", 1j, [1, "x"], {"a": 1}, object(), Blocks(), np.zeros((2, 2)), np.array(["a"]), np.array([None]), [[1, 2], [3]]],
    ids=["none", "text", "complex", "mixed list", "dict", "object", "blocks", "square", "words", "objects", "ragged"],
)
def test_what_is_no_number_is_left_out_and_counted(tmp_path: Path, value: Any) -> None:
    run = written(tmp_path / "run", (0, {"loss/train": 1.0}), (1, {"loss/train": value, "lr": 0.1}), (2, {"loss/train": 2.0}))
    assert run["loss/train"].values.tolist() == [1.0, 2.0]
    assert run["lr"].values.tolist() == pytest.approx([0.1])
    assert any("1 values that are no numbers" in note for note in run.notes)


def test_odd_but_honest_numbers_are_taken(tmp_path: Path) -> None:
    values = [np.float16(0.5), np.array(0.5), np.int8(3), decimal.Decimal("0.5"), True, 10**400, np.array([], np.float32)]
    run = written(tmp_path / "run", *((i, {f"metric/other/{i}": v}) for i, v in enumerate(values)))
    got = [run[f"metric/other/{i}"].last for i in range(6)]
    assert got == [0.5, 0.5, 3.0, 0.5, 1.0, math.inf]
    assert run["metric/other/6"].values.shape == (1, 0)


@pytest.mark.parametrize("step", [None, "x", 2**70, float("nan"), float("inf"), [1]])
def test_a_step_that_is_no_number_is_counted(tmp_path: Path, step: Any) -> None:
    run = written(tmp_path / "run", (0, {"lr": 1.0}), (step, {"lr": 2.0}))
    assert run["lr"].values.tolist() == [1.0]
    assert any("step" in note for note in run.notes)


def test_values_that_are_no_mapping_are_counted(tmp_path: Path) -> None:
    run = written(tmp_path / "run", (0, {"lr": 1.0}), (1, None), (2, 3.0), (3, {}))
    assert len(run["lr"]) == 1
    assert any("2 records whose step" in note for note in run.notes)


def test_strange_names_are_tamed(tmp_path: Path) -> None:
    names = ["", 5, "a" * 10_000, "lone \ud800", "nul \0", "new\nline", "__proto__", "метрика/😀"]
    run = written(tmp_path / "run", *((i, {name: 1.0}) for i, name in enumerate(names)))
    assert all(len(name.encode()) <= 256 for name in run.signals)
    assert {"nul \0", "new\nline", "__proto__", "метрика/😀"} <= set(run.signals)
    assert any("2 signals whose name is no text" in note for note in run.notes)


def test_too_many_names_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traindx.record.intake.MOST_SIGNALS", 50)
    monkeypatch.setattr("traindx.record.intake.MOST_LAYOUTS", 5)
    run = written(tmp_path / "run", *((i, {f"metric/other/{i}": 1.0, f"metric/other/{i + 1}": 2.0}) for i in range(300)))
    assert len(run.signals) == 50
    assert any("beyond the first 50" in note for note in run.notes)


def test_a_matrix_whose_width_changes_for_ever_is_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traindx.record.intake.MOST_FORMS", 10)
    run = written(tmp_path / "run", *((i, {"grad_norm/param": np.ones(i + 1, np.float32)}) for i in range(30)))
    assert len(run["grad_norm/param"]) == 10
    assert any("20 records beyond the forms" in note for note in run.notes)


def test_a_signal_is_a_number_or_a_list_not_both(tmp_path: Path) -> None:
    run = written(tmp_path / "run", (0, {"lr": 1.0}), (1, {"lr": [1.0, 2.0]}), (2, {"lr": 3.0}))
    assert run["lr"].values.tolist() == [1.0, 3.0]
    assert any("number once and a list" in note for note in run.notes)


def test_names_may_change_on_the_way(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "run")
    writer.names("grad_norm/param", ("a", "b"))
    writer.write(0, {"grad_norm/param": np.array([1.0, 2.0])})
    writer.names("grad_norm/param", ("b", "c"))
    writer.write(1, {"grad_norm/param": np.array([3.0, 4.0])})
    writer.close()
    matrix = read(tmp_path / "run")["grad_norm/param"]
    assert matrix.names == ("a", "b", "c")
    assert np.array_equal(matrix.values, [[1, 2, np.nan], [np.nan, 3, 4]], equal_nan=True)


def test_names_that_do_not_fit_are_noted(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "run")
    writer.names("grad_norm/param", ("a",))
    writer.write(0, {"grad_norm/param": np.array([1.0, 2.0])})
    writer.close()
    run = read(tmp_path / "run")
    assert run["grad_norm/param"].names == ("a", "1")
    assert any("with 2 values for 1 names" in note for note in run.notes)


def test_later_facts_override_and_unwritable_ones_are_counted(tmp_path: Path) -> None:
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    writer = a_writer(tmp_path / "run")
    writer.fact("seeds", {"torch": False})
    writer.fact("device", cycle)
    writer.flush()
    writer.fact("seeds", {"torch": True, "shape": (1, 2), "array": np.arange(2)})
    writer.note("imported by hand")
    writer.close()
    run = read(tmp_path / "run")
    assert run.facts["seeds"] == {"torch": True, "shape": [1, 2], "array": [0, 1]}
    assert "device" not in run.facts
    assert run.notes[0] == "imported by hand"
    assert any("cannot be written (device" in note for note in run.notes)


def test_steps_that_go_back_are_put_in_order_and_noted_once(tmp_path: Path) -> None:
    run = written(tmp_path / "run", (5, {"lr": 5.0}), (3, {"lr": 3.0}), (3, {"lr": 3.5}), (7, {"lr": 7.0}))
    assert run["lr"].steps.tolist() == [3, 3, 5, 7]
    assert run["lr"].values.tolist() == [3.0, 3.5, 5.0, 7.0]
    assert sum("were written late" in note for note in run.notes) == 1


def test_files_are_for_this_user_only(tmp_path: Path) -> None:
    path = a_record(tmp_path / "deep" / "down" / "run")
    for folder, _, names in os.walk(tmp_path / "deep"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert all(stat.S_IMODE(os.stat(Path(folder, n)).st_mode) == 0o600 for n in names)
    assert sorted(p.name for p in path.iterdir()) == ["rank0-start0", "run.json"]


def test_a_relative_place_stays_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = a_writer(Path("here"))
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    writer.write(0, {"lr": 1.0})
    writer.close()
    assert len(read(tmp_path / "here")["lr"]) == 1


def test_a_surplus_is_dropped_and_counted_never_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MOST_QUEUED", 100)
    said: list[str] = []
    gate = threading.Event()
    monkeypatch.setattr(
        "traindx.record.shelf.claim", lambda *a, **k: gate.wait(600) and (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    writer = a_writer(tmp_path / "run", say=said.append)
    write_step(writer, 0)
    time.sleep(0.05)
    writer.flush(wait=0.1)  # the thread now hangs in a disk that does not answer
    with not_hanging():
        for step in range(5000):
            write_step(writer, step)
        assert writer.dropped >= 4900
        writer.close(wait=0.2)
    gate.set()


def test_dropping_is_one_event_and_ends_with_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "MOST_QUEUED", 10)
    writer = a_writer(tmp_path / "run", flush=0.01)
    for step in range(2000):
        write_step(writer, step)
    assert writer.dropped
    writer.flush()
    assert writer.state == "dropping"
    assert until(lambda: writer.state == "ok")
    writer.close()
    run = read(tmp_path / "run")
    changes = [e.data["to"] for e in run.events_of("record")]
    assert changes == ["dropping", "ok"]
    assert any("were left out" in note for note in run.notes)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_tolerated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: Any, final: Any) -> None:
        raise SystemExit

    monkeypatch.setattr(worker_module.Worker, "_guarded_turn", die)
    writer = a_writer(tmp_path / "run", flush=0.01)
    writer._worker.thread.join(5)
    for step in range(100):
        write_step(writer, step)
    writer.fact("a", 1)
    writer.event(Event(0, "spike"))
    assert not writer.flush(wait=5)
    with not_hanging():
        writer.close()
    assert writer.state == "off"
    assert writer.dropped == 100


def test_a_bug_of_ours_switches_recording_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(worker_module.Worker, "_take", lambda *_: 1 / 0)
    writer = a_writer(tmp_path / "run", say=said.append, flush=0.01)
    write_step(writer, 0)
    writer._worker.thread.join(5)
    assert writer.state == "off"
    assert len(said) == 1
    assert "ZeroDivisionError" in said[0]


def test_no_thread_to_be_had_means_no_record_and_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    said: list[str] = []
    writer = a_writer(tmp_path / "run", say=said.append)
    write_step(writer, 0)
    writer.close()
    assert writer.state == "off"
    assert said == ["recording is off: can't start new thread"]


def test_calls_after_close_do_nothing(tmp_path: Path) -> None:
    path = a_record(tmp_path / "run")
    writer = a_writer(path)
    writer.close()
    writer.close()
    write_step(writer, 99)
    writer.fact("a", 1)
    writer.names("x", ["y"])
    assert not writer.flush()
    assert writer.dropped == 0
    assert "a" not in read(path).facts


def test_a_run_in_which_nothing_happens_leaves_nothing(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "run", flush=0.01)
    time.sleep(0.05)
    writer.close()
    assert writer.state == "closed"
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_writer_ends_by_itself(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "run")
    write_step(writer, 0)
    thread = writer._worker.thread
    del writer
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()
    assert read(tmp_path / "run").facts["ended"] == "abandoned"


def test_closing_leaves_no_thread_and_no_open_file(tmp_path: Path) -> None:
    before, fds = threading.active_count(), len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    for i in range(20):
        a_record(tmp_path / f"run{i}", steps=range(3))
    assert threading.active_count() == before
    assert fds == 0 or len(os.listdir("/proc/self/fd")) <= fds


def test_a_forked_child_writes_nothing_and_may_record_elsewhere(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "run", flush=0.01)
    for step in range(50):
        write_step(writer, step)
        if step % 10 == 0 and (child := os.fork()) == 0:
            write_step(writer, 1000 + step)
            writer.fact("child", True)
            writer.flush()
            writer.close()
            own = a_writer(tmp_path / f"child{step}")
            write_step(own, 7)
            own.close()
            os._exit(0 if own.state == "closed" else 1)
        elif step % 10 == 0:
            assert os.waitpid(child, 0)[1] == 0
    writer.close()
    run = read(tmp_path / "run")
    assert run["loss/train"].steps.tolist() == list(range(50))
    assert "child" not in run.facts
    assert read(tmp_path / "child0")["loss/train"].steps.tolist() == [7]


def test_many_threads_may_write(tmp_path: Path) -> None:
    writer = a_writer(tmp_path / "run")

    def work(k: int) -> None:
        for i in range(200):
            writer.write(i, {f"metric/other/{k}": float(i)})

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    run = read(tmp_path / "run")
    assert all(run[f"metric/other/{k}"].values.tolist() == list(range(200)) for k in range(8))


SCRIPT = """
import sys
from traindx.record import Writer
writer = Writer(sys.argv[1])
for step in range(100):
    writer.write(step, {"loss/train": 1.0})
%s
"""


@pytest.mark.parametrize(
    ("end", "code", "how"),
    [("", 0, "exit"), ("sys.exit(3)", 3, "exit"), ("raise KeyError('mine')", 1, "exit"), ("import os; os._exit(4)", 4, None)],
)
def test_the_process_leaves_as_it_would_have(tmp_path: Path, end: str, code: int, how: str | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT % end, str(tmp_path / "run")], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == code
    assert done.stdout == ""
    assert ("mine" in done.stderr) == ("mine" in end)
    assert done.stderr == "" or "mine" in done.stderr
    if how:
        run = read(tmp_path / "run")
        assert len(run["loss/train"]) == 100
        assert run.facts["ended"] == how
