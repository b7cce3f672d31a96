"""Bad and hostile files (reference section 6, rows 61 to 104): never a crash, a hang or a guess; what can be read is read."""

# ruff: noqa: E501 - rows of a table are easier to compare when they are not broken

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import socket
import sqlite3
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.importers import writers as w

from patience import not_hanging
from traindx import importers
from traindx.errors import EnvironmentFault, NothingReadable, PartlyReadable, TraindxError, UsageError
from traindx.importers import csvlog, source
from traindx.run import Run

LOGS = Path(__file__).parents[1] / "data" / "logs"


def outcome(path: object) -> list[Run] | TraindxError:
    try:
        return importers.read(path)
    except TraindxError as why:
        text = str(why)
        assert "\n" not in text and len(text) < 1500, "a message is one paragraph"
        return why


def put(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


# -- files that are something else


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("a.csv", b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG"),
        ("events.out.tfevents.1.x", b"\x7fELF" + bytes(100), "ELF"),
        ("events.out.tfevents.1.x", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "LFS"),
        ("log.csv", b"<!DOCTYPE html><html>404</html>", "HTML"),
        ("log.json", gzip.compress(bytes(10_000_000), mtime=0), "gzip"),
        ("log.csv.gz", gzip.compress(bytes(100), mtime=0), "gzip"),
        ("model.pt", b"PK\x03\x04" + bytes(100), "zip"),
        ("model.pkl", b"\x80\x04\x95" + bytes(100), "pickle"),
        ("x.log", bytes(range(256)) * 40, "binary"),
        ("empty.csv", b"", "empty"),
        ("words.txt", b"hello\nthis is prose about nothing\n" * 20, "no known log format"),
    ],
)
def test_what_is_no_log_is_named(tmp_path: Path, name: str, data: bytes, word: str) -> None:
    with pytest.raises(NothingReadable, match=word):
        importers.read(put(tmp_path, name, data))


def test_checkpoint_files_in_a_folder_are_never_loaded(tmp_path: Path) -> None:
    for name in ("model.safetensors", "pytorch_model.pt", "weights.pkl", "optimizer.bin"):
        put(tmp_path, name, b"\x80\x04cos\nsystem\n(S'touch /tmp/owned'\ntR.")
    with pytest.raises(NothingReadable, match="no training run found"):
        importers.read(tmp_path)


def test_devices_pipes_and_sockets_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    link = socket.socket(socket.AF_UNIX)
    link.bind(str(tmp_path / "s"))
    with not_hanging():
        for path in (tmp_path / "pipe.csv", tmp_path / "s", Path("/dev/zero"), Path("/dev/null")):
            assert isinstance(outcome(path), NothingReadable)
        assert isinstance(outcome(tmp_path), NothingReadable)
    link.close()


@pytest.mark.parametrize("name", ["nowhere.csv", "a\x00b", "x" * 5000, "https://example.org/log.csv", "ftp://example.org/x"])
def test_names_that_lead_nowhere(name: str) -> None:
    assert isinstance(outcome(name), NothingReadable | UsageError)


def test_odd_names_work(tmp_path: Path) -> None:
    for name in ("-x.csv", "new\nline.csv", "\x1b[2J.csv", "\u202egnp.csv", "ü" * 100 + ".csv"):
        w.table(tmp_path / name)
        [run] = importers.read(tmp_path / name)
        assert len(run["loss/train"]) == 300


def test_links_inside_a_folder_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    w.plain_csv(outside)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "log.csv").symlink_to(outside / "log.csv")
    (inside / "loop").symlink_to(inside)
    assert isinstance(outcome(inside), NothingReadable)
    assert isinstance(outcome(inside / "log.csv"), list), "a link that the user names is followed"


def test_unreadable_folders_cost_themselves_only(tmp_path: Path) -> None:
    w.plain_csv(tmp_path)
    (tmp_path / "shut").mkdir(mode=0)
    try:
        runs = importers.read(tmp_path)
        if os.geteuid() != 0:
            assert any("could not be entered" in n for n in runs[0].notes)
    finally:
        (tmp_path / "shut").chmod(0o700)


def test_deep_folders_and_many_entries_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    w.plain_csv(tmp_path)
    here = tmp_path
    for _ in range(60):
        here = here / "d"
        here.mkdir()
    w.plain_csv(here)
    [run] = importers.read(tmp_path)
    assert any("levels down were skipped" in n for n in run.notes)
    monkeypatch.setattr(importers.folder, "MOST_ENTRIES", 3)
    assert any("the rest was skipped" in n for n in importers.read(tmp_path)[0].notes)


