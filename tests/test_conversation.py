"""`traindx diagnose --ask` walks the tree with a person; the diary keeps what was said, tried and noted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import traindx
from runs import a_run, learning
from traindx.cli.investigate import _another_script, conversation
from traindx.diagnosis import diagnose
from traindx.errors import UsageError
from traindx.record import diary


def answering(*answers: str) -> tuple[Callable[[str], str], list[str]]:
    left, asked = list(answers), []

    def ask(text: str) -> str:
        asked.append(text)
        return left.pop(0) if left else ""

    return ask, asked


def test_a_yes_settles_it() -> None:
    said: list[object] = []
    ask, _ = answering("3", "y")
    told = conversation(diagnose(a_run(loss__train=learning(400))), said.append, ask)
    assert told["tree"] == "DX-C" and told["verdict"] in ("restart", "wait")


def test_what_is_not_known_ends_with_the_next_test() -> None:
    ask, asked = answering("nonsense", "3")
    told = conversation(diagnose(a_run(loss__train=learning(400))), lambda _: None, ask)
    assert told["verdict"] == "cannot-tell" and "traindx trial" in told["summary"] and len(asked) > 3


def test_without_a_terminal_it_says_what_to_do_instead(tmp_path: Path) -> None:
    done = traindx_cli("diagnose", "--ask", str(tmp_path))
    assert done.returncode == 2 and "needs a terminal" in done.stderr and "--investigate" in done.stderr


def traindx_cli(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traindx", *args], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.csv"
    rows = [f"{i},{v:.5f}" for i, v in enumerate(learning(300))]
    file.write_text("step,train_loss\n" + "\n".join(rows), encoding="utf-8")
    return file


def test_a_note_is_kept_beside_the_run_and_shown(log: Path) -> None:
    before = log.read_bytes()
    assert traindx_cli("note", str(log), "halved the batch <b>").returncode == 0
    diary.write(log, "trial", trial="overfit", result="pass", reason="learned the batch")
    assert log.read_bytes() == before
    found = json.loads(traindx_cli("note", str(log), "--format", "json").stdout)
    assert [e["kind"] for e in found["entries"]] == ["note", "trial"]
    shown = str(traindx.diagnose(log))
    assert "halved the batch" in shown and "overfit: pass" in shown
    from traindx.report.html import render

    page = render([traindx.diagnose(log)])
    assert "Case diary" in page and "halved the batch &lt;b&gt;" in page


def test_a_folder_with_a_diary_is_still_one_run(log: Path) -> None:
    diary.write(log.parent, "note", text="x")
    diary.write(log, "note", text="y")
    assert np.allclose(traindx.load(log.parent)[0]["loss/train"].values[:3], learning(300)[:3], atol=1e-4)
    assert len(traindx.load(log.parent)) == 1


def test_a_broken_line_costs_that_line(log: Path) -> None:
    diary.write(log, "note", text="first")
    with diary.place(log).open("a") as file:
        file.write('{"torn": \n[1]\n')
    diary.write(log, "note", text="second")
    assert [e["text"] for e in diary.entries(log)] == ["first", "second"]
    with pytest.raises(UsageError, match="no run"):
        diary.write(log.parent / "nothing", "note", text="x")


def test_a_script_by_another_name_is_noticed(tmp_path: Path) -> None:
    log = tmp_path / "run.json"
    log.write_text("{}")
    made = a_run(loss__train=learning(40), facts={"argv": ["nightly/train.py", "--lr", "1"]})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("traindx.api.load", lambda path: [made])
        assert _another_script(str(log), "other.py") == "train.py"
        assert _another_script(str(log), "here/train.py") == "" and _another_script(str(log), "pkg.mod:make") == ""
