"""Sixty pages to judge by eye: 20 sick programs, 10 healthy ones, 20 logs and 10 programs with two faults.

    python -m clinic sixty pages/ --logs LOGS            # docs/contributing/pages.md says how to judge them
    python -m clinic sixty pages/ --logs LOGS --seed 2   # other programs and other logs

Each folder holds the program or log, `page.txt` (80 columns), `report.html`, and the truth in `truth.txt`. Programs that
were recorded before are only diagnosed again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clinic.case import HERE, Case, heal, written
from clinic.generate import BASES
from clinic.operators import OPERATORS
from clinic.patient import TIMEOUT_S, environment, in_fork
from clinic.surgery import reseed

LIMIT_S = 1800.0  # by the clock: a page of a program that was cut short is no page to judge
HOW_MANY = {"sick": 20, "healthy": 10, "log": 20, "two": 10}


@dataclass(frozen=True)
class Page:
    """What one page is made of."""

    name: str
    truth: str
    program: str = ""
    log: Path | None = None


def draw(seed: int, logs: Path | None) -> list[Page]:
    """The sixty, the same for the same seed; without a folder of logs only forty."""
    chance = random.Random(seed)
    cases = list(written())
    sick, healthy = ([c for c in cases if (c.kind == "sick") is truly] for truly in (True, False))
    pages = [_written(c, "sick") for c in chance.sample(sick, HOW_MANY["sick"])]
    pages += [_healthy(c) for c in chance.sample([*healthy, *(c for c in sick if c.healed)], HOW_MANY["healthy"])]
    pages += [page for page, _ in zip(_pairs(chance), range(HOW_MANY["two"]), strict=False)]
    if logs is not None:
        labels = {row["id"]: row for row in _rows(logs / "LABELS.jsonl")}
        for row in chance.sample(list(_rows(logs / "INDEX.jsonl")), HOW_MANY["log"]):
            label = labels.get(row["id"], {})
            truth = f"{row['task']}: {', '.join(label.get('labels', ()))} (ambiguous: {label.get('ambiguous')})"
            pages.append(Page(f"log-{row['id']}", truth, log=logs / row["file"]))
    return pages


def _rows(path: Path) -> Iterator[dict[str, object]]:
    return map(json.loads, path.read_text(encoding="utf-8").splitlines())


def _written(case: Case, kind: str) -> Page:
    return Page(f"{kind}-{case.name}", f"{case.fault}\naccepted: {', '.join(case.codes)}\nat: {case.line}", case.text)


def _healthy(case: Case) -> Page:
    if case.kind == "sick":
        return Page(f"healthy-{case.name}-healed", f"healthy; it had this fault: {case.fault}", heal(case))
    return Page(f"healthy-{case.name}", f"healthy; it looks odd because: {case.fault}", case.text)


def _pairs(chance: random.Random) -> Iterator[Page]:
    """Base programs with two faults of different conditions, as long as both fit."""
    while True:
        base = chance.choice(BASES)
        text = reseed((HERE / "bases" / f"{base}.py").read_text(encoding="utf-8"), chance.randrange(100))
        done: list[str] = []
        for operator in chance.sample(OPERATORS, len(OPERATORS)):
            levels = [level for level in operator.levels if not level.quiet and level.least == "warning"]
            patched = operator.apply(base, text, levels[0]) if levels and not operator.exit_code else None
            if patched is not None:
                text, done = patched, [*done, f"{operator.fault} ({operator.condition})"]
            if len(done) == 2:
                yield Page(f"two-{base}-{chance.randrange(10**6):06d}", "\n".join(done), text)
                break


def make(page: Page, folder: Path) -> str:
    """Write one page's folder; returns the headline."""
    home = folder / page.name
    home.mkdir(parents=True, exist_ok=True)
    (home / "truth.txt").write_text(page.truth + "\n", encoding="utf-8")
    target = str(page.log) if page.log is not None else "record"
    if page.program and not (home / "record").exists():
        (home / "train.py").write_text(page.program, encoding="utf-8")
        in_fork(lambda: _traindx("run", "--quiet", "--dir", "record", "train.py"), str(home), LIMIT_S)
    page_text = _ours(home, "diagnose", target)
    _ours(home, "report", target, "-o", "report.html")
    (home / "page.txt").write_text(page_text, encoding="utf-8")
    return next((line for line in page_text.splitlines()[1:] if line.strip()), "")


def _ours(home: Path, *arguments: str) -> str:
    """What a command of traindx says in that folder, on a terminal of 80 columns."""
    command = [sys.executable, "-m", "traindx", *arguments]
    env = environment() | {"COLUMNS": "80"}
    ended = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return ended.stdout + ended.stderr


def _traindx(*arguments: str) -> int:
    from traindx.cli import main

    sys.argv = ["traindx", *arguments]
    return main(list(arguments))


def main(folder: Path, logs: Path | None, seed: int, only: str) -> int:
    """Make the pages that are wanted."""
    for page in draw(seed, logs.resolve() if logs else None):
        if page.name.startswith(only):
            print(f"{page.name:44} {make(page, folder.resolve())}", flush=True)
    return os.EX_OK
