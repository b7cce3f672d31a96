"""Watching a program: run it under plain `traindx run`, keep the record, and judge the record again when only the rules changed.

A record is kept per program text and per version of the observing code (probes, record, forensics, measures), so that a
change of a rule costs milliseconds per case instead of a training.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from clinic.case import WORK, Case

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "traindx"
OBSERVING = ("probes", "record", "forensics", "probe.py", "measures.py", "outline.py", "cli/run.py", "breakdown.py")
TIMEOUT_S = 300.0  # wall clock; a case may take 20 s of one CPU thread, machines are shared


def _digest(paths: list[Path]) -> str:
    h = hashlib.sha256()
    for path in sorted(paths):
        h.update(str(path.relative_to(SOURCE)).encode() + b"\0" + path.read_bytes())
    return h.hexdigest()[:12]


@cache
def observer_version() -> str:
    """Changes when a record of the same program could look different."""
    files: list[Path] = []
    for name in OBSERVING:
        where = SOURCE / name
        files += [where] if where.is_file() else list(where.rglob("*.py"))
    return _digest(files)


@cache
def judge_version() -> str:
    """Changes when anything of traindx changes."""
    return _digest(list(SOURCE.rglob("*.py")))


def environment() -> dict[str, str]:
    """One thread, no bytecode of ours in the way, no user settings."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith("TRAINDX")}
    return keep | {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT / "src"),
        "NO_COLOR": "1",
        "TRAINDX_LIVE": "0",
    }


def record_dir(case: Case, *, any_observer: bool = False) -> Path:
    """Where the record of this case is or will be; the newest one of any observer if asked."""
    folder = WORK / "records"
    here = folder / f"{case.key}-{observer_version()}"
    if any_observer and not (here / "ran.json").exists():
        older = [p.parent for p in folder.glob(f"{case.key}-*/ran.json")]
        if older:
            return max(older, key=lambda p: (p / "ran.json").stat().st_mtime)
    return here


def watch(case: Case, *, forked: bool = False) -> dict[str, Any]:
    """Run the program under `traindx run` and keep its record: {exit, seconds, cpu_s, report, stderr}.

    `forked` saves the import of torch and scikit-learn: this process has them loaded and the same command line runs in a fork of it.
    """
    home = record_dir(case)
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    out = home / "report.json"
    with tempfile.TemporaryDirectory(prefix="clinic-") as scratch:
        script = Path(scratch) / f"{case.name}.py"
        script.write_text(case.text, encoding="utf-8")
        command = ["run", "--format", "json", "-o", str(out), "--dir", str(home / "record"), script.name]
        ended = (
            in_fork(lambda: _cli(command), scratch) if forked else _run([sys.executable, "-m", "traindx", *command], scratch)
        )
    ended["report"] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else None
    kept = {k: v for k, v in ended.items() if k != "report"}
    (home / "ran.json").write_text(json.dumps(kept), encoding="utf-8")
    return ended


def plain(text: str, name: str = "program") -> dict[str, Any]:
    """Run a program text under plain Python: {exit, seconds, cpu_s, stdout, stderr}."""
    with tempfile.TemporaryDirectory(prefix="clinic-") as scratch:
        script = Path(scratch) / f"{name}.py"
        script.write_text(text, encoding="utf-8")
        return _run([sys.executable, script.name], scratch)


def _run(command: list[str], cwd: str) -> dict[str, Any]:
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S)
        code, out, err = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, out, err = -1, "", f"no end after {TIMEOUT_S:.0f} s"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds = round(time.perf_counter() - began, 2)
    return {"exit": code, "seconds": seconds, "cpu_s": round(cpu, 2), "stdout": out[-4000:], "stderr": err[-4000:]}


def _cli(arguments: list[str]) -> int:
    sys.argv = ["traindx", *arguments]
    return importlib.import_module("traindx.cli").main(arguments)


def in_fork(main: Callable[[], int | None], cwd: str, limit: float = TIMEOUT_S) -> dict[str, Any]:
    """What `main` does in a fork of this process, as if it were a process of its own: {exit, seconds, cpu_s, stdout, stderr}."""
    _preload()
    out, err = Path(cwd) / ".out", Path(cwd) / ".err"
    began = time.perf_counter()
    child = os.fork()
    if child == 0:
        _become(main, cwd, out, err)
    code, usage = _await(child, began + limit)
    cpu = usage.ru_utime + usage.ru_stime
    told = {"exit": code, "seconds": round(time.perf_counter() - began, 2), "cpu_s": round(cpu, 2)}
    return {**told, "stdout": _tail(out), "stderr": _tail(err)}


def _tail(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.exists() else ""


@cache
def _preload() -> None:
    """What nearly every case imports; one thread, as in a process of its own."""
    os.environ.update(environment())
    for name in (
        "torch",
        "torch.optim.swa_utils",
        "torch.utils.data",
        "sklearn.datasets",
        "sklearn.model_selection",
        "traindx.cli.run",
    ):
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)


def _become(main: Callable[[], int | None], cwd: str, out: Path, err: Path) -> None:
    """Never returns: the child is this program."""
    code: object = 70
    try:
        os.chdir(cwd)
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
        # a worker of the score was spawned and would have its program spawn DataLoader workers, too: back to the platform's way
        multiprocessing.set_start_method(None, force=True)
        code = main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def _await(child: int, until: float) -> tuple[int, Any]:
    while True:
        pid, status, usage = os.wait4(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status), usage
        if time.perf_counter() > until:
            os.kill(child, signal.SIGKILL)
            _, _, usage = os.wait4(child, 0)
            return -1, usage
        time.sleep(0.05)


def judge_again(home: Path) -> dict[str, Any]:
    """The report on a kept record by the rules as they are now."""
    from traindx.diagnosis import diagnose
    from traindx.record import read
    from traindx.report.json import report

    return report(diagnose(read(home / "record")))


def examine(case: Case, *, fresh: bool = False, any_observer: bool = False, forked: bool = False) -> dict[str, Any]:
    """The report on a case, trained anew only when needed: {report, exit, seconds, cpu_s, stderr, trained}."""
    home = record_dir(case, any_observer=any_observer)
    ran = home / "ran.json"
    if not fresh and ran.exists():
        told = json.loads(ran.read_text(encoding="utf-8"))
        if (home / "record").exists():
            return {**told, "report": judge_again(home), "trained": False}
        if told["exit"] != -1 and not any_observer:
            return {**told, "report": None, "trained": False}
    return {**watch(case, forked=forked), "trained": True}
