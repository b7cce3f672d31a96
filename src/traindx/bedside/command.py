"""`traindx run COMMAND`: the command runs as it is, and the Python processes below it observe themselves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from traindx import opening
from traindx.bedside.inside import VARIABLE
from traindx.children import JUDGE
from traindx.settings import Settings

START = Path(__file__).with_name("start")
_SENT = {signal.SIGINT, signal.SIGTERM} | {
    getattr(signal, name) for name in ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT") if hasattr(signal, name)
}


def kept(chosen: Settings) -> dict[str, Any]:
    """The settings that the processes below must know."""
    return {k: getattr(chosen, k) for k in ("select", "ignore", "rules", "severity", "replay", "capture_batch", "mode")}


def environment(asked: dict[str, Any]) -> dict[str, str]:
    """The variables below which Python processes observe themselves."""
    path = os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": f"{START}{os.pathsep}{path}" if path else str(START),
        VARIABLE: json.dumps(asked),
        JUDGE: sys.executable,
    }


@contextmanager
def job() -> Iterator[Path]:
    """A folder for the time of a command, in which its processes say which runs they are."""
    folder = Path(tempfile.mkdtemp(prefix="traindx-job-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def runs(job: Path) -> dict[Path, bool]:
    """The runs that were told of, the oldest first; whether a process of theirs is still there."""
    found: dict[Path, bool] = {}
    for note in sorted(job.iterdir(), key=lambda note: note.stat().st_mtime):
        run = Path(note.read_text(encoding="utf-8"))
        found[run] = found.get(run, False) or Path("/proc", note.name).exists()
    return found


def execute(words: Sequence[str], variables: dict[str, str]) -> int:
    """Run a command to its end; its exit code, a signal as its negative.

    What the terminal sends reaches the command by itself, as one of its processes; what is sent to us alone is passed on.
    """
    env = {**os.environ, **variables}
    if not hasattr(signal, "sigwaitinfo"):
        return _waited(words, env)
    waited = _SENT | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        child = os.posix_spawnp(words[0], list(words), env, setsigmask=before, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
        while True:
            heard = signal.sigwaitinfo(waited)
            if heard.si_signo != signal.SIGCHLD:
                if heard.si_code <= 0:  # by a process, not by the terminal
                    os.kill(child, heard.si_signo)
                continue
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _waited(words: Sequence[str], env: dict[str, str]) -> int:
    with subprocess.Popen(list(words), env=env) as child:
        while True:
            try:
                return child.wait()
            except KeyboardInterrupt:  # the terminal has told the command too
                continue


def leave(code: int) -> None:
    """End as the command did: with its code, or by its signal."""
    sys.stdout.flush()
    if code < 0:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code >= 0 else 128 - code)


_THROUGH_SH = b"'''exec' "


def is_python(path: Path) -> bool:
    """Whether a file is a program that our own Python is to run: `.py`, a folder or archive with a main, or written for it."""
    if path.suffix in (".py", ".pyw", ".pyz", ".zip") or (path / "__main__.py").is_file():
        return True
    try:
        with opening.opened(path, named=True) as file:
            first, second = file.readline(300), file.readline(4096)
    except OSError:
        return False
    if not first.startswith(b"#!"):
        return not os.access(path, os.X_OK) and path.suffix == ""
    if second.startswith(_THROUGH_SH):  # how pip starts a Python whose path has spaces or is long
        return Path(os.fsdecode(second.removeprefix(_THROUGH_SH).strip().partition(b'" ')[0].strip(b'"'))) == Path(
            sys.executable
        )
    named = first[2:].split()
    at = Path(os.fsdecode(named[0])) if named else Path()
    if at.name == "env":
        return any(w.startswith(b"python") for w in named[1:])
    return at.name.startswith("python") and at.parent == Path(sys.executable).parent
