"""Python next to the command line, and the list of runs: names, deletion, frames, charts."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

import traindx
from traindx import opening
from traindx.cli import cli
from traindx.errors import TraindxError, UsageError
from traindx.record import diary, sources
from traindx.record.listing import named
from traindx.run import Run, Series

LOSSES = [2.0 / (1 + i / 20) for i in range(60)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two records, `older` and `newer`."""
    from traindx.record import Writer

    monkeypatch.setenv("TRAINDX_DIR", str(tmp_path / "runs"))
    for i, name in enumerate(("older", "newer")):
        writer = Writer(tmp_path / "runs" / name)
        for step, loss in enumerate(LOSSES):
            writer.write(step, {"loss/train": loss + i})
        writer.close()
        time.sleep(0.02)
    return tmp_path / "runs"


def _said(*words: str, answer: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(words), standalone_mode=False, input=answer)
    code = done.exception.exit_code if isinstance(done.exception, TraindxError) else done.return_value
    return code, done.output + str(done.exception or "")


def test_names_of_runs(home: Path) -> None:
    assert [named(t).name for t in ("@last", "@1", "@2", "older", "old")] == ["newer", "newer", "older", "older", "older"]
    for wrong in ("@3", "@0", "@x", "nobody", ""):
        with pytest.raises(UsageError, match="traindx ls"):
            named(wrong)
    assert traindx.load("@2")[0].source.endswith("older")


def test_ls(home: Path) -> None:
    code, said = _said("ls")
    assert code == 0 and said.index("newer") < said.index("older") and "@2" in said
    assert [Path(r["run"]).name for r in json.loads(_said("ls", "--format", "json")[1])["runs"]] == ["newer", "older"]
    assert _said("ls", str(home / "nowhere"))[0] == 3


def test_rm_asks_and_touches_records_only(home: Path) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "thesis.txt").write_text("years of work")
    assert _said("rm", str(home / "mine"), "--yes")[0] == 2 and (home / "mine" / "thesis.txt").exists()
    _said("rm", "@last", answer="n\n")
    _said("rm", "@last", "--dry-run")
    assert (home / "newer").exists()
    assert _said("rm", "@last", answer="y\n")[0] == 0 and not (home / "newer").exists() and (home / "older").exists()


def test_runs_and_compare(home: Path) -> None:
    assert len(traindx.runs()) == 2
    assert traindx.compare("@2", "@2").outcome == "same"
    with pytest.raises(UsageError, match="one run"):
        traindx.compare("@1", home)


def test_what_diagnose_takes(tmp_path: Path) -> None:
    history = [{"step": i, "loss": loss} for i, loss in enumerate(LOSSES)]
    trainer = SimpleNamespace(state=SimpleNamespace(log_history=history))
    for source in (LOSSES, {"loss": LOSSES}, history, trainer):
        assert len(traindx.diagnose(source).run.series("loss/train")) == len(LOSSES)


def test_a_nan_in_a_list_of_losses_is_a_loss_and_none_is_a_gap() -> None:
    bad, gaps = (traindx.diagnose([1.0, other] * 30) for other in (float("nan"), None))
    assert "NUMR001" in [f.code for f in bad.findings] and "NUMR001" not in [f.code for f in gaps.findings]
    assert any("taken for gaps" in note for note in gaps.run.notes)


def test_a_run_as_frame_chart_and_report(tmp_path: Path) -> None:
    run = Run.of({"loss/train": LOSSES}).with_(signals={"loss/val": Series([10, 20], [1.0, 0.5])})
    frame = run.frame()
    assert list(frame["step"]) == list(range(60)) and frame["loss/val"][20] == 0.5 and frame["loss/val"].isna().sum() == 58
    assert list(run.frame("loss/val")["step"]) == [10, 20]
    assert "<svg" in run.plot("loss/train")._repr_html_() and "loss/train: 2" in repr(run.plot("loss/train"))
    partly = run.plot("loss/train", "grad_norm")
    assert "not recorded: grad_norm" in repr(partly) and "not recorded: grad_norm" in partly._repr_html_()
    with pytest.raises(UsageError, match="loss/val"):
        run.plot("nothing")
    assert "<!doctype html>" in run.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert traindx.load(run.export(tmp_path / "run.csv"))[0].series("loss/train").values.tolist() == LOSSES


def test_the_preflight_takes_a_model() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.randn(64, 4), torch.randn(64, 1)
    found = traindx.check(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, x, y, level="quick")
    assert "a step can be made" not in str(found) and found.items


