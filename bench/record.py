"""What recording costs, per step: in the caller, in CPU of the whole process, and for the run's own speed.

    python bench/record.py [--steps 20000]

Each line compares blocks of the bare loop with blocks of the same loop that records, interleaved, so that a busy machine
disturbs both alike. `caller` is the time inside `Writer.write`; `cpu` is process CPU beyond the bare loop (the writer's thread
included); `wall` is how much longer a step takes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: its threads would fight over busy cores

import numpy as np

from traindx.record import Writer

Record = dict[str, object]


def scalars(n: int) -> Callable[[int], Record]:
    names = [f"metric/other/{i}" for i in range(n)]
    return lambda step: dict.fromkeys(names, step + 0.5)


def matrices(signals: int, width: int, series: int) -> Callable[[int], Record]:
    table = np.random.default_rng(0).random((64, signals, width), dtype=np.float32)
    plain = scalars(series)

    def make(step: int) -> Record:
        rows = table[step % 64]
        return {**plain(step), **{f"stat{i}/param": rows[i] for i in range(signals)}}

    return make


CASES = {
    "200 numbers": scalars(200),
    "20 numbers": scalars(20),
    "20 numbers, 9 × 20 values": matrices(9, 20, 20),
    "30 numbers, 8 × 500 values": matrices(8, 500, 30),
}


def work(size: np.ndarray) -> None:
    """Stands for a training step of about a millisecond, most of it outside the interpreter's lock."""
    size @ size


def block(steps: int, make: Callable[[int], Record], writer: Writer | None, load: np.ndarray) -> tuple[float, float, float]:
    caller = 0.0
    cpu, wall = time.process_time(), time.perf_counter()
    for step in range(steps):
        work(load)
        values = make(step)
        if writer is not None:
            begin = time.perf_counter()
            writer.write(step, values)
            caller += time.perf_counter() - begin
    return caller / steps, (time.process_time() - cpu) / steps, (time.perf_counter() - wall) / steps


def measure(name: str, make: Callable[[int], Record], steps: int, folder: Path) -> dict[str, object]:
    load = np.random.default_rng(0).random((160, 160))
    blocks = 20
    callers, cpus, walls, bare = [], [], [], []
    writer = Writer(folder / name.replace(" ", "-"))
    for i in range(2 * blocks):
        seen = block(steps // blocks, make, writer if i % 2 else None, load)
        if i % 2:
            callers.append(seen[0])
            cpus.append(seen[1] - bare[-1][1])
            walls.append(seen[2] / bare[-1][2])
        else:
            bare.append(seen)
    writer.close()
    return {
        "case": name,
        "step_us": round(1e6 * float(np.median([b[2] for b in bare])), 1),
        "caller_us": round(1e6 * float(np.median(callers)), 2),
        "cpu_us": round(1e6 * float(np.median(cpus)), 1),
        "wall_ratio": round(float(np.median(walls)), 4),
        "dropped": writer.dropped,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    steps = parser.parse_args().steps
    folder = Path(tempfile.mkdtemp(prefix="traindx-bench-"))
    try:
        for name, make in CASES.items():
            print(json.dumps(measure(name, make, steps, folder), ensure_ascii=False), flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