# -- tables


CSV: dict[str, tuple[str | bytes, Callable[[list[Run] | TraindxError], bool]]] = {
    "header only": ("step,loss\n", lambda o: isinstance(o, NothingReadable)),
    "one column": ("loss\n" + "\n".join(f"{1 / (i + 1)}" for i in range(20)), lambda o: len(o[0]["loss/train"]) == 20),
    "no header": ("\n".join(f"{i},{1 / (i + 1)}" for i in range(20)), lambda o: any("no header" in n for n in o[0].notes)),
    "trailing comma": ("step,loss,\n" + "\n".join(f"{i},{i * 0.5}," for i in range(20)), lambda o: len(o[0]["loss/train"]) == 20),
    "ragged": ("step,loss,lr\n0,1\n1,2,3,4,5\n2,3,0.1\n" * 3, lambda o: any("longer or shorter" in n for n in o[0].notes)),
    "pipes": ("step|loss\n" + "\n".join(f"{i}|{i * 0.5}" for i in range(20)), lambda o: len(o[0]["loss/train"]) == 20),
    "decimal comma": ("step;loss\n" + "\n".join(f"{i};0,{i + 10}" for i in range(20)), lambda o: o[0]["loss/train"].values[1] == 0.11),
    "thousands": ('step,loss\n"1,000","1,234.5"\n"2,000","1,230.5"\n"3,000","1,220.5"\n', lambda o: o[0]["loss/train"].steps.tolist() == [1000, 2000, 3000] and o[0]["loss/train"].values[0] == 1234.5),
    "quoted newline": ('step,note,loss\n0,"two\nlines",1.0\n1,x,0.5\n2,y,0.4\n', lambda o: o[0]["loss/train"].values.tolist() == [1.0, 0.5, 0.4]),
    "open quote": ('step,loss,note\n0,1.0,a\n1,0.9,"never closed\n' + "\n".join(f"{i},0.5,b" for i in range(2, 40)), lambda o: len(o[0]["loss/train"]) >= 38),
    "byte order mark": ("\ufeffstep,loss\n0,1\n1,0.5\n2,0.4\n", lambda o: len(o[0]["loss/train"]) == 3),
    "utf-16": ("step,loss\n0,1\n1,0.5\n2,0.4\n".encode("utf-16"), lambda o: len(o[0]["loss/train"]) == 3),
    "latin-1": ("step,loss,été\n0,1,3\n1,0.5,é\n2,0.4,4\n".encode("latin-1"), lambda o: len(o[0]["loss/train"]) == 3),
    "zeros between": (b"step,loss\n0,1\x00\n1,0.5\n2,0.4\n", lambda o: len(o[0]["loss/train"]) == 3),
    "carriage returns": ("step,loss\r0,1\r1,0.5\r2,0.4\r", lambda o: len(o[0]["loss/train"]) == 3),
    "mixed ends": ("step,loss\r\n0,1\n1,0.5\r2,0.4\r\n", lambda o: len(o[0]["loss/train"]) == 3),
    "long cell": ("step,loss,text\n0,1," + "x" * 200_000 + "\n1,0.5,y\n2,0.4,z\n", lambda o: len(o[0]["loss/train"]) == 3),
    "duplicate names": ("step,loss,loss,,\n0,1,5,7,8\n1,0.5,5,7,8\n2,0.4,5,7,8\n", lambda o: "loss_2" in o[0].fact("columns")),
    "formula names": ("step,loss,=cmd(),__class__, lr \n0,1,1,1,0.1\n1,0.5,1,1,0.1\n2,0.4,1,1,0.1\n", lambda o: "lr" in o[0]),
    "step unsorted": ("step,loss\n" + "\n".join(f"{(i * 7) % 20},{(i * 7) % 20}" for i in range(20)), lambda o: o[0]["loss/train"].values.tolist() == list(range(20))),
    "step repeated": ("step,loss\n0,9\n0,1\n1,0.5\n1,0.4\n2,0.3\n", lambda o: o[0]["loss/train"].values.tolist() == [1.0, 0.4, 0.3]),
    "fractional step": ("step,loss\n0.5,9\n1.5,1\n2.5,0.5\n", lambda o: len(o[0]["loss/train"]) == 3),
    "no step": ("loss,acc\n9,1\n1,2\n0.5,3\n", lambda o: any("order of writing" in n for n in o[0].notes)),
    "all missing": ("step,loss\n0,\n1,\n2,\n", lambda o: isinstance(o, NothingReadable) or "loss/train" not in o[0]),
    "one point": ("step,loss\n0,1.5\n", lambda o: len(o[0]["loss/train"]) == 1),
    "epochs and percent": ("epoch,loss,val_accuracy\n1,2.0,45 %\n2,1.5,55 %\n3,1.2,60 %\n", lambda o: o[0].fact("step_unit") == "epoch" and o[0]["accuracy/val"].values.tolist() == [0.45, 0.55, 0.6]),
    "many columns": ("step,loss," + ",".join(f"c{i}" for i in range(8_000)) + "\n" + "\n".join(f"{i},0.5," + ",".join("1" * 8_000) for i in range(3)), lambda o: len(o[0]["loss/train"]) == 3 and any("skipped" in n for n in o[0].notes)),
    "finished runs": ("run_name,seed,best_val_loss,final_loss\na,1,0.5,0.6\nb,2,0.4,0.5\n", lambda o: isinstance(o, NothingReadable) and "finished run" in str(o)),
}  # fmt: skip


