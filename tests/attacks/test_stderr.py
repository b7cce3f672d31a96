"""Whatever stderr is, the exit code is the script's (S7)."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from traindx import plain

TRAIN = """
import signal, sys
import torch
if "sigpipe" in sys.argv:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(6):
    x = torch.randn(8, 3)
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()
if "leaves" in sys.argv:
    sys.exit("with a word")
sys.exit(int(sys.argv[1]))
"""


def _without_reader() -> int:
    read, write = os.pipe()
    os.close(read)
    return write


def _full_pipe() -> int:
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(write, True)
    KEPT.append(read)
    return write


KEPT: list[int] = []
STREAMS = {
    "full": lambda: os.open("/dev/full", os.O_WRONLY),
    "reader-gone": _without_reader,
}


@pytest.mark.parametrize(
    ("stream", "words", "code"),
    [
        ("full", ["0"], 0),
        ("full", ["0", "leaves"], 1),
        ("reader-gone", ["0", "sigpipe"], 0),
    ],
)
def test_the_exit_code_is_the_scripts_on_a_stderr_that_cannot_be_written(
    tmp_path: Path, stream: str, words: list[str], code: int
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    fd = STREAMS[stream]()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "traindx", "run", "--dir", "r", "train.py", *words], cwd=tmp_path, stderr=fd, check=False
        )
    finally:
        os.close(fd)
    assert done.returncode == code


@pytest.mark.parametrize("redirect", ["2>&-", ">&- 2>&-"])
def test_the_exit_code_is_the_scripts_without_a_stderr(tmp_path: Path, redirect: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    line = f"exec {shlex.quote(sys.executable)} -m traindx run --dir r train.py 0 {redirect}"
    assert subprocess.run(["sh", "-c", line], cwd=tmp_path, check=False).returncode == 0


def test_a_verb_that_cannot_speak_keeps_its_exit_code(tmp_path: Path) -> None:
    for redirect in ("2>&-", "2>/dev/full"):
        line = f"exec {shlex.quote(sys.executable)} -m traindx diagnose no-such-log {redirect}"
        assert subprocess.run(["sh", "-c", line], cwd=tmp_path, check=False).returncode == 3


def test_a_line_never_waits_for_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    fd = _full_pipe()
    stuck = os.fdopen(fd, "w")
    monkeypatch.setattr(sys, "stderr", stuck)
    monkeypatch.setattr(sys, "__stderr__", stuck)
    told = threading.Thread(target=plain.say, args=("there is no room for this",), daemon=True)
    told.start()
    told.join(60)
    assert not told.is_alive()
    os.close(KEPT.pop())
    stuck.close()


def test_nothing_is_written_into_a_file_that_got_the_number_of_stderr(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN.replace("model =", "import os; os.close(2); mine = open('mine', 'w')\nmodel ="))
    words = [sys.executable, "-m", "traindx", "run", "--dir", "r", "train.py", "3"]
    assert subprocess.run(words, cwd=tmp_path, check=False, stderr=subprocess.DEVNULL).returncode == 3
    assert (tmp_path / "mine").read_text() == "" and (tmp_path / "r").is_dir()


def test_the_exit_code_is_the_scripts_where_no_thread_can_be_started(tmp_path: Path) -> None:
    fails = "import threading; threading.Thread.start = lambda self: 1 / 0\nmodel ="
    (tmp_path / "train.py").write_text(TRAIN.replace("model =", fails))
    words = [sys.executable, "-m", "traindx", "run", "--dir", "r", "train.py", "3"]
    assert subprocess.run(words, cwd=tmp_path, check=False, capture_output=True).returncode == 3


def test_a_stderr_of_the_scripts_own_may_do_what_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(io.StringIO):
        def write(self, text: str) -> int:
            raise ZeroDivisionError

    for odd in (None, Odd(), object()):
        monkeypatch.setattr(sys, "stderr", odd)
        plain.say("nobody hears this")
        assert plain.STDERR.write("x") == 1 and plain.STDERR.isatty() is False


def test_no_text_can_pass_for_another_message_of_ours(capsys: pytest.CaptureFixture[str]) -> None:
    plain.say("no such file: a\x1b[2J\r\ntraindx: healthy\x85x\u2028traindx: healthy")
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\r" not in said
    assert [line for line in said.splitlines() if line.startswith("traindx:")] == [said.splitlines()[0]]
