"""Many ranks and many runs: 64 simulated ranks × one hour merged, and 1,000 runs diagnosed on one and on two processes.

    python bench/ranks.py [--ranks 64] [--steps 36000] [--runs 1000]

An hour at ten steps a second is 36,000 steps. `merge` is the time and the peak memory of reading all ranks side by side, in a
process of its own. Runs are diagnosed in growing numbers to show that the time grows in proportion. Beside the seconds on the
clock stand those of the processor, which other programs on the machine do not change: `speedup_cpu` is what two free cores give,
the work of one process by that of the parent plus the longer of the two workers'. Writes bench/results/ranks.json and .md.
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

from traindx.diagnosis.many import diagnose_all
from traindx.record import Writer, read
from traindx.run import Run

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


def some_runs(n: int) -> list[Run]:
    steps = np.arange(400)
    out = []
    for i in range(n):
        noise = np.random.default_rng(i).standard_normal(400)
        out.append(Run.of({"loss/train": (2 * np.exp(-steps / 150) + 0.1 * noise).tolist()}, source=f"run-{i:04d}"))
    return out


def work(who: int) -> float:
    """Seconds of the processor: of this process, or of its children that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def timed(runs: list[Run], jobs: int) -> dict[str, float]:
    """Seconds on the clock; of the processor in this process and in its workers."""
    begun, own, theirs = time.perf_counter(), work(resource.RUSAGE_SELF), work(resource.RUSAGE_CHILDREN)
    diagnose_all(runs, jobs=jobs)
    return {
        "seconds": time.perf_counter() - begun,
        "own": work(resource.RUSAGE_SELF) - own,
        "workers": work(resource.RUSAGE_CHILDREN) - theirs,
    }


def compared(runs: list[Run]) -> dict[str, float]:
    """One process against two."""
    one, two = timed(runs, 1), timed(runs, 2)
    ideal = two["own"] + two["workers"] / 2  # chunks of eight runs are taken as they come: the workers share evenly
    return {
        "runs": len(runs),
        "one": round(one["seconds"], 1),
        "two": round(two["seconds"], 1),
        "speedup": round(one["seconds"] / two["seconds"], 2),
        "cpu_one": round(one["own"], 1),
        "cpu_parent": round(two["own"], 2),
        "cpu_workers": round(two["workers"], 1),
        "speedup_cpu": round(one["own"] / ideal, 2),
        "ms_each": round(1e3 * one["own"] / len(runs), 1),
    }


def page(found: dict[str, Any]) -> str:
    """The figures as a table."""
    merge, many = found["merge"], found["diagnose"]
    lines = [
        "| what | measured | bar |",
        "|---|---|---|",
        f"| {merge['ranks']} ranks × {merge['steps']:,} steps merged | {merge['seconds']} s ({merge['cpu']} s of the processor), "
        f"{merge['peak_mb']} MB | ≤ 20 s, < 1 GB |",
    ]
    lines += [
        f"| {m['runs']:,} runs diagnosed on one core | {m['cpu_one']} s of the processor, {m['ms_each']} ms each | grows in proportion |"
        for m in many
    ]
    last = many[-1]
    lines.append(
        f"| … on two cores | {last['speedup_cpu']}× by the processor's time, {last['speedup']}× on the clock "
        f"under a load of {found['load']} | ≥ 1.7× |"
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ranks", type=int, default=64)
    options.add_argument("--steps", type=int, default=36_000)
    options.add_argument("--runs", type=int, default=1000)
    chosen = options.parse_args()
    found: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(chosen.ranks):
            write_rank(Path(folder), rank, chosen.ranks, chosen.steps)
        found["merge"] = {"ranks": chosen.ranks, "steps": chosen.steps, **merged(Path(folder))}
        print("merge", found["merge"], flush=True)
    runs = some_runs(chosen.runs)
    found["diagnose"] = []
    for n in (chosen.runs // 4, chosen.runs // 2, chosen.runs):
        found["diagnose"].append(compared(runs[:n]))
        print("diagnose", found["diagnose"][-1], flush=True)
    RESULTS.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    RESULTS.with_suffix(".md").write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