def test_a_preflight_takes_data_in_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from traindx.trials import check

    monkeypatch.setattr(check, "check", lambda task, **options: task)
    x, y = torch.randn(64, 4), torch.randn(64, 1)
    loader = torch.utils.data.DataLoader(list(zip(x, y)), batch_size=32)
    for given in ((loader,), ((x, y),), (x, y)):
        task = traindx.check(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, *given)
        assert [tuple(part.shape) for part in next(iter(task.train))] == [(32, 4), (32, 1)]


def test_real_signatures() -> None:
    for name in ("watch", "diagnose", "check", "compare", "replay", "load", "runs", "sweep", "apply"):
        kinds = {p.kind for p in inspect.signature(getattr(traindx, name)).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, name


def test_callbacks_name_their_options_and_refuse_others() -> None:
    from traindx.integrations.fit import Fit, Options

    class Callback(Fit):
        pass

    named = inspect.signature(Callback).parameters
    assert set(named) == set(Options.__annotations__) and named["budget"].default == 0.01
    assert Callback(budget=None, announce=True).options == {"budget": None}
    with pytest.raises(TypeError, match="no option 'budgt'; it takes replay"):
        Callback(budgt=0.1)  # type: ignore[call-arg]


def test_pages_print_as_text_and_as_html(home: Path) -> None:
    found = traindx.sweep(home, by="loss/train")
    assert "older" in str(found) and "<pre>" in found._repr_html_() and found.metric == "loss/train"
    compared = traindx.compare("older", "newer")
    assert "How it ends" in str(compared) and "<pre>" in compared._repr_html_()
    with pytest.raises(TraindxError, match="no such file"):
        traindx.sweep(home / "nowhere")


def test_a_watch_and_a_callback_write_reports(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from traindx.integrations.fit import Fit

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit = Fit(dir=tmp_path / "record")
    fit.begin(model, optimizer)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).pow(2).mean().backward()
        optimizer.step()
    assert fit.dx.report(tmp_path / "a.html").exists() and fit.report(tmp_path / "b.html").exists()
    stopped: list[bool] = []
    fit.cell = SimpleNamespace(stop=lambda: stopped.append(True))
    fit.close()
    assert stopped == [True]


# -- house-keeping


def test_names_are_known_wherever_a_run_is(home: Path) -> None:
    assert traindx.load("newe")[0].source.endswith("newer")
    assert _said("note", "@last", "halved the rate")[0] == 0 and "halved" in _said("note", "newer")[1]
    assert _said("diagnose", "old", "--fail-on", "never")[0] == 0
    assert _said("diagnose", "nobody")[0] in (2, 3)
    shutil.copytree(home / "newer", home / "newest")
    code, said = _said("diagnose", "new")
    assert code == 2 and "fits" in said and "newer" in said and "newest" in said


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["--older", "1d"], {"older", "newer"}),
        (["--older", "0h"], set()),
        (["--max-size", "1"], set()),
        (["--max-size", "1G"], {"older", "newer"}),
        (["--older", "0h", "--dry-run"], {"older", "newer"}),
    ],
)
def test_prune(home: Path, words: list[str], left: set[str]) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "thesis.txt").write_text("years of work")
    assert _said("prune", *words, "--yes")[0] == 0
    assert {p.name for p in home.iterdir()} == left | {"mine"}


def test_prune_keeps_the_sick_and_what_it_must_not_touch(home: Path) -> None:
    from traindx.record import Writer

    writer = Writer(home / "sick")
    for step in range(60):
        writer.write(step, {"loss/train": 1.0 if step < 30 else float("nan")})
    writer.close()
    running = Writer(home / "running")
    running.write(0, {"loss/train": 1.0})
    running.flush()
    assert _said("prune", "--older", "0h", "--keep-sick", "--yes")[0] == 0
    assert {p.name for p in home.iterdir()} == {"sick", "running"}
    running.close()
    assert _said("prune")[0] == 2 and _said("prune", "--older", "soon")[0] == 2
    assert "nothing to delete" in _said("prune", "--older", "9y")[1]


@pytest.fixture
def secretive(home: Path) -> Path:
    from traindx.record import Writer

    writer = Writer(home / "secretive")
    writer.fact("config", {"api_key": "hunter2", "lr": 0.1})
    writer.fact("argv", ["train.py", "--token", sources.HIDDEN])
    for step, loss in enumerate(LOSSES):
        writer.write(step, {"loss/train": loss})
    writer.close()
    (home / "secretive" / "capsules").mkdir()
    (home / "secretive" / "capsules" / "batch.bin").write_bytes(b"private")
    return home / "secretive"