@pytest.mark.parametrize("case", list(CSV))
def test_tables(tmp_path: Path, case: str) -> None:
    data, holds = CSV[case]
    found = outcome(put(tmp_path, "t.csv", data))
    assert holds(found), f"{found!r} {getattr(found[0], 'notes', '') if isinstance(found, list) else ''}"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("NaN", "nan"), ("nan", "nan"), ("inf", "inf"), ("-inf", "-inf"), ("1e999", "inf"), ("1e-999", "0.0"), ("0x10", None), ("1_0", None),
        ("True", None), ("-", None), ("N/A", None), ("null", None), ("", None), ("12:30", None), ("1/2", None), ("2026-01-01", None),
        ("١٢", None), ("1.", "1.0"), (".5", "0.5"), ("+3", "3.0"), ("tensor(0.25)", "0.25"), ("tensor(0.25, device='cuda:0')", "0.25"),
        ("45%", "45.0"), ("1e-3", "0.001"), ("'7'", "7.0"), ("9" * 80, None),
    ],
)  # fmt: skip
def test_cells_are_numbers_gaps_or_nothing_and_never_a_silent_zero(cell: str, value: str | None) -> None:
    from traindx.importers.table import number

    found = number(cell)
    assert (None if found is None else str(found)) == value


def test_a_gap_is_not_a_nan(tmp_path: Path) -> None:
    [gaps] = importers.read(put(tmp_path, "a.csv", "step,loss\n0,1\n1,\n2,0.5\n"))
    [nans] = importers.read(put(tmp_path, "b.csv", "step,loss\n0,1\n1,nan\n2,0.5\n"))
    assert gaps["loss/train"].steps.tolist() == [0, 2] and not gaps.events_of("nonfinite")
    assert nans["loss/train"].steps.tolist() == [0, 1, 2] and nans.events_of("nonfinite")[0].step == 1


def test_a_line_longer_than_the_limit_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_LINE", 1000)
    monkeypatch.setattr(csvlog.Lines, "__init__", _short_lines)
    text = "step,loss\n0,1\n1," + "9" * 5_000_000 + "\n2,0.5\n3,0.4\n"
    [run] = importers.read(put(tmp_path, "a.csv", text))
    assert run["loss/train"].steps.tolist() == [0, 2, 3] and any("were skipped" in n for n in run.notes)


def _short_lines(self: csvlog.Lines, source: object, longest: int = 1000) -> None:
    self.source, self.longest, self.cut, self.count = source, 1000, 0, 0  # type: ignore[assignment]


# -- JSON


