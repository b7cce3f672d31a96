"""Files are read in one way: the package opens nothing by itself (S8, S9)."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from traindx.live import stop
from traindx.probes.read.machine import surroundings
from traindx.record import sources

SRC = Path(__file__).parents[2] / "src" / "traindx"
OPENS = re.compile(
    r"(?<![\w.])open\(|(?<!self)(?<!source)(?<!parcel)(?<!TAPE)\.open\(|\.read_text\(|\.read_bytes\(|os\.open\(|np\.load\("
)
WHY = {  # every other place that opens something, and what it is
    "opening.py": "the one way",
    "report/search.py": "a file of the package",
    "report/notebook.py": "a file of the package",
    "report/preflight.py": "a file of the package",
    "report/manual.py": "a file of the package",
    "report/html.py": "files of the package",
    "diagnosis/posterior.py": "a file of the package",
    "cli/demo.py": "files of the package",
    "probes/launch/script_runner.py": "the program that is run",
    "bedside/process.py": "the kernel's",
    "bedside/inject.py": "a private folder of this process",
    "cli/attach.py": "a private folder of this process",
    "record/alive.py": "the kernel's",
    "probes/launch/other_ranks.py": "the kernel's",
    "probes/drive/session.py": "the kernel's",
    "bedside/command.py": "a private folder of this process",
    "probes/read/machine/memory.py": "the kernel's",
    "live/lines.py": "our own stderr",
    "capture/start.py": "a private folder of this process",
    "capture/child.py": "a private folder of this process",
    "record/ring.py": "written, not read",
    "record/manifest.py": "written, not read",
    "record/export.py": "written, not read",
    "record/bundle.py": "unpacked into a private folder",
    "importers/sqlite.py": "a private copy is written",
    "forensics/capsule.py": "a folder is synced",
    "cli/__init__.py": "/dev/null",
}  # fmt: skip


def test_nothing_else_opens_files() -> None:
    found = {
        f"{path.relative_to(SRC)}:{n}: {line.strip()}"
        for path in sorted(SRC.rglob("*.py"))
        if str(path.relative_to(SRC)) not in WHY
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if OPENS.search(line) and not line.lstrip().startswith(("#", "def "))
    }
    assert not found, "use traindx.opening, or say here what it opens:\n" + "\n".join(sorted(found))


TRAPS = {"a pipe": os.mkfifo, "an endless device": lambda path: path.symlink_to("/dev/zero")}


@pytest.mark.parametrize("trap", TRAPS)
def test_what_lies_in_place_of_a_file_of_ours_is_not_waited_for(tmp_path: Path, trap: str) -> None:
    for name in ("stop.json", "sources.json"):
        TRAPS[trap](tmp_path / name)
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / ".git" / "HEAD").unlink()
    TRAPS[trap](repository / ".git" / "HEAD")
    told: list[object] = []

    def ask() -> None:
        told.extend((stop.ordered(tmp_path), sources.kept(tmp_path), surroundings.commit_of(repository)))

    asked = threading.Thread(target=ask, daemon=True)
    asked.start()
    asked.join(60)
    assert told == [None, {}, None]
