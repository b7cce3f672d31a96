"""What the pre-flight takes on the clinic's base scripts: CPU seconds, and seconds where nothing else runs.

python -m bench.checks [BASE …]       writes bench/results/checks.json and .md; bases that are there are kept
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BASES = ROOT / "clinic" / "bases"
OUT = Path(__file__).parent / "results" / "checks.json"
ALLOWED_S = {"quick": 20, "usual": 120}


def measured(script: Path, level: str) -> dict[str, Any]:
    """One pre-flight in a folder of its own, with one thread."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "traindx", "check", str(script), f"--{level}", "--format", "json", "-q"],
            cwd=folder, capture_output=True, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = {
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "wall_s": round(time.monotonic() - began, 1),
    }
    if done.returncode > 1:
        return {**took, "error": done.stderr.strip().splitlines()[-1:]}
    items = json.loads(done.stdout)["items"]
    failed = {i["item"]: i["message"] for i in items if i["result"] == "fail"}
    return {**took, "answers": dict(Counter(i["result"] for i in items)), "failed": failed}


def page(found: dict[str, Any]) -> str:
    """The results as a table."""
    lines = [
        "On the clinic's healthy scripts, one thread. CPU seconds: the machine was shared, so the",
        "seconds of the clock (in brackets) are above what a machine of one's own would need.",
        "",
        "| script | `check --quick` | `check` | pass / fail / cannot tell |",
        "|---|---|---|---|",
    ]
    for name, levels in sorted(found.items()):
        told = [f"{levels[k]['cpu_s']:.0f} s ({levels[k]['wall_s']:.0f} s)" if k in levels else "–" for k in ALLOWED_S]
        counts = levels.get("usual", levels.get("quick", {})).get("answers", {})
        answers = " / ".join(str(counts.get(k, 0)) for k in ("pass", "fail", "cannot-tell"))
        lines.append(f"| {name} | {told[0]} | {told[1]} | {answers} |")
    for level, allowed in ALLOWED_S.items():
        times = [x[level]["cpu_s"] for x in found.values() if level in x]
        if times:
            within = sum(t < allowed for t in times)
            lines.append(f"\n`{level}`: {within} of {len(times)} under {allowed} s of CPU, the longest {max(times):.0f} s.")
    return "\n".join(lines) + "\n"


def main() -> None:
    found = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    for level in reversed(ALLOWED_S):
        for name in sys.argv[1:] or sorted(p.stem for p in BASES.glob("*.py")):
            if level not in found.setdefault(name, {}):
                found[name][level] = measured(BASES / f"{name}.py", level)
                print(name, level, found[name][level], flush=True)
                OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                OUT.with_suffix(".md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
