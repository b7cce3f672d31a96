"""What only POSIX has is taken away, as on Windows: judging, recording and house-keeping work without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT = r'''
import asyncio, concurrent.futures, http.server, logging.handlers, multiprocessing, platform, subprocess, sys, tempfile, uuid
import google_crc32c, numpy, psutil, rich.console, rich_click, tsdownsample, xxhash, yaml, zipfile  # these are built for Linux
import os, signal
posix = """fork getuid geteuid getgid getegid getpgid getpgrp killpg setsid setpgid fchmod fchown chown mkfifo getloadavg
sched_getaffinity nice uname wait3 wait4 waitid WNOHANG O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_DIRECTORY O_NOCTTY sysconf statvfs
posix_fadvise pread pwrite readv writev sendfile openpty ttyname register_at_fork memfd_create"""
signals = """SIGKILL SIGUSR1 SIGUSR2 SIGHUP SIGALRM SIGPIPE SIGCHLD SIGQUIT SIGSTOP SIGCONT setitimer alarm pthread_kill
pthread_sigmask siginterrupt sigwait"""
for module, names in ((os, posix), (signal, signals)):
    for name in names.split():
        module.__dict__.pop(name, None)
for name in "fcntl resource pwd grp termios tty pty syslog readline torch".split():
    sys.modules[name] = None

import pathlib
import traindx
from traindx.cli import cli
from traindx.record import Writer

home = pathlib.Path(sys.argv[1])
writer = Writer(home / "run")
for i in range(60):
    writer.write(i, {"loss/train": 2.3 * 0.95**i + 0.1, "accuracy/val": 1 - 0.9 * 0.95**i})
writer.close()
rows = [f"{i},{2.3 * 0.95**i:.4f},{1 - 0.9 * 0.95**i:.4f}" for i in range(60)]
(home / "log.csv").write_text("\n".join(["step,loss,val_acc", *rows]))
run, log, zipped = (str(home / name) for name in ("run", "log.csv", "run.zip"))
for words in (
    ["diagnose", log], ["diagnose", str(home), "--format", "json", "-o", str(home / "all.json")], ["ls", str(home)],
    ["compare", run, log], ["report", run, "-o", str(home / "run.html")], ["bundle", run, "-o", zipped], ["diagnose", zipped],
    ["config"], ["rules"], ["note", run, "tried"],
):
    assert cli(words, standalone_mode=False) in (0, None), words
print(traindx.diagnose(zipped).verdict)
'''


def test_nothing_needs_what_windows_lacks(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.rstrip().endswith("healthy")
