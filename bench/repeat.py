"""Does the same program with the same seed give the same looks and the same findings, on a quiet and on a busy machine?

    python -m bench.repeat [--cases 12 | NAME…] [--runs 4] [--busy 4] [-o FILE]

Written clinic programs are recorded several times by `traindx run`; every other time so many busy processes run beside. Two runs
agree when the same steps were looked at and the same findings of warning and above (PERF aside) and the same verdict came out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clinic import case as cases
from clinic import patient
from clinic.case import Case

RESULTS = Path(__file__).parent / "results"
LOUD = ("warning", "critical")


def _spin() -> None:
    while True:
        pass


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    beside = [multiprocessing.get_context("fork").Process(target=_spin, daemon=True) for _ in range(count)]
    for one in beside:
        one.start()
    try:
        yield
    finally:
        for one in beside:
            one.kill()
            one.join()


def once(case: Case) -> dict[str, Any]:
    """One run: the steps that were looked at, the findings and the verdict."""
    import traindx

    with tempfile.TemporaryDirectory(prefix="repeat-") as scratch:
        script = Path(scratch) / f"{case.name}.py"
        script.write_text(case.text, encoding="utf-8")
        command = ["run", "--quiet", "--no-live", "--dir", str(Path(scratch) / "record"), script.name]
        ended = patient.in_fork(lambda: patient._cli(command), scratch)
        try:
            run = traindx.load(Path(scratch) / "record")[0]
        except traindx.TraindxError as why:
            return {"exit": ended["exit"], "why": str(why)[:200]}
        told = traindx.diagnose(run)
        looks = run.matrix("grad_norm/param")
        return {
            "looks": [] if looks is None else looks.steps.tolist(),
            "findings": sorted({f"{f.code}:{f.severity.value}" for f in told.findings if f.severity.value in LOUD and f.code[:4] != "PERF"}),
            "verdict": told.verdict,
        }  # fmt: skip


def measure(case: Case, runs: int, beside: int) -> dict[str, Any]:
    """Whether all runs of a case agree with the first."""
    told = []
    for k in range(runs):
        with busy(beside if k % 2 else 0):
            told.append(once(case))
    same = {key: sum(one.get(key) == told[0].get(key) for one in told) for key in ("looks", "findings", "verdict")}
    return {"case": case.name, "runs": runs, **same, "agree": min(same.values()) == runs, "told": told}


def page(table: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """The table of the documentation."""
    agree = sum(row["agree"] for row in table)
    lines = [
        f"{len(table)} written clinic programs, {about['runs']} runs each with the same seed, every other one beside {about['busy']} busy "
        f"processes (load average {about['load']:.0f} on {about['cores']} cores when it began). In {agree} of {len(table)} all runs looked "
        "at the same steps and gave the same findings (warning and above, PERF aside) and the same verdict.", "",
        "| program | same steps looked at | same findings | same verdict |", "|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {r['case']} | {r['looks']}/{r['runs']} | {r['findings']}/{r['runs']} | {r['verdict']}/{r['runs']} |" for r in table
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--busy", type=int, default=4)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "repeat.json")
    args = parser.parse_args()
    every = sorted(cases.written(), key=lambda c: c.name)
    chosen = (
        [c for c in every if c.name in args.names] if args.names else every[:: max(1, len(every) // args.cases)][: args.cases]
    )
    about = {"runs": args.runs, "busy": args.busy, "load": os.getloadavg()[0], "cores": os.cpu_count()}
    table: list[dict[str, Any]] = []
    for case in chosen:
        table.append(measure(case, args.runs, args.busy))
        print({key: value for key, value in table[-1].items() if key != "told"}, flush=True)
        args.output.write_text(json.dumps({"about": about, "cases": table}, indent=1) + "\n", encoding="utf-8")
        args.output.with_suffix(".md").write_text(page(table, about), encoding="utf-8")


if __name__ == "__main__":
    main()