def test_a_bundle_is_read_as_it_is_and_holds_no_secret(secretive: Path, tmp_path: Path) -> None:
    made = tmp_path / "run.zip"
    code, said = _said("bundle", "secretive", "-o", str(made))
    assert code == 0 and "hidden: a value of 'api_key'" in said and "hidden when it was recorded: a value of 'argv'" in said
    with zipfile.ZipFile(made) as archive:
        assert not any("capsules" in name for name in archive.namelist())
        assert b"hunter2" not in b"".join(archive.read(name) for name in archive.namelist())
    [run], [own] = traindx.load(made), traindx.load(secretive)
    assert run.signals == own.signals and run.fact("config") == {"api_key": "***", "lr": 0.1} and run.source == str(made)
    assert traindx.compare(made, secretive).outcome == "same"
    assert _said("diagnose", str(made), "--fail-on", "never")[0] == 0
    assert _said("report", str(made), "-o", str(tmp_path / "r.html"))[0] == 0
    assert _said("bundle", "secretive", "-o", str(made))[0] == 2
    assert len(traindx.load(tmp_path)) == 4  # three records, and the bundle among them


@pytest.mark.parametrize(
    ("member", "data", "told"),
    [
        ("../../evil.txt", b"x", "no bundle of ours does"),
        ("rank0-start0/evil.so", b"x", "no bundle of ours does"),
        ("rank0-start0/words-000009.tdx", b"0" * 50_000_000, "no bundle of ours"),
        ("run.json", b'{"schema": "traindx.record/99", "traindx": "9.0"}', "bad.zip: this record was written by traindx 9.0"),
    ],
)
def test_foreign_and_huge_bundles_are_refused(secretive: Path, tmp_path: Path, member: str, data: bytes, told: str) -> None:
    made, bad = tmp_path / "run.zip", tmp_path / "bad.zip"
    _said("bundle", "secretive", "-o", str(made))
    with zipfile.ZipFile(made) as good, zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as out:
        for name in good.namelist():
            if name != member:
                out.writestr(name, good.read(name))
        out.writestr(member, data)
    code, said = _said("diagnose", str(bad))
    assert code == 3 and told in said


def test_a_bundle_of_a_later_version_is_called_so_whatever_else_it_holds(tmp_path: Path) -> None:
    later = tmp_path / "later.zip"
    with zipfile.ZipFile(later, "w") as out:
        out.writestr("new/kind.bin", b"x")
        out.writestr("run.json", b'{"schema": "traindx.record/99", "traindx": "9.0"}')
    code, said = _said("diagnose", str(later))
    assert code == 3 and f"{later}: this record was written by traindx 9.0" in said


def test_the_group_may_read_only_when_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.record import Writer

    def modes(name: str) -> set[int]:
        writer = Writer(tmp_path / name)
        writer.write(0, {"loss/train": 1.0})
        writer.close()
        return {p.stat().st_mode & 0o077 for p in (tmp_path / name, *(tmp_path / name).rglob("*"))}

    assert modes("private") == {0}
    monkeypatch.setenv("TRAINDX_RECORDS", "group")
    assert modes("shared") == {0o050, 0o040}
    monkeypatch.delenv("TRAINDX_RECORDS")
    for name, mode in (("private", 0), ("shared", 0o040)):  # what is put there later is as private as the record
        sources.keep(tmp_path / name, {"files": {"train.py": "0"}}, sources.CODE)
        assert {p.stat().st_mode & 0o077 for p in (diary.write(tmp_path / name, "note"), tmp_path / name / sources.CODE)} == {
            mode
        }


def test_a_watch_follows_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINDX_RECORDS", "")
    (tmp_path / "traindx.toml").write_text('alerts = ["nowhere://"]\n[records]\nmode = "group"\n')
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with traindx.watch(model, optimizer, dir=tmp_path / "a"):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert "'nowhere://' gets no alert" in capsys.readouterr().err
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0o050


# -- what changed

SCRIPT = """
import torch
from parts import RATE
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
api_key = "sk-abcdefghijklmnop1234"
for _ in range(30):
    x = torch.randn(8, 2)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
"""


def test_files_that_differ_without_their_lines() -> None:
    from traindx.diagnosis.compare import changed

    a, b = (Run.of({}, facts={"code.files": {"m.py": d, "n.py": "1", only: "2"}}) for d, only in (("x", "o.py"), ("y", "p.py")))
    told = {"m.py": "differs (--keep-source keeps the lines)", "o.py": "only in A", "p.py": "only in B"}
    assert changed(a, b) == told and changed(a, Run()) == {}