JSON: dict[str, tuple[str | bytes, Callable[[list[Run] | TraindxError], bool]]] = {
    "torn last line": ('{"step":0,"loss":1}\n{"step":1,"loss":0.5}\n{"step":2,"lo', lambda o: len(o[0]["loss/train"]) == 2 and any("skipped" in n for n in o[0].notes)),
    "commas and blanks": ('{"step":0,"loss":1},\n\n{"step":1,"loss":0.5},\n', lambda o: len(o[0]["loss/train"]) == 2),
    "one array": ('[{"step":0,"loss":1},{"step":1,"loss":0.5}]', lambda o: len(o[0]["loss/train"]) == 2),
    "cut array": ('[{"step":0,"loss":1},{"step":1,"loss":0.5},{"st', lambda o: len(o[0]["loss/train"]) == 2),
    "prose between": ('starting\n{"step":0,"loss":1}\nINFO saved\n{"step":1,"loss":0.5}\n', lambda o: len(o[0]["loss/train"]) == 2 and any("not JSON" in n for n in o[0].notes)),
    "deep": ("[" * 100_000 + "\n" + '{"a":' * 100_000, lambda o: isinstance(o, NothingReadable)),
    "deep line": ('{"step":0,"loss":1}\n{"step":1,"loss":2}\n' + '{"a":' * 5000 + "1" + "}" * 5000 + '\n{"step":2,"loss":3}\n', lambda o: len(o[0]["loss/train"]) == 3),
    "huge number": ('{"step":0,"loss":' + "9" * 5000 + '}\n{"step":1,"loss":0.5}\n{"step":2,"loss":0.4}\n', lambda o: 0.5 in o[0]["loss/train"].values),
    "overflow": ('{"step":0,"loss":1e999}\n{"step":1,"loss":0.5}\n', lambda o: o[0].events_of("nonfinite")[0].step == 0),
    "twice the key": ('{"step":0,"loss":1,"loss":2}\n{"step":1,"loss":0.5}\n', lambda o: o[0]["loss/train"].values[0] == 2.0),
    "lone surrogate": ('{"step":0,"loss":1,"\\ud800":3}\n{"step":1,"loss":0.5}\n', lambda o: len(o[0]["loss/train"]) == 2),
    "bare NaN": ('{"step":0,"loss":NaN}\n{"step":1,"loss":-Infinity}\n', lambda o: o[0].events_of("nonfinite")[0].data["count"] == 2),
    "changing types": ('{"step":0,"loss":1}\n{"step":1,"loss":"0.5"}\n{"step":2,"loss":{"v":0.25}}\n{"step":3,"loss":null}\n{"step":4,"loss":true}\n', lambda o: o[0]["loss/train"].values.tolist() == [1.0, 0.5]),
    "garbage between": (b'{"step":0,"loss":1}\n\xff\xfe\x00garbage\n{"step":1,"loss":0.5}\n', lambda o: len(o[0]["loss/train"]) == 2),
    "nested": ('{"train":{"loss":1},"step":0}\n{"train":{"loss":0.5},"step":1}\n', lambda o: len(o[0]["loss/train"]) == 2),
    "clock going back": ('{"step":0,"loss":1,"timestamp":20}\n{"step":1,"loss":0.5,"timestamp":10}\n', lambda o: o[0]["loss/train"].steps.tolist() == [0, 1]),
    "no loss at all": ('{"a": 1, "b": [1, 2, "x"]}', lambda o: isinstance(o, NothingReadable)),
    "byte order mark": (b'\xef\xbb\xbf{"step":0,"loss":1}\n{"step":1,"loss":0.5}\n', lambda o: len(o[0]["loss/train"]) == 2),
}  # fmt: skip


@pytest.mark.parametrize("case", list(JSON))
def test_json(tmp_path: Path, case: str) -> None:
    data, holds = JSON[case]
    found = outcome(put(tmp_path, "t.jsonl", data))
    assert holds(found), f"{found!r} {getattr(found[0], 'notes', '') if isinstance(found, list) else ''}"


STATES: dict[str, tuple[str, Callable[[list[Run] | TraindxError], bool]]] = {
    "missing": ('{"global_step": 5, "log_history_": 1}', lambda o: isinstance(o, NothingReadable)),
    "null": ('{"log_history": null}', lambda o: isinstance(o, NothingReadable)),
    "empty": ('{"log_history": []}', lambda o: isinstance(o, NothingReadable) and "empty" in str(o)),
    "a dict": ('{"log_history": {"loss": 1}}', lambda o: isinstance(o, NothingReadable)),
    "cut": ('{"log_history": [{"step":1,"loss":2.0},{"step":2,"loss":1.0},{"step":3,"lo', lambda o: len(o[0]["loss/train"]) == 2 and any("skipped" in n for n in o[0].notes)),
    "a path": ('{"best_model_checkpoint": "/etc/passwd", "log_history": [{"step":1,"loss":2.0},{"step":2,"loss":1.0}]}', lambda o: len(o[0]["loss/train"]) == 2),
    "strings": ('{"log_history": [{"step":1,"loss":"2.0"},{"step":2,"loss":"1.0"}]}', lambda o: len(o[0]["loss/train"]) == 2),
    "hidden NaN": ('{"log_history": [{"step":1,"loss":2.0,"grad_norm":1.0},{"step":2,"loss":0.0,"grad_norm":NaN},{"step":3,"loss":0.0,"grad_norm":NaN}]}', lambda o: o[0].events_of("nan_hidden")[0].data["count"] == 2 and o[0]["loss/train"].values[1] != o[0]["loss/train"].values[1]),
    "epochs only": ('{"log_history": [{"epoch":0.5,"loss":2.0},{"epoch":1.0,"loss":1.5},{"epoch":1.0,"eval_loss":1.6}]}', lambda o: o[0]["loss/train"].steps.tolist() == [500, 1000] and o[0].fact("step_unit") == "epoch/1000"),
    "only a summary": ('{"log_history": [{"train_loss":2.0,"train_runtime":9,"step":3}]}', lambda o: isinstance(o, NothingReadable)),
}  # fmt: skip


