"""Many ranks and many runs: 64 simulated ranks × one hour merged, and `traindx diagnose` over 1,000 records on one core and on two.

    python bench/ranks.py [--only merge|growth|cores] [--ranks 64] [--steps 36000] [--runs 1000] [--home DIR]

An hour at ten steps a second is 36,000 steps. `merge` is the time and the peak memory of reading all ranks side by side, in a
process of its own. `growth` diagnoses a quarter, half and all of the records on one core and counts the processor's seconds, which
other programs on the machine hardly change; `cores` compares one core with two on the clock, and wants a quiet machine. Both time
the whole command as a user gives it: start, reading, diagnoses, page. Parts that are not named keep their last results, and the
records stay in DIR when one is given. Writes bench/results/ranks.json and .md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from traindx.record import Writer, read

RESULTS = Path(__file__).parent / "results" / "ranks"


def write_rank(folder: Path, rank: int, world: int, steps: int) -> None:
    """One rank's files: ten numbers a step, fingerprints now and then."""
    rng = np.random.default_rng(rank)
    loss = 2.0 * np.exp(-np.arange(steps) / 9000) + 0.1 * rng.standard_normal(steps)
    writer = Writer(folder, rank=rank, name="ranks")
    writer.fact("world_size", world)
    for step in range(steps):
        row: dict[str, float] = {"loss/train": float(loss[step]), "lr": 1e-3, "grad_norm": 1.0 + 0.01 * rank, "time/step": 0.1}
        row |= {"time/backward": 0.04, "time/forward": 0.02, "time/data": 0.01, "batch/valid_targets": 512.0}
        if step % 100 == 0:
            row |= {"rank/fingerprint": float(step * 977), "rank/grad_fingerprint": float(step * 31)}
        writer.write(step, row)
        if step % 2000 == 1999:
            writer.flush()
    writer.close()


def merged(folder: Path) -> dict[str, float]:
    """Read all ranks in a fresh process: seconds and peak megabytes."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import ranks; ranks.merge_here({str(folder)!r})"
    return dict(json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout))


def merge_here(folder: str) -> None:
    """In the child: merge and say what it took."""
    begun, work = time.perf_counter(), time.process_time()
    run = read(folder)
    took, worked = time.perf_counter() - begun, time.process_time() - work
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"seconds": round(took, 2), "cpu": round(worked, 2), "peak_mb": round(peak), "rows": len(run.matrix("rank/loss"))}
    print(json.dumps(told))


def write_runs(folder: Path, n: int) -> None:
    """Records of small runs, one in five of them sick."""
    steps = np.arange(400)
    for i in range(n):
        if (home := folder / f"run-{i:04d}").exists():
            continue
        rng = np.random.default_rng(i)
        loss = (np.exp(steps / 120) if i % 5 == 4 else 2 * np.exp(-steps / 150)) + 0.1 * rng.standard_normal(400)
        writer = Writer(home, name=home.name)
        for step in range(400):
            row = {"loss/train": float(loss[step]), "lr": 1e-3, "grad_norm": float(1 + 0.1 * rng.random()), "time/step": 0.1}
            writer.write(step, row)
        writer.close()


def diagnosed(folder: Path, n: int, cores: int) -> dict[str, float]:
    """`traindx diagnose` over the first n records on so many cores: seconds on the clock and of the processor."""
    own = sorted(os.sched_getaffinity(0))[:cores]
    runs = [str(folder / f"run-{i:04d}") for i in range(n)]
    words = [sys.executable, "-m", "traindx", "diagnose", "--fail-on", "never", "--format", "json", *runs]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile() as out:
        subprocess.run(words, stdout=out, check=True, preexec_fn=lambda: os.sched_setaffinity(0, own))
    took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"runs": n, "seconds": round(took, 1), "cpu": round(cpu, 1), "ms_each": round(1e3 * cpu / n, 1)}


def page(found: dict[str, Any]) -> str:
    """The figures as a table."""
    lines = ["| what | measured | bar |", "|---|---|---|"]
    if merge := found.get("merge"):
        lines.append(
            f"| {merge['ranks']} ranks × {merge['steps']:,} steps merged | {merge['seconds']} s ({merge['cpu']} s of the "
            f"processor), {merge['peak_mb']} MB | ≤ 20 s, < 1 GB |"
        )
    for m in found.get("growth", []):
        told = f"{m['cpu']} s of the processor, {m['ms_each']} ms each"
        lines.append(f"| `traindx diagnose` of {m['runs']:,} runs on one core | {told} | grows in proportion |")
    if cores := found.get("cores"):
        one, two = cores["one"], cores["two"]
        told = f"{two['seconds']} s instead of {one['seconds']} s: {cores['speedup']}×"
        lines.append(f"| … of {one['runs']:,} runs on two cores | {told} | ≥ 1.7× |")
    return "\n".join(lines) + "\n"


def merge(chosen: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Write all ranks, then read them."""
    folder = home / f"ranks-{chosen.ranks}x{chosen.steps}"
    if not folder.exists():
        for rank in range(chosen.ranks):
            write_rank(folder, rank, chosen.ranks, chosen.steps)
    return {"ranks": chosen.ranks, "steps": chosen.steps, **merged(folder)}


def growth(chosen: argparse.Namespace, home: Path) -> list[dict[str, float]]:
    """A quarter, half and all of the runs on one core."""
    write_runs(home / "runs", chosen.runs)
    return [diagnosed(home / "runs", n, 1) for n in (chosen.runs // 4, chosen.runs // 2, chosen.runs)]


def cores(chosen: argparse.Namespace, home: Path) -> dict[str, Any]:
    """All of the runs on one core and on two."""
    write_runs(home / "runs", chosen.runs)
    two, one = (diagnosed(home / "runs", chosen.runs, n) for n in (2, 1))
    return {"one": one, "two": two, "speedup": round(one["seconds"] / two["seconds"], 2)}


PARTS = {"merge": merge, "growth": growth, "cores": cores}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", action="append", choices=PARTS)
    options.add_argument("--ranks", type=int, default=64)
    options.add_argument("--steps", type=int, default=36_000)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--home", type=Path, default=None)
    chosen = options.parse_args()
    file = RESULTS.with_suffix(".json")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.only or PARTS:
            found[name] = PARTS[name](chosen, chosen.home or Path(temporary))
            print(name, found[name], flush=True)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