def test_compare_shows_what_changed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "parts.py").write_text("RATE = 0.1\n")
    words = ["run", "--dir", "a", "--no-live", "-q", "--keep-source", "train.py"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "traindx", *words], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    kept = json.loads((tmp_path / "a" / "code.json").read_text())
    assert set(kept["files"]) == set(kept["text"]) == {"train.py", "parts.py"}
    kept["files"]["parts.py"], kept["text"]["parts.py"] = "0", "RATE = 0.2"
    (tmp_path / "b" / "code.json").write_text(json.dumps(kept))
    found = traindx.compare(tmp_path / "a", tmp_path / "b").code
    assert list(found) == ["parts.py"]
    assert "-RATE = 0.1\n+RATE = 0.2" in found["parts.py"]
    assert "sk-abc" not in (tmp_path / "a" / "code.json").read_text()


# -- folders that are slow, full or shut


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.diagnosis import kept

    log = tmp_path / "runs"
    for i in range(2):
        (log / f"r{i}").mkdir(parents=True)
        (log / f"r{i}" / "log.csv").write_text("step,loss\n" + "\n".join(f"{s},{1 / (s + 1 + i)}" for s in range(50)))
    for path in (log / "r0", log / "r1", log):
        path.chmod(0o500)
    (tmp_path / "cache").mkdir(mode=0o500)
    monkeypatch.setenv("TRAINDX_CACHE", str(tmp_path / "cache" / "deeper"))
    kept.home.cache_clear()
    monkeypatch.setattr(Path, "mkdir", _refused)  # as root nothing is shut
    try:
        assert kept.home() is None
        assert len(traindx.sweep(log).rows) == 2
    finally:
        monkeypatch.undo()
        kept.home.cache_clear()
        for path in (log, log / "r0", log / "r1"):
            path.chmod(0o700)


def _refused(*args: object, **given: object) -> None:
    raise OSError(30, "Read-only file system")


def test_a_slow_folder_is_waited_for_and_nothing_is_locked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opening.opened

    def slow(*args: Any, **given: Any) -> Any:
        time.sleep(0.02)
        return opened(*args, **given)

    monkeypatch.setattr(opening, "opened", slow)
    assert len(traindx.sweep(home).rows) == 2
    source = "".join(p.read_text(encoding="utf-8") for p in Path(opening.__file__).parent.rglob("*.py"))
    assert "flock(" not in source and "lockf(" not in source


def test_one_broken_run_among_good_ones(home: Path) -> None:
    (home / "torn").mkdir()
    (home / "torn" / "log.csv").write_bytes(b"\x00\x01 no log")
    (home / "empty").mkdir()
    code, said = _said("diagnose", str(home), "--fail-on", "never")
    assert code == 0 and "newer" in said and "not read:" in said and "torn" in said
    assert _said("diagnose", str(home / "empty"))[0] == 3


def test_ls_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.record import Writer, known

    monkeypatch.setenv("TRAINDX_CACHE", str(tmp_path / "cache"))
    assert known.folders() == [] and "no folder that you recorded into" in _said("ls", "--everywhere")[1]
    for folder in ("one", "two", "two"):
        writer = Writer(tmp_path / folder / f"run-{time.time_ns()}")
        writer.write(0, {"loss/train": 1.0})
        writer.close()
    assert known.folders() == [tmp_path / "one", tmp_path / "two"]
    code, said = _said("ls", "--everywhere", "--format", "json")
    assert code == 0 and sorted(Path(r["run"]).parent.name for r in json.loads(said)["runs"]) == ["one", "two", "two"]
    shutil.rmtree(tmp_path / "one")
    assert known.folders() == [tmp_path / "two"] and (tmp_path / "cache" / "folders").read_text() == f"{tmp_path / 'two'}\n"


def test_a_no_deletes_nothing(home: Path) -> None:
    assert _said("rm", "@1", answer="n\n")[0] == 0 and "nothing was deleted" in _said("rm", "@1", answer="")[1]
    assert (home / "newer").is_dir()


def test_a_baseline_is_named_as_any_other_run(home: Path) -> None:
    assert _said("diagnose", "@1", "--baseline", "@2", "--require", "loss/train <= 2 * baseline")[0] in (0, 1)
    assert "no such file, folder or record" in _said("diagnose", "@1", "--baseline", "gone", "--new-only")[1]


def test_a_run_without_a_capsule_cannot_be_replayed(home: Path) -> None:
    code, said = _said("replay", "@last", "train.py")
    assert code == 3 and "holds no capsule" in said


def test_a_pasted_text_that_tells_only_of_its_end(tmp_path: Path) -> None:
    text = "slurmstepd: error: *** JOB 123 ON node CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"
    (tmp_path / "slurm.txt").write_text(text)
    found = traindx.diagnose(tmp_path / "slurm.txt")
    assert found.verdict == "cannot-tell" and found.summary.endswith("It was killed.")
