"""A judge beside the run: what it says, when, and how it stays out of the way."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from runs import a_run, learning
from traindx.cli import now
from traindx.diagnosis import Diagnosis, diagnose
from traindx.errors import UsageError
from traindx.finding import Confidence, Severity
from traindx.live import lines, stop
from traindx.live.settled import LOOKS, Settled
from traindx.record import Writer

DIVERGED = np.r_[learning(300), np.geomspace(0.4, 80, 200)]


def cut(losses: np.ndarray, at: int, **facts: object) -> Diagnosis:
    return diagnose(a_run(loss__train=losses[:at]).with_(facts=facts))


def test_a_statistic_is_told_once_after_it_has_stood_while_the_run_grew() -> None:
    settled, said = Settled(), []
    for at in (430, 440, 450, 460, 470, 480, 490, 500):
        said += [(at, w.story.root.code) for w in settled.look(cut(DIVERGED, at))]
    assert [code for _, code in said] == ["LOSS001"]
    again = Settled()
    assert not any(again.look(cut(DIVERGED, 480)) for _ in range(2 * LOOKS))  # looked often, but the run did not grow


def test_nothing_is_told_of_the_first_epoch_but_facts() -> None:
    settled = Settled()
    for at in (440, 460, 480, 500):
        assert not settled.look(cut(DIVERGED, at, **{"data.steps_per_epoch": 2000}))
    assert [w.story.root.code for w in settled.look(cut(DIVERGED, 500), last=True)] == ["LOSS001"]


def softmax(at: int) -> Diagnosis:
    event = {"what": "softmax", "site": "/home/me/train.py:10"}
    run = a_run(loss__train=np.full(at, 1.0), facts={"loss.double": event})
    found = diagnose(run)
    from dataclasses import replace

    from traindx.diagnosis.story import Story
    from traindx.finding import Finding

    root = Finding(
        "WIRE006", "double-activation", Severity.CRITICAL, Confidence.EXACT, "softmax before cross-entropy",
        ("/home/me/train.py:10",), (0, at), {}, (), "Remove the softmax.",
    )  # fmt: skip
    return replace(found, stories=(Story(root),))


def test_a_fact_is_told_at_once_and_taken_back_in_one_line() -> None:
    settled = Settled()
    [word] = settled.look(softmax(20))
    line = lines.told(word, "traindx-runs/x")
    assert line.startswith("traindx · step 19 · critical: softmax before cross-entropy (train.py:10). Remove the softmax.")
    assert line.endswith("More: traindx diagnose traindx-runs/x")
    assert not settled.look(softmax(30))
    backs = [w for at in (40, 80, 120, 160) for w in settled.look(cut(learning(400), at))]
    assert [w.back for w in backs if w.story.root.code == "WIRE006"] == [True]
    assert lines.told(backs[0], "x").endswith("taken back: softmax before cross-entropy. It no longer holds.")


PROGRAM = textwrap.dedent("""
    import os, sys, time
    import numpy as np
    from pathlib import Path
    from traindx.live.start import Judge
    from traindx.record import Writer
    writer = Writer("run", name="job")
    judge = Judge("train.py")
    judge.begin(Path("run"))
    for step, loss in enumerate(np.r_[np.geomspace(2, 0.4, 300), np.geomspace(0.4, 80, 200)]):
        writer.write(step, {"loss/train": float(loss)})
    writer.flush()
    try:
        print(os.waitpid(-1, os.WNOHANG) if not time.sleep(0.3) else "")
    except ChildProcessError:
        print("no child")
    if sys.argv[1:] == ["kill"]:
        time.sleep(0.5)
        os.kill(os.getpid(), 9)
    writer.close()
    judge.end()
