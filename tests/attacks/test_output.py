"""Nothing that a log, a record or a command line says reaches the terminal, JUnit or a note as more than text (S13, S18)."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from traindx.cli import main

EVIL = "\x1b]0;owned\x07\x1b[31mred\u202e\r\ntraindx: healthy\x85x"
HIDDEN = ("\x1b", "\x07", "\r", "\x85", "\u202e")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [{"step": i, "loss": 2 / (i + 1) if i < 50 else float("nan"), f"metric{EVIL}": i, "note": EVIL} for i in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    body = "".join(f"{i},{2 / (i + 1)},{2.1 / (i + 1)}\n" for i in range(60))
    (tmp_path / "b\x1b[2J.csv").write_text(f'step,loss,"val_loss{EVIL}"\n{body}')
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "run.json").write_text(json.dumps({"schema": f"traindx.record/99{EVIL}", "name": EVIL}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


SAID = [
    ["diagnose", "a.jsonl"],
    ["diagnose", "a.jsonl", "--verbose"],
    *(["diagnose", "a.jsonl", "--format", form] for form in ("json", "junit", "markdown", "sarif", "github")),
    ["diagnose", "b\x1b[2J.csv"],
    ["diagnose", "newer"],
    ["diagnose", f"absent{EVIL}"],
    ["diagnose", "a.jsonl", "--select", EVIL],
    ["diagnose", "a.jsonl", "--map", f"{EVIL}=loss/train"],
    ["compare", "a.jsonl", "b\x1b[2J.csv"],
    ["ls", "."],
    ["note", "a.jsonl", EVIL],
    ["explain", EVIL],
    ["report", "a.jsonl", "-o", f"out{EVIL}.html"],
    ["export", "a.jsonl", "--to", EVIL],
    ["trial", EVIL, "x.py"],
    [EVIL],
]


@pytest.mark.parametrize("words", SAID, ids=lambda w: ascii(" ".join(w))[:50])
def test_text_of_others_is_shown_as_text_of_one_line(logs: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    shown = capsys.readouterr()
    assert left.value.code != 70, shown.err
    for said in (shown.out, shown.err):
        assert not [sign for sign in HIDDEN if sign in said]
        assert not [line for line in said.splitlines() if line.startswith("traindx: healthy")]


TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(2, (8,)))
    (loss * (float("nan") if step == 6 else 1)).backward()
    optimizer.step()
"""


def test_everything_that_a_run_leaves_is_private_whatever_the_umask_is(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "r").mkdir(mode=0o755)
    words = [sys.executable, "-m", "traindx", "run", "-q", "--capture-batch", "--dir", "r/x", "train.py"]
    subprocess.run(words, cwd=tmp_path, check=False, preexec_fn=lambda: os.umask(0))
    subprocess.run(
        [sys.executable, "-m", "traindx", "note", "r/x", "hm"], cwd=tmp_path, check=True, preexec_fn=lambda: os.umask(0)
    )
    left = [tmp_path / "r" / "x", *(tmp_path / "r" / "x").rglob("*")]
    assert any("capsule" in p.name for p in left) and any("diary" in p.name for p in left)
    shared = {str(p.relative_to(tmp_path)): oct(mode) for p in left if (mode := stat.S_IMODE(p.lstat().st_mode)) & 0o077}
    assert not shared
