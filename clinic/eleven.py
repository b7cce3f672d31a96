"""The 11 PM scenario: "validation has not moved for two hours", eleven times with eleven different truths.

Each program is handed to `traindx diagnose --investigate` with that complaint and nothing else; the verdict is compared with the
truth. Time is that of the processors: machines are shared.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clinic.case import Case
from clinic.patient import environment

COMPLAINT = "DX-D"
MINUTES = 20.0
ALLOWED_S = 180.0


def look_into(case: Case, minutes: float = MINUTES) -> dict[str, Any]:
    """The investigation of one variant: {case, verdict, right, summary, trials, cpu_s} or {case, error}."""
    with tempfile.TemporaryDirectory(prefix="clinic-") as scratch:
        (Path(scratch) / "train.py").write_text(case.text, encoding="utf-8")
        asked = [
            "diagnose",
            "--investigate",
            "train.py",
            "--complaint",
            COMPLAINT,
            "--minutes",
            f"{minutes:g}",
            "--format",
            "json",
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "traindx", *asked, "--quiet"], cwd=scratch, env=environment(), capture_output=True, text=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        return {"case": case.name, "error": done.stderr[-500:], "right": False, "cpu_s": cpu}
    told = json.loads(done.stdout)
    return {
        "case": case.name,
        "verdict": told["verdict"],
        "right": told["verdict"] in case.investigated,
        "summary": told["summary"],
        "trials": [t["trial"] for t in told["trials"]],
        "cpu_s": cpu,
    }


def page(rows: Sequence[dict[str, Any]]) -> str:
    """The table as Markdown."""
    right = sum(r["right"] for r in rows)
    slowest = max((r["cpu_s"] for r in rows), default=0.0)
    head = [
        f'11 PM, "validation has not moved for two hours": {right} of {len(rows)} variants end with the right verdict; the longest '
        f"took {slowest:.0f} s of processor time, its training included (`python -m clinic eleven`).",
        "",
        "| truth | verdict | experiments | processor time |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *map(_row, rows)]) + "\n"


def _row(r: dict[str, Any]) -> str:
    said = ("" if r["right"] else "wrong: ") + r.get("verdict", "failed")
    return (
        f"| {r['case'].replace('_', ' ')} | {said} | {', '.join(r.get('trials', ())) or 'none needed'} | {r['cpu_s']:.0f} s |"
    )