@pytest.mark.parametrize("case", list(STATES))
def test_trainer_states(tmp_path: Path, case: str) -> None:
    data, holds = STATES[case]
    found = outcome(put(tmp_path, "trainer_state.json", data))
    assert holds(found), f"{found!r}"


# -- W&B


def damaged_wandb(case: str) -> bytes:
    good = w.wandb_bytes(w.wandb_records([{"_step": i, "loss": 1.0 / (i + 1), "blob": "x" * 2000} for i in range(80)]))
    if case == "wrong version":
        return good[:6] + b"\x09" + good[7:]
    if case == "cut block":
        return good[: len(good) // 2]
    if case == "middle first":
        return good[:7] + struct.pack("<IHB", 0, 3, 3) + b"abc" + good[7:]
    if case == "type nine":
        return good[:40_000] + b"\x00\x00\x00\x00\x05\x00\x09hello" + good[40_012:]
    if case == "length over block":
        return good[:7] + struct.pack("<IHB", 1, 65535, 1) + good[14:]
    if case == "bad padding":
        return good[:32768] + b"\xff" * 100 + good[32868:]
    return good[:50_000] + bytes([good[50_000] ^ 255]) + good[50_001:]


@pytest.mark.parametrize(
    "case", ["wrong version", "cut block", "middle first", "type nine", "length over block", "bad padding", "flipped"]
)
def test_damaged_wandb_files_lose_a_block_at_most(tmp_path: Path, case: str) -> None:
    found = outcome(put(tmp_path, "run-x.wandb", damaged_wandb(case)))
    if case == "wrong version":
        assert isinstance(found, list) and len(found[0]["loss/train"]) == 80
    elif isinstance(found, list):
        truth = {i: 1.0 / (i + 1) for i in range(80)}
        got = dict(zip(found[0]["loss/train"].steps.tolist(), found[0]["loss/train"].values.tolist()))
        assert got.items() <= truth.items() and len(got) >= (10 if case == "middle first" else 30)
        assert any("skipped" in n for n in found[0].notes), found[0].notes


def test_wandb_secrets_and_media_paths_go_nowhere(tmp_path: Path) -> None:
    history = [{"_step": i, "loss": 1.0, "image": {"_type": "image-file", "path": "../../etc/passwd"}} for i in range(5)]
    config = {"api_key": "a" * 40, "hf_token": "hf_" + "a" * 34, "lr": 0.1, "note": "https://user:pw@host/x"}
    [run] = importers.read(put(tmp_path, "run-x.wandb", w.wandb_bytes(w.wandb_records(history, config))))
    text = json.dumps(run.fact("hparams"))
    assert "aaaa" not in text and "user:pw" not in text and run.fact("hparams")["lr"] == 0.1


def test_a_wandb_folder_without_history_says_so(tmp_path: Path) -> None:
    run = tmp_path / "run-1"
    run.mkdir()
    put(run, "run-x.wandb", w.wandb_bytes(w.wandb_records([])))
    put(run, "debug.log", "nothing here")
    (tmp_path / "latest-run").symlink_to(tmp_path / "gone")
    found = outcome(tmp_path)
    assert isinstance(found, NothingReadable) and "no history" in str(found)


# -- databases, YAML


def test_views_and_triggers_of_a_foreign_database_do_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    link = sqlite3.connect(path)
    link.execute("CREATE TABLE runs (run_uuid TEXT)")
    link.execute("CREATE TABLE params (key TEXT)")
    link.execute(
        "CREATE VIEW metrics AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS step FROM n"
    )
    link.commit()
    link.close()
    before = path.read_bytes()
    assert isinstance(outcome(path), NothingReadable)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_database_with_a_live_journal_is_read_and_left_as_it_is(tmp_path: Path) -> None:
    path = w.trackio(tmp_path)
    link = sqlite3.connect(path)
    link.execute("PRAGMA journal_mode=WAL")
    link.execute("INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES ('', 'one', 300, '{\"loss\": 0.125}')")
    link.commit()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if not p.name.endswith("-shm")}
    [run] = importers.read(path)
    assert run["loss/train"].last == 0.125
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if not p.name.endswith("-shm")} == before
    link.close()


