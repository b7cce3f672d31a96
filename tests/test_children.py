"""Nothing that lies in the current or the served folder is imported by us or by a process that we start (S3)."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runs import learning
from traindx.errors import UsageError
from traindx.record import Writer

ROOT = Path(__file__).parent.parent
SHADOWS = (
    "numpy",
    "json",
    "torch",
    "tempfile",
    "rich_click",
    "starlette",
    "scipy",
    "sitecustomize",
    "traindx",
    "yaml",
    "safetensors",
)

TRAIN = """
import sys
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x, y = torch.randn(8, 4), torch.randint(2, (8,))
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    if step == 6 and "sick" in sys.argv:
        loss = loss * float("nan")
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A folder that holds a record and, under the names of many modules, programs that leave a mark when they are run."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    for name in SHADOWS:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path)!r} + '/ran-{name}', 'w').close()\nraise SystemExit(99)\n")
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "train.py").write_text(TRAIN)
    writer = Writer(folder / "run", name="run")
    for step, loss in enumerate(learning(60)):
        writer.write(step, {"loss/train": float(loss)})
    writer.close()
    return folder


def marks(trap: Path) -> list[str]:
    return sorted(p.name for p in trap.parent.glob("ran-*"))


def traindx(trap: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "traindx", *words]
    return subprocess.run(command, cwd=trap, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["diagnose", "."], 0),
        (["run", "-q", "--dir", "../r", "../program/train.py"], 0),
        pytest.param(["check", "../program/train.py"], None, marks=pytest.mark.slow),
        pytest.param(["sweep", "loss-at-init", "../program/train.py"], None, marks=pytest.mark.slow),
        (["run", "-q", "--dir", "../r", "-m", "torch.distributed.run", "--standalone", "../program/train.py"], 0),
    ],
    ids=lambda v: v[0] if isinstance(v, list) else "",
)  # fmt: skip
def test_a_verb_imports_nothing_from_where_it_is_called(trap: Path, words: list[str], code: int | None) -> None:
    done = traindx(trap, *words)
    assert not marks(trap), done.stderr
    assert done.returncode != 99 and (code is None or done.returncode == code), done.stderr


def test_the_verb_as_a_module_imports_nothing_but_what_python_itself_takes(trap: Path) -> None:
    (trap / "traindx.py").unlink()  # `python -m traindx` is asked for by this very name
    done = subprocess.run(
        [sys.executable, "-m", "traindx", "rules"], cwd=trap, capture_output=True, text=True, check=False, timeout=60
    )
    assert not marks(trap), done.stderr


def test_the_judging_processes_import_nothing_from_the_served_folder(trap: Path) -> None:
    program = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from traindx.live.start import Judge
        from traindx.dashboard.doctor import Doctor
        doctor = Doctor()
        doctor.ask("x", Path("run"), 0, "1")
        while doctor.answer("x") is None:
            time.sleep(0.05)
        print(doctor.answer("x").health["verdict"])
        doctor.close()
        judge = Judge("run", lines="warning")
        judge.begin(Path("run"))
        judge.end()
    """)
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=trap, capture_output=True, text=True, check=False, timeout=120
    )
    assert not marks(trap), done.stderr
    assert done.stdout.split("\n")[0] in ("healthy", "wait"), done.stderr
    assert "traindx · watching run" in done.stderr


def test_a_replay_imports_nothing_from_the_folder_it_is_called_in(trap: Path) -> None:
    made = traindx(trap, "run", "-q", "--capture-batch", "--dir", "../r", "../program/train.py", "sick")
    capsules = sorted((trap.parent / "r").rglob("capsule-*"))
    assert capsules, made.stderr
    traindx(trap, "replay", str(capsules[0]), "--", "../program/train.py", "sick")
    assert not marks(trap)


def test_a_module_that_you_name_is_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from traindx.trials.target import task_from

    (tmp_path / "named_by_you.py").write_text("def make():\n    return 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    with pytest.raises(UsageError, match="gave a int"):
        task_from("named_by_you:make")


# bisect runs the Python that you name, the others name their own
ALLOWED = ("children.py", "cli/bisect.py", "cli/doctor.py", "bedside/command.py", "bedside/start/sitecustomize.py")


def test_processes_are_started_in_one_place() -> None:
    """Whoever writes `sys.executable` elsewhere starts a Python that may import from the current folder."""
    found = [
        f"{p.relative_to(ROOT)}:{n}"
        for p in sorted((ROOT / "src").rglob("*.py"))
        for n, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"sys\.executable", line) and str(p.relative_to(ROOT / "src/traindx")) not in ALLOWED
    ]
    assert not found, found
