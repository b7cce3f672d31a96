"""`traindx attach`: to a program that trains already, and away again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traindx import record
from traindx.bedside import history, inject, process
from traindx.bedside.history import History
from traindx.cli import attach as attach_
from traindx.errors import EnvironmentFault, UsageError
from traindx.probes.drive.recorder import Recorder
from traindx.run import Run, Series

# an environment with torch and numpy alone; it goes on until somebody writes a file, and says what it has computed
PROGRAM = textwrap.dedent("""
    import builtins, csv, hashlib, os, sys, time
    class Nothing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {"psutil", "xxhash", "safetensors", "scipy", "rich", "click", "yaml", "plotly"}:
                raise ModuleNotFoundError(f"no {name}", name=name)
    sys.meta_path.insert(0, Nothing())
    import torch
    from torch import nn
    from torch.nn import functional as F
    from torch.optim import optimizer as o
    torch.manual_seed(0)
    def points():
        owners = (builtins, torch, torch.Tensor, torch.autograd, nn.Module, F, o.Optimizer, torch.utils.data.DataLoader)
        own = {(i, n): id(v) for i, w in enumerate(owners) for n, v in vars(w).items() if callable(v)}
        return own, len(o._global_optimizer_pre_hooks), len(o._global_optimizer_post_hooks)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(-1))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    was = points()
    log = csv.writer(file := open("log.csv", "w", newline="")); log.writerow(["step", "train_loss"])
    x = torch.randn(64, 8); y = x[:, :3].argmax(1)
    for step in range(600):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        log.writerow([step, loss.item()]); file.flush()
        if step == 40: print("up", flush=True)
        if len(sys.argv) > 1 and step >= 40: time.sleep(0.02)
    now = points()
    bits = b"".join(t.detach().numpy().tobytes() for t in model.state_dict().values())
    print(hashlib.sha256(bits).hexdigest(), "as it was" if now == was else "CHANGED", "scipy" in sys.modules)
