"""Many ranks and many runs: 64 simulated ranks × one hour merged, and 1,000 runs diagnosed on one and on two processes.

    python bench/ranks.py [--ranks 64] [--steps 36000] [--runs 1000]

An hour at ten steps a second is 36,000 steps. `merged` is the time and the peak memory of reading all ranks side by side, in
a process of its own. Runs are diagnosed in growing numbers to show that the time grows in proportion.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from traindx.diagnosis.many import diagnose_all
from traindx.record import Writer, read
from traindx.run import Run


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
    begun = time.perf_counter()
    run = read(folder)
    took = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": round(took, 2), "peak_mb": round(peak), "rows": len(run.matrix("rank/loss"))}))


def some_runs(n: int) -> list[Run]:
    steps = np.arange(400)
    out = []
    for i in range(n):
        noise = np.random.default_rng(i).standard_normal(400)
        out.append(Run.of({"loss/train": (2 * np.exp(-steps / 150) + 0.1 * noise).tolist()}, source=f"run-{i:04d}"))
    return out


def timed(runs: list[Run], jobs: int) -> float:
    begun = time.perf_counter()
    diagnose_all(runs, jobs=jobs)
    return time.perf_counter() - begun


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ranks", type=int, default=64)
    options.add_argument("--steps", type=int, default=36_000)
    options.add_argument("--runs", type=int, default=1000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(chosen.ranks):
            write_rank(Path(folder), rank, chosen.ranks, chosen.steps)
        print("merge", {"ranks": chosen.ranks, "steps": chosen.steps, **merged(Path(folder))})
    runs = some_runs(chosen.runs)
    for n in (chosen.runs // 4, chosen.runs):
        one, two = timed(runs[:n], 1), timed(runs[:n], 2)
        print("diagnose", {"runs": n, "one": round(one, 1), "two": round(two, 1), "speed-up": round(one / two, 2)})


if __name__ == "__main__":
    main()