""")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=60)


def test_it_speaks_on_stderr_and_is_no_child_of_the_program(tmp_path: Path) -> None:
    done = run(tmp_path)
    first, second = done.stderr.splitlines()
    assert done.stdout == "no child\n"
    assert first == "traindx · watching train.py · record in run · to look now: traindx now run"
    assert second.startswith("traindx · step 499 · critical: ") and second.endswith("More: traindx diagnose run")


def test_a_program_that_was_killed_gets_its_page(tmp_path: Path) -> None:
    done = run(tmp_path, "kill")
    assert done.returncode == -9
    assert "the program ended without a word, after step 499" in done.stderr and "It was killed at step 499" in done.stderr


def test_a_closed_stderr_harms_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *command], cwd=tmp_path, stdout=subprocess.PIPE, timeout=60)
    assert done.returncode == 0 and done.stdout == b"no child\n"


def test_a_line_never_stands_inside_a_bar(tmp_path: Path) -> None:
    bar = PROGRAM.replace("writer.flush()", 'writer.flush(); sys.stderr.write("\\r 50%|####     "); sys.stderr.flush()')
    own, other = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-c", bar], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=other, env=os.environ | {"TERM": "xterm"}
    )
    os.close(other)
    shown, until = b"", time.monotonic() + 60
    while b"More:" not in shown and time.monotonic() < until:
        if select.select([own], [], [], 1)[0]:
            shown += os.read(own, 4096)
    child.wait(30)
    os.close(own)
    for line in (part for part in shown.split(b"\n") if b"traindx" in part):
        assert b"traindx" not in line.split(b"\r\x1b[K")[0], shown  # what stood before it in its line is cleared


def test_ranks_stop_after_the_ordered_step(tmp_path: Path) -> None:
    obeys = stop.Obeys(SimpleNamespace(path=tmp_path))
    obeys(3, {})
    stop.order(tmp_path, 5, "because")
    obeys._next = 0.0
    obeys(4, {})
    with pytest.raises(KeyboardInterrupt):
        obeys(5, {})
        time.sleep(0.01)
    obeys(6, {})  # once
    (tmp_path / stop.ORDER).write_text("{")
    assert stop.ordered(tmp_path) is None


def test_now_takes_the_run_that_was_written_to_last(tmp_path: Path) -> None:
    for name in ("a", "b"):
        writer = Writer(tmp_path / name, name=name)
        writer.write(0, {"loss/train": 1.0})
        writer.close()
    assert now.newest(tmp_path).name == "b" and now.newest(tmp_path / "a").name == "a"
    with pytest.raises(UsageError, match="no run"):
        now.newest(tmp_path / "none")


def test_the_judge_keeps_to_the_settings_that_it_is_sent() -> None:
    import json

    from traindx.live import judge, start
    from traindx.settings import Settings

    sent = start.Judge("run", chosen=Settings(ignore=("LOSS001",), select=("LOSS",), severity={"LOSS002": "info"}))._task
    got = judge.told(json.loads(json.dumps({**sent, "record": "r", "shown": "r", "pid": 1})))
    settings = Settings(**dict(got.settings))
    assert settings == Settings(ignore=("LOSS001",), select=("LOSS",), severity={"LOSS002": "info"})
    run = a_run(loss__train=DIVERGED)
    assert "LOSS001" in [f.code for f in diagnose(run).findings]
    assert "LOSS001" not in [f.code for f in diagnose(run, settings).findings]


@pytest.mark.parametrize("over", [False, True])
def test_the_judge_adds_nothing_below_the_page_of_a_program_that_ended_while_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, over: bool
) -> None:
    from traindx.live import judge

    writer = Writer(tmp_path / "run")
    writer.write(0, {"loss/train": 1.0})
    writer.close()
    monkeypatch.setattr("traindx.diagnosis.diagnose", lambda run, settings: softmax(40))
    said: list[str] = []
    looking = judge.Judge(judge.Task(str(tmp_path / "run"), "run", 1, "train.py"), said.append, over=lambda: over)
    looking.turn()
    looking.look()
    assert len(said) == (0 if over else 1)
    looking.look(last=True)
    assert len(said) == 1, "what was not told before is left to the end"