""")


@contextmanager
def running(folder: Path, text: str = PROGRAM) -> Iterator[subprocess.Popen[str]]:
    (folder / "train.py").write_text(text)
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TRAINDX_DIR": str(folder / "runs")}
    command = [sys.executable, "train.py", "slow"]
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        try:
            yield child
        finally:
            child.kill()


def attach(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TRAINDX_DIR": str(folder / "runs")}
    command = [sys.executable, "-m", "traindx", "attach", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL)


@pytest.fixture
def let_in(tmp_path: Path) -> None:
    """Skip where nothing may be attached to."""
    if not shutil.which("gdb"):
        pytest.skip("there is no gdb here")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        done = subprocess.run(["gdb", "-nx", "-batch", "-p", str(child.pid)], capture_output=True, text=True, check=False)
        child.kill()
    if "not permitted" in done.stdout + done.stderr:
        pytest.skip("the system does not let one process look into another")


def test_it_comes_says_what_is_wrong_and_leaves_everything_as_it_was(tmp_path: Path, let_in: None) -> None:
    with running(tmp_path) as child:
        done = attach(tmp_path, str(child.pid), "--yes", "--for", "40")
        assert done.returncode == 0, done.stderr
        again = attach(tmp_path, str(child.pid), "--yes", "--for", "5")
        assert child.stdout is not None
        bits, _, rest = child.stdout.readline().partition(" ")
        assert child.wait(60) == 0
    alone = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert alone.stdout.split()[1] == bits and rest == "as it was False\n"
    assert "what came before is taken from log.csv" in done.stderr
    assert "An activation is applied twice" in done.stdout and again.returncode == 0, again.stderr
    first = min((tmp_path / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    run = record.read(first)
    since = run.facts["attached"]
    assert run.steps is not None and run.steps[0] == 0 and since > 40 and run.steps[1] - since in (39, 40)
    assert np.array_equal(run.series("loss/train").steps, np.arange(run.steps[1] + 1)), "one axis, without a hole"
    assert run.fact("ended") == "detached" and [e.step for e in run.events_of("attached")] == [since]


def test_it_lists_what_runs_here_and_asks_before_it_comes(tmp_path: Path) -> None:
    with running(tmp_path) as child:
        listed = attach(tmp_path)
        assert [line for line in listed.stdout.splitlines() if line.startswith(f"{child.pid} ") and " train.py " in line]
        unasked = attach(tmp_path, str(child.pid))
        assert unasked.returncode == 2 and f"to agree beforehand: traindx attach {child.pid} --yes" in unasked.stderr


def test_what_is_no_training_is_refused_with_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        with pytest.raises(UsageError, match="is no Python program"):
            process.attachable(child.pid)
        child.kill()
    with subprocess.Popen([sys.executable, "-c", "print(1, flush=True); import time; time.sleep(60)"], stdout=-1) as child:
        assert child.stdout is not None and child.stdout.readline()
        with pytest.raises(UsageError, match="has not imported torch"):
            process.attachable(child.pid)
        child.kill()
    with pytest.raises(UsageError, match="there is no process"):
        process.attachable(child.pid)
    names = iter(["nobody", "root"])
    monkeypatch.setattr(process.psutil.Process, "username", lambda self: next(names))
    with pytest.raises(EnvironmentFault, match="is nobody's, and so must we be: sudo -u nobody"):
        process.attachable(os.getpid())


def test_each_reason_not_to_come_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    me = process.seen(os.getpid())
    changed = {"minor": 10, "torch": True}
    monkeypatch.setattr(process, "seen", lambda pid: replace(me, **changed))
    with pytest.raises(EnvironmentFault, match=r"runs Python 3\.10, and we need 3\.11"):
        process.attachable(me.pid)
    changed["minor"] = 11
    monkeypatch.setattr(process.shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentFault, match="needs gdb: sudo apt-get install gdb"):
        process.attachable(me.pid)
    changed["minor"] = 14
    assert process.attachable(me.pid).minor == 14
    monkeypatch.setattr(process, "_MY_FILES", Path("/proc/self/exe"))
    with pytest.raises(EnvironmentFault, match=r"runs in a container.*docker exec -it CONTAINER traindx attach \d+"):
        process.attachable(me.pid)
    monkeypatch.setattr(process.sys, "platform", "darwin")
    with pytest.raises(EnvironmentFault, match="works on Linux only"):
        process.attachable(me.pid)


def test_all_ranks_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    me = process.seen(os.getpid())
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    names = {me.pid: "1", 1: "0"}
    monkeypatch.setattr(process.psutil.Process, "environ", lambda self: {**job, "RANK": names[self.pid]})
    monkeypatch.setattr(process, "candidates", list)
    with pytest.raises(EnvironmentFault, match="2 ranks, and 1 of them"):
        process.ranks(me)
    other = replace(me, os=process.psutil.Process(1))
    monkeypatch.setattr(process, "candidates", lambda: [other, me])
    assert process.ranks(me) == [other, me]


def test_the_newest_python_is_asked_by_its_own_means(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    me, asked = process.seen(os.getpid()), []

    def run(command: list[str], **how: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 1, "", "PermissionError: not yours")

    monkeypatch.setattr(inject.subprocess, "run", run)
    with pytest.raises(EnvironmentFault, match="forbids to look into process"):
        inject.run(replace(me, minor=14), tmp_path / "x.py")
    assert asked[0][0] == f"/proc/{me.pid}/exe" and asked[0][-2:] == [str(me.pid), str(tmp_path / "x.py")]


def curve(unit: str, steps: list[int]) -> Run:
    return Run({"loss/train": Series(np.array(steps), np.linspace(2, 1, len(steps)))}, {"step_unit": unit})


@pytest.mark.parametrize(
    ("unit", "steps", "made", "wanted"),
    [
        ("step", [0, 10, 20], 25, [0, 10, 20]),
        ("step", [0, 10, 20], None, [0, 10, 20]),
        ("epoch", [0, 1, 2, 3], 400, [0, 100, 200, 300]),
        ("samples", [0, 3200, 6400], 200, [0, 100, 200]),
        ("epoch", [0, 1], None, None),
    ],
)
def test_logs_come_onto_the_axis_of_updates(unit: str, steps: list[int], made: int | None, wanted: list[int] | None) -> None:
    joined = History((curve(unit, steps),)).joined(made)
    assert (joined["loss/train"].steps.tolist() if joined else None) == wanted


def test_history_is_what_the_process_wrote_since_it_was_started(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("step,train_loss\n" + "".join(f"{i},{2 - i / 100}\n" for i in range(50)))
    os.utime(tmp_path / "old.csv", (1, 1))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", "input()"], cwd=tmp_path, stdin=subprocess.PIPE, **quiet) as child:
        (tmp_path / "new.csv").write_text("step,train_loss\n" + "".join(f"{i},{2 - i / 100}\n" for i in range(60)))
        (tmp_path / "notes.json").write_text(json.dumps({"a": 1}))
        found = history.of(process.seen(child.pid))
        child.communicate(b"\n")
    assert [Path(run.source).name for run in found.runs] == ["new.csv"] and found.last == 59
    writer = record.Writer(tmp_path / "run")
    assert [found.write(writer, None, 0, 50), found.write(writer, None, 50, 60)] == [50, 10]
    writer.close("attached", wait=30.0)
    assert record.read(tmp_path / "run").series("loss/train").steps.tolist() == list(range(60))


def test_what_only_the_first_steps_tell_is_not_recorded() -> None:
    recorder = Recorder()
    recorder.joins(5000)
    assert recorder.scene.step == 5000 and not recorder.scene.first
    assert [recorder.plan.full(step) for step in (5000, 5019)] == [True, True] and recorder.plan.skips(5050)
    assert recorder.scene.facts["attached"] == 5000


@pytest.mark.parametrize(("name", "wanted"), [("acquire", "it is importing"), ("_call_with_frames_removed", "no such thing")])
def test_nothing_is_imported_between_two_locks_of_an_import(tmp_path: Path, name: str, wanted: str) -> None:
    text = attach_.ARRIVAL.format(package=str(attach_.PACKAGE), job=str(tmp_path), verb="no_such_thing()")
    inside: dict[str, Any] = {}
    exec(compile(f"def {name}(run): run()", "<frozen importlib._bootstrap>", "exec"), inside)
    inside[name](lambda: exec(text, {}))
    assert wanted in (tmp_path / f"{os.getpid()}.json").read_text().replace("_", " ")