def test_yaml_bombs_and_objects_are_inert(tmp_path: Path) -> None:
    w.lightning(tmp_path)
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi")
    )
    put(tmp_path, "hparams.yaml", bomb + "evil: !!python/object/apply:os.system ['touch owned']\nlr: 0.5\n")
    with not_hanging():
        [run] = importers.read(tmp_path / "metrics.csv")
    assert not (tmp_path / "owned").exists() and len(run["loss/train"]) == 300


# -- everything, cut anywhere


def every_file() -> list[Path]:
    return sorted(p for p in LOGS.rglob("*") if p.is_file() and p.suffix != ".jsonl")


@pytest.mark.parametrize("path", every_file(), ids=lambda p: p.parent.name[-24:])
def test_logs_cut_at_random_places_never_break(tmp_path: Path, path: Path) -> None:
    data = path.read_bytes()
    rng = random.Random(len(data))
    for cut in [rng.randrange(len(data)) for _ in range(8)]:
        outcome(put(tmp_path, path.name, data[:cut]))


@pytest.mark.parametrize("path", every_file()[::3], ids=lambda p: p.parent.name[-24:])
def test_logs_with_damage_in_the_middle_never_break(tmp_path: Path, path: Path) -> None:
    data = bytearray(path.read_bytes())
    rng = random.Random(len(data))
    for _ in range(6):
        hurt = bytearray(data)
        for _ in range(rng.randrange(1, 40)):
            hurt[rng.randrange(len(hurt))] = rng.randrange(256)
        at = rng.randrange(len(hurt))
        outcome(put(tmp_path, path.name, bytes(hurt[:at] + rng.randbytes(rng.randrange(200)) + hurt[at:])))


def test_random_bytes_under_every_name_never_break(tmp_path: Path) -> None:
    rng = random.Random(0)
    names = ("a.csv", "events.out.tfevents.1.x", "run-a.wandb", "trainer_state.json", "a.jsonl", "a.db", "a.parquet", "a.log")
    heads = (b"", b":W&B\xe1\xbe\x00", b"PAR1", b"SQLite format 3\x00", b'{"log_history": [', b"step,loss\n", b"step 1: loss ")
    for name in names:
        for head in heads:
            for size in (0, 1, 10, 1000):
                outcome(put(tmp_path, name, head + rng.randbytes(size)))


def test_strict_turns_damage_into_an_error(tmp_path: Path) -> None:
    path = put(tmp_path, "t.jsonl", '{"step":0,"loss":1}\n{"step":1,"loss":0.5}\n{"step":2,"lo')
    assert len(importers.read(path)) == 1
    with pytest.raises(PartlyReadable, match="skipped"):
        importers.read(path, strict=True)


def test_inputs_are_never_changed(tmp_path: Path) -> None:
    for make in (w.tensorboard, w.wandb, w.mlflow_db, w.trackio, w.trainer_state, w.lightning, w.neptune):
        folder = tmp_path / make.__name__
        folder.mkdir()
        path = make(folder)
        before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
        importers.read(path)
        assert {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()} == before


def test_a_sparse_giant_is_read_only_as_far_as_it_is_stored(tmp_path: Path) -> None:
    path = put(tmp_path, "log.csv", "step,loss\n0,1\n1,0.5\n2,0.4\n")
    with path.open("r+b") as file:
        file.truncate(8 << 40)
    with not_hanging():
        found = outcome(path)
    assert isinstance(found, list) and len(found[0]["loss/train"]) >= 3


def test_memory_stays_small_on_a_bomb_of_repeats(tmp_path: Path) -> None:
    if sys.platform != "linux":
        return
    path = put(tmp_path, "log.txt", b"loss " * 12_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert isinstance(outcome(path), NothingReadable)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = w.neptune(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(EnvironmentFault, match=r"traindx\[arrow\]"):
        importers.read(path)
