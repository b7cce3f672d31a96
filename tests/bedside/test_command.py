"""`traindx run COMMAND`: whatever stands in front of Python runs as it is, and the trainings below it are recorded."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from traindx import record
from traindx.bedside import command
from traindx.record.manifest import starts

TRAIN = textwrap.dedent("""
    import os, sys
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(64, 8)
    y = (x @ torch.randn(8, 3)).argmax(1)
    for _ in range(30):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(sys.stdin.readline().strip(), sys.argv[1:], os.getcwd() == sys.path[0], flush=True)
    if "fail" in sys.argv:
        raise ValueError("no")
    if "kill" in sys.argv:
        os.kill(os.getpid(), 9)
""")


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
    line = [sys.executable, "-m", "traindx", "run", "--no-live", *words]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, input="hello\n", env=env, timeout=200)


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "traindx-runs").iterdir()) if (folder / "traindx-runs").exists() else []


@pytest.mark.parametrize(
    ("words", "code", "ended"),
    [
        (["python", "train.py", "a b"], 0, "closed"),
        (["sh", "-c", "cd . && python train.py 'a b' fail"], 1, "exception"),
        (["--", "python", "train.py", "a b", "kill"], -9, "killed"),
    ],
)
def test_code_input_and_output_are_the_commands(tmp_path: Path, words: list[str], code: int, ended: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    done = run(tmp_path, *words)
    assert done.returncode == code and done.stdout.startswith("hello ['a b'") and done.stdout.rstrip().endswith("True")
    [one] = runs(tmp_path)
    found = record.read(one)
    assert found.fact("ended") in (ended, "running") if ended == "killed" else found.fact("ended") == ended
    assert ("It was killed" in done.stderr) is (ended == "killed")
    assert len(found["loss/train"]) == 30 or ended == "killed"  # the last second of a killed run may be lost
    assert f"the record is in traindx-runs/{one.name}" in done.stderr


def test_what_does_not_train_writes_nothing_and_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "python", "-c", "import torch, sys; print('sitecustomize' in sys.modules, sys.path[1:2])")
    assert done.returncode == 0 and "saw no training with torch below this command" in done.stderr
    assert "bedside" not in done.stdout and not runs(tmp_path)


def test_an_existing_sitecustomize_is_handed_on_to(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import builtins\nbuiltins.handed = __file__\n")
    show = (
        "import sys, sitecustomize; print(handed == sitecustomize.__file__, 'torch' in sys.modules, 'traindx' in sys.modules)"
    )
    done = run(tmp_path, "python", "-c", show, PYTHONPATH=str(tmp_path / "own"))
    assert done.stdout == "True False False\n"


SWEEP = textwrap.dedent("""
    import multiprocessing as mp, runpy, sys
    import torch
    def job(n):
        sys.argv = ["train.py"]
        runpy.run_path("train.py")
    if __name__ == "__main__":
        torch.nn.Linear(1, 1)
        jobs = [mp.get_context(sys.argv[1]).Process(target=job, args=(n,)) for n in range(2)]
        [j.start() for j in jobs]
        [j.join() for j in jobs]
""")


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_sweep_becomes_many_runs_worst_first(tmp_path: Path, how: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "sweep.py").write_text(SWEEP)
    done = run(tmp_path, "python", "sweep.py", how)
    assert done.returncode == 0, done.stderr
    assert "2 runs are recorded in traindx-runs" in done.stderr
    assert [record.read(r).fact("ended") for r in runs(tmp_path)] == ["closed", "closed"]


RANKS = TRAIN.replace("optimizer =", "torch.distributed.init_process_group('gloo')\noptimizer =")


def test_ranks_of_one_job_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKS)
    done = run(tmp_path, "torchrun", "--standalone", "--nproc-per-node", "2", "train.py")
    [one] = runs(tmp_path)
    assert done.returncode == 0 and {s.rank for s in starts(one)} == {0, 1}


ALONE = textwrap.dedent("""
    import sys
    class Nothing:  # an environment with torch and numpy alone
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in {NAMES}:
                raise ModuleNotFoundError(f"no {name}", name=name)
    sys.meta_path.insert(0, Nothing())
    exec(open("train.py").read())
""")


def test_recording_imports_nothing_but_torch_and_numpy(tmp_path: Path) -> None:
    names = {"psutil", "xxhash", "safetensors", "scipy", "rich", "click", "rich_click", "yaml", "google_crc32c", "plotly"}
    names |= {"tsdownsample", "starlette", "uvicorn"}
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "alone.py").write_text(ALONE.replace("{NAMES}", repr(names)))
    done = run(tmp_path, "python", "alone.py")
    [one] = runs(tmp_path)
    assert done.returncode == 0 and len(record.read(one)["loss/train"]) == 30, done.stderr
    assert "not observed" not in done.stderr


def test_a_python_without_numpy_or_too_old_runs_unobserved_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.version_info = (3, 9, 0)\nimport torch\nprint(torch.nn.Linear(1, 1))\n")
    done = run(tmp_path, "python", "train.py")
    assert done.returncode == 0 and done.stdout.startswith("Linear")
    assert "is not observed: it needs Python 3.11 or newer, and this is Python 3.9" in done.stderr


def test_env_does_the_same_for_a_shell(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    ours = f"{shlex.quote(sys.executable)} -m traindx env"
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TRAINDX_LIVE": "0"}
    line = f'eval "$({ours})"; {shlex.quote(sys.executable)} train.py'
    done = subprocess.run(
        ["sh", "-c", line], cwd=tmp_path, env=env, input="hello\n", capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0 and len(runs(tmp_path)) == 1, done.stderr


def test_what_is_sent_to_us_alone_is_passed_on_once(tmp_path: Path) -> None:
    script = "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *a: print('heard', flush=True))\n"
    (tmp_path / "wait.py").write_text(script + "print('up', flush=True)\nfor _ in range(300): time.sleep(0.1)\n")
    line = [sys.executable, "-m", "traindx", "run", "--quiet", sys.executable, "wait.py"]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        child.send_signal(signal.SIGUSR1)
        assert child.stdout.readline() == "heard\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == -signal.SIGINT


def test_what_is_a_script_and_what_a_command(tmp_path: Path) -> None:
    table = {
        "train.py": ("", True),
        "tool": (f"#!{sys.executable}\n", " " not in sys.executable),
        "spaced": (f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n", True),
        "not ours": ("#!/bin/sh\n'''exec' \"/opt/a b/python\" \"$0\" \"$@\"\n' '''\n", False),
        "other": ("#!/opt/other/bin/python3\n", False),
        "with-env": ("#!/usr/bin/env python3\n", True),
        "job.sh": ("#!/bin/sh\n", False),
    }
    for name, (text, script) in table.items():
        (tmp_path / name).write_text(text)
        assert command.is_python(tmp_path / name) is script, name
    assert not command.is_python(tmp_path) and not command.is_python(tmp_path / "torchrun")


def test_the_environment_is_two_variables_and_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "a:b")
    made = command.environment({"dir": "/x"})
    assert made["PYTHONPATH"] == f"{command.START}:a:b" and json.loads(made["TRAINDX_RUN"]) == {"dir": "/x"}
    assert set(made) == {"PYTHONPATH", "TRAINDX_RUN", "TRAINDX_PYTHON"}


def test_an_unknown_command_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "no-such-command-anywhere")
    assert done.returncode == 2 and "there is no script and no command 'no-such-command-anywhere' here" in done.stderr
