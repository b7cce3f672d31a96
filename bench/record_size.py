"""A million steps × 500 tensors × 8 statistics and 30 numbers, every step recorded: bytes on disk, memory, time to read.

    python bench/record_size.py [--steps 1000000] [--tensors 500] [--statistics 8]

The writer is driven turn by turn, as its thread would, with 500 steps to a turn (a run of 1,000 steps a second); a fsync
every second, as in life. Three one-step spikes and five non-finite values are hidden on the way and looked for at the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from traindx.record import Budget
from traindx.record.worker import Worker, say

TURN = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--tensors", type=int, default=500)
    parser.add_argument("--statistics", type=int, default=8)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="traindx-bench-"))
    try:
        record(folder / "run", options.steps, options.tensors, options.statistics)
    finally:
        shutil.rmtree(folder)


def record(path: Path, steps: int, tensors: int, statistics: int) -> None:
    rng = np.random.default_rng(0)
    pool = (1 + 0.1 * rng.standard_normal((997, statistics, tensors))).astype(np.float32)
    numbers = rng.standard_normal((1009, 30)).tolist()
    names = [f"metric/other/{i}" for i in range(30)]
    spikes = {steps // 7: 50.0, steps // 2 + 1: 60.0, steps - 10: 70.0}
    odd = {steps // 5 + i for i in range(5)}
    worker = Worker(path, 0, Budget(), "run", say, {"sync": 1.0})
    largest, memory, begin = 0, [], time.process_time()
    for a in range(0, steps, TURN):
        for step in range(a, min(a + TURN, steps)):
            rows = pool[step % 997]
            if step in spikes or step in odd:
                rows = rows.copy()
                rows[2, 7] = spikes.get(step, np.inf)
            values: dict[str, object] = dict(zip(names, numbers[step % 1009]))
            values.update({f"stat{i}/param": rows[i] for i in range(statistics)})
            if step in spikes:
                values["metric/other/3"] = spikes[step]
            worker.queue.append((step, 1e9 + step * 0.1, values))
        worker.turn()
        if a // TURN % 100 == 99:
            largest = max(largest, sum(f.stat().st_size for f in path.rglob("*.tdx")))
            memory.append(psutil.Process().memory_info().rss)
    worker.turn("closed")
    worker.shelf.close()
    spent = time.process_time() - begin
    report(path, spent, steps, largest, memory, spikes)


LOOK = """
import json, resource, sys, time
import numpy as np
from traindx.record import read
begin = time.perf_counter()
run = read(sys.argv[1])
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
column, series = run["stat2/param"].column("7"), run["metric/other/3"]
spikes = json.loads(sys.argv[2])
print(json.dumps({
    "read_seconds": round(seconds, 2),
    "read_peak_megabytes": round(peak),
    "matrix_records_kept": len(column),
    "series_records_kept": len(series),
    "spikes_found": [bool((s.values[s.steps == int(k)] == v).any()) for k, v in spikes.items() for s in (column, series)],
    "infinities_shown": int(np.isinf(column.values).sum()),
    "notes": list(run.notes),
}))
"""


def report(path: Path, spent: float, steps: int, largest: int, memory: list[int], spikes: dict[int, float]) -> None:
    final = sum(f.stat().st_size for f in path.rglob("*.tdx"))
    half = memory[len(memory) // 2 :]
    look = [sys.executable, "-c", LOOK, str(path), json.dumps(spikes)]
    seen = json.loads(subprocess.run(look, check=True, capture_output=True, text=True).stdout)
    figures = {
        "steps": steps,
        "megabytes": round(final / 1e6, 1),
        "largest_megabytes": round(max(final, largest) / 1e6, 1),
        "memory_growth_second_half_megabytes": round((half[-1] - half[0]) / 1e6, 2) if half else None,
        "worker_cpu_us_per_step": round(1e6 * spent / steps, 1),
    }
    print(json.dumps(figures | seen, indent=1))


if __name__ == "__main__":
    main()
