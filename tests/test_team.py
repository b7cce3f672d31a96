"""Python next to the command line, and the list of runs: names, deletion, frames, charts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import traindx
from traindx.cli import cli
from traindx.errors import TraindxError, UsageError
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


def test_a_run_as_frame_chart_and_report(tmp_path: Path) -> None:
    run = Run.of({"loss/train": LOSSES}).with_(signals={"loss/val": Series([10, 20], [1.0, 0.5])})
    frame = run.frame()
    assert list(frame["step"]) == list(range(60)) and frame["loss/val"][20] == 0.5 and frame["loss/val"].isna().sum() == 58
    assert list(run.frame("loss/val")["step"]) == [10, 20]
    assert "<svg" in run.plot("loss/train")._repr_html_() and "loss/train: 2" in repr(run.plot("loss/train"))
    with pytest.raises(UsageError, match="loss/val"):
        run.plot("nothing")
    assert "<!doctype html>" in run.report(tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_preflight_takes_a_model() -> None:
    torch = pytest.importorskip("torch")
    data = [(torch.randn(4), torch.randn(1)) for _ in range(16)]
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    checked = traindx.check(torch.nn.Linear(4, 1), torch.nn.functional.mse_loss, loader, level="quick")
    assert checked.items
