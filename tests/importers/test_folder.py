"""Folders: many runs, the same run twice, checkpoints, growing logs, stdin."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from tests.importers import writers as w

from traindx import importers
from traindx.diagnosis import diagnose
from traindx.errors import NothingReadable, UsageError
from traindx.record import Writer
from traindx.report import json as json_
from traindx.report import text


def states(folder: Path, entries: list[dict[str, object]], at: list[int]) -> None:
    for n in at:
        (folder / f"checkpoint-{n}").mkdir(parents=True, exist_ok=True)
        (folder / f"checkpoint-{n}" / "trainer_state.json").write_text(json.dumps({"log_history": entries[:n]}))


def test_checkpoints_of_one_run_are_one_run(tmp_path: Path) -> None:
    states(tmp_path, w.hf_entries(), [50, 100, 200, 310])
    [run] = importers.read(tmp_path)
    assert len(run["loss/train"]) == 300 and any("4 checkpoints hold this run" in n for n in run.notes)


def test_another_run_under_the_same_folder_stays_another_run(tmp_path: Path) -> None:
    states(tmp_path / "a", w.hf_entries(), [100, 200])
    other = [{**e, "loss": e["loss"] + 1} if "loss" in e else e for e in w.hf_entries()]
    states(tmp_path / "b", other, [50])
    assert len(importers.read(tmp_path)) == 2


def test_a_resumed_run_keeps_its_longest_history_and_says_so(tmp_path: Path) -> None:
    entries = w.hf_entries()
    states(tmp_path, entries, [310])
    changed = entries[:100] + [{**e, "loss": 9.0} for e in entries[100:150]]
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "trainer_state.json").write_text(json.dumps({"log_history": changed}))
    [run] = importers.read(tmp_path)
    assert len(run["loss/train"]) == 300 and any("resumed" in n for n in run.notes)


def test_the_same_run_in_two_formats_counts_once(tmp_path: Path) -> None:
    w.plain_csv(tmp_path)
    w.tensorboard(tmp_path)
    [run] = importers.read(tmp_path)
    assert any("same run in another format" in n for n in run.notes)


def test_two_different_runs_in_one_folder_are_two(tmp_path: Path) -> None:
    w.plain_csv(tmp_path)
    (tmp_path / "other.csv").write_text("step,loss\n" + "".join(f"{i},{5 - i / 10}\n" for i in range(30)))
    assert len(importers.read(tmp_path)) == 2


def test_runs_come_in_natural_order(tmp_path: Path) -> None:
    for i in (10, 2, 1):
        (tmp_path / f"run{i}").mkdir()
        (tmp_path / f"run{i}" / "log.csv").write_text("step,loss\n" + "".join(f"{s},{i + 1 / (s + 1)}\n" for s in range(9)))
    assert [Path(r.source).parent.name for r in importers.read(tmp_path)] == ["run1", "run2", "run10"]


def test_configs_and_papers_beside_a_log_are_not_runs(tmp_path: Path) -> None:
    w.plain_csv(tmp_path)
    (tmp_path / "config.json").write_text('{"loss": 1.0, "lr": 0.1}')
    (tmp_path / "README.txt").write_text("We reach a loss of 0.3 after 5 epochs.\n")
    (tmp_path / "requirements.txt").write_text("torch==2.0\n")
    (tmp_path / "notes.txt").write_text("nothing to see\n")
    (tmp_path / "all_results.json").write_text('{"train_loss": 0.5, "epoch": 3}')
    assert len(importers.read(tmp_path)) == 1


def test_a_wandb_folder_is_read_by_its_binary(tmp_path: Path) -> None:
    run = tmp_path / "run-20240101_000000-abc"
    (run / "files").mkdir(parents=True)
    w.wandb(run)
    (run / "files" / "wandb-summary.json").write_text('{"train/loss": 0.1}')
    (run / "files" / "output.log").write_text("step 1: loss 5\nstep 2: loss 4\nstep 3: loss 3\n")
    [found] = importers.read(tmp_path)
    assert found.kind == "wandb" and len(found["loss/train"]) == 300


def test_a_wandb_run_that_only_printed_is_read_from_its_console(tmp_path: Path) -> None:
    printed = "".join(f"iter {i}: loss {2 - i / 200:.4f}, time 3.0ms\n" for i in range(100))
    history = [{"_step": i, "iter": 50 * i, "train/loss": 2.0, "val/loss": 2.0} for i in range(3)]
    path = tmp_path / "run-x.wandb"
    path.write_bytes(w.wandb_bytes(w.wandb_records(history, printed=printed)))
    [run] = importers.read(path)
    assert len(run["loss/train"]) == 100 and len(run["loss/val"]) == 3 and any("console" in n for n in run.notes)


def test_traindx_records_are_read_beside_foreign_logs(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "mine", name="mine")
    for step in range(20):
        writer.write(step, {"loss/train": 1.0 / (step + 1)})
    writer.close()
    (tmp_path / "theirs").mkdir()
    w.plain_csv(tmp_path / "theirs")
    assert {r.kind for r in importers.read(tmp_path)} == {"record", "csv"}
    assert [r.kind for r in importers.read(tmp_path / "mine")] == ["record"]


def test_stdin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = w.jsonl(tmp_path).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    [run] = importers.read("-")
    assert len(run["loss/train"]) == 300 and run.source == "stdin"


@pytest.mark.parametrize("thing", [None, 5, ["a", "b"], [], {}, {"a": "text"}])
def test_things_that_are_no_run_are_refused_kindly(thing: object) -> None:
    with pytest.raises((UsageError, NothingReadable)):
        importers.read(thing)


def test_keras_history_objects_and_polars_like_frames_work() -> None:
    class History:
        def __init__(self) -> None:
            self.history = {"loss": [1.0, 0.5, 0.4], "val_loss": [1.1, 0.6, 0.5]}

    [run] = importers.read(History())
    assert len(run["loss/val"]) == 3 and run.fact("step_unit") == "epoch"


def test_following_a_growing_file_gives_the_run_anew(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    seen: list[int] = []
    rounds = iter(range(100))

    def until() -> bool:
        i = next(rounds)
        with path.open("a") as file:
            file.write("step,loss\n" if i == 0 else "".join(f"{s},{1 / (s + 1)}\n" for s in range(10 * i, 10 * i + 10)))
        return i >= 4

    for runs in importers.follow(path, every=0.01, until=until):
        seen.append(len(runs[0]["loss/train"]))
    assert seen and seen == sorted(seen) and seen[-1] >= 20


def test_a_pasted_state_under_another_name_is_read_when_named(tmp_path: Path) -> None:
    path = tmp_path / "__init__.py"
    path.write_text(w.trainer_state(tmp_path).read_text())
    assert len(importers.read(path)[0]["loss/train"]) == 300


def test_what_traindx_wrote_itself_is_no_run(tmp_path: Path) -> None:
    rows = "".join(f"{i},{2 / (1 + i / 9)}\n" for i in range(60))
    (tmp_path / "log.csv").write_text("step,loss\n" + rows)
    [run] = importers.read(tmp_path)
    diagnosis = diagnose(run)
    (tmp_path / "report.json").write_text(json_.render([diagnosis]))
    (tmp_path / "page.txt").write_text(text.plain(diagnosis))
    assert [Path(r.source).name for r in importers.read(tmp_path)] == ["log.csv"]
    with pytest.raises(NothingReadable, match="report that traindx wrote"):
        importers.read(tmp_path / "report.json")
