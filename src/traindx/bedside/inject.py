"""Runs a file of Python in a program that is already running, at a moment that its own interpreter chooses.

Python 3.14 has a way of its own. Before that gdb stops the program for less than a second and asks its interpreter, by
`Py_AddPendingCall`, to run a line of Python when its main thread is next between two instructions. Nothing that is called while
it stands still allocates memory or takes a lock of malloc's: a page from `mmap` holds the line. An interpreter that is
finalising is left alone, and the line itself does nothing when the file is gone, or the interpreter has begun to end since.
"""

from __future__ import annotations

import platform
import subprocess
import time
from pathlib import Path

from traindx.bedside import process
from traindx.bedside.process import Process
from traindx.errors import EnvironmentFault

GDB_S = 60.0  # the longest that gdb may take
_QUIET = (
    "set pagination off", "set confirm off", "set debuginfod enabled off", "set auto-solib-add off", "set language c",
    "set print thread-events off", "set unwindonsignal on", "handle all nostop noprint pass",
)  # fmt: skip
# A main thread that waits for a lock, such as that of a thread which trains, looks for such lines when its wait is interrupted:
# `futex` (202) may return EINTR at any time.
_WAKE = ("if $orig_rax == 202", "set $rax = -4", "set $orig_rax = -1", "end") if platform.machine() == "x86_64" else ()


def run(one: Process, file: Path) -> None:
    """Ask the process to run this file; it does when its main thread is next in Python."""
    if one.minor is not None and one.minor >= 14:
        _remote(one, file)
    else:
        _gdb(one, file)


def _remote(one: Process, file: Path) -> None:
    """`sys.remote_exec` is called by the program's own kind of Python: both must be of one version."""
    line = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
    command = [f"/proc/{one.pid}/exe", "-I", "-S", "-c", line, str(one.pid), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GDB_S, check=False, stdin=subprocess.DEVNULL)
    if "PermissionError" in done.stderr or "not permitted" in done.stderr:
        raise process.forbidden(one.pid)
    if done.returncode:
        raise EnvironmentFault(f"process {one.pid} refuses: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")


def _gdb(one: Process, file: Path) -> None:
    line = (
        f"try:\n exec(open({str(file)!r}, encoding='utf-8').read(), {{'__name__': 'traindx-attach'}})\nexcept: pass\n".encode()
    )
    ends = "Py_IsFinalizing" if (one.minor or 0) >= 13 else "_Py_IsFinalizing"
    script = [
        *_QUIET,
        f"attach {one.pid}",
        "sharedlibrary libpython",
        r"sharedlibrary libc\.so",
        r"sharedlibrary ld-musl",
        f"if ((int(*)(void)){ends})()",
        r'  printf "\ntraindx: ending\n"',
        "else",
        "  set $page = (long)((void*(*)(void*,long,int,int,int,long))mmap)(0, 65536, 3, 34, -1, 0)",
        "  if $page > 0",
        f'    set {{char[{len(line) + 1}]}}$page = "{"".join(f"{chr(92)}{byte:03o}" for byte in line)}"',
        "    set $full = ((int(*)(void*,void*))Py_AddPendingCall)((void*)PyRun_SimpleString, (void*)$page)",
        r'    printf "\ntraindx: asked %d\n", $full',
        *_WAKE,
        "  end",
        "end",
        "detach",
    ]
    told = file.with_suffix(".gdb")
    told.write_text("\n".join(script) + "\n")
    command = ["gdb", "-nx", "-q", "-batch", "-x", str(told)]
    # a session of its own: Ctrl-C must not end it while the program stands still
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = child.communicate(timeout=GDB_S)
    except subprocess.TimeoutExpired:
        child.kill()  # the kernel lets the program continue
        child.wait()
        raise EnvironmentFault(
            f"process {one.pid} could not be stopped within {GDB_S:.0f} s; is it waiting for a disk?"
        ) from None
    if "traindx: asked 0" in said:
        return
    if "traindx: ending" in said or not one.alive:
        raise EnvironmentFault(f"process {one.pid} is ending; read what it has written: traindx diagnose LOG")
    if "not permitted" in said or "ptrace" in said:
        raise process.forbidden(one.pid)
    last = next((s for s in reversed(said.splitlines()) if s.strip()), "nothing")
    raise EnvironmentFault(f"gdb could not ask process {one.pid} ({last.strip()[:200]}); read its log: traindx diagnose LOG")


def wait(answer: Path, one: Process, seconds: float) -> bool:
    """Wait for a file that the process writes; whether it came."""
    until = time.monotonic() + seconds
    while not answer.exists():
        if time.monotonic() > until or not one.alive:
            return answer.exists()
        time.sleep(0.02)
    return True
