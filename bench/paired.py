"""What a step costs from update 1,000 on, for a busy machine: blocks of steps in one process, observed and bare in turn.

    python bench/paired.py [--loops mlp-small,cnn,…] [--rounds 20] [-o FILE]

Each loop of `bench/slope.py` runs under `traindx run`. After the dense start every second block is run with all patches taken
off. Both are timed by the process's own processor time, looks and the writer's thread included. Two bare blocks stand around each
observed one: what the ratio of these two spreads over is what the machine adds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench.slope import LOOPS, START

BLOCK = 200  # steps: one look falls into each


def run(name: str, rounds: int) -> None:
    import random

    import torch
    from torch.optim import optimizer as hooks

    from traindx.probes.drive.patches import PATCHES

    torch.manual_seed(0)
    random.seed(0)
    loop, ours = LOOPS[name][0](), (hooks._global_optimizer_pre_hooks, hooks._global_optimizer_post_hooks)

    def seconds(steps: int) -> float:
        begun = time.process_time()
        for _ in range(steps):
            next(loop)
        return time.process_time() - begun

    def bare(steps: int) -> float:
        back, kept = PATCHES.lift(), [dict(one) for one in ours]
        for one in ours:
            one.clear()
        try:
            return seconds(steps)
        finally:
            for one, before in zip(ours, kept, strict=True):
                one.update(before)
            back()

    seconds(START + BLOCK // 2)
    print(json.dumps([(bare(BLOCK), seconds(BLOCK), bare(BLOCK)) for _ in range(rounds)]))


def measure(name: str, rounds: int) -> dict[str, float]:
    """The ratio over all rounds, its quartiles, and those of bare against bare."""
    command = [sys.executable, "-m", "traindx", "run", "--quiet", "--no-live", str(Path(__file__).resolve()), name, str(rounds)]
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "TRAINDX_DIR": folder}
        text = subprocess.run(command, check=True, capture_output=True, env=env, cwd=folder, text=True).stdout
    blocks: list[list[float]] = json.loads(next(row for row in text.splitlines() if row.startswith("[[")))
    ratios = statistics.quantiles([2 * b / (a + c) for a, b, c in blocks], n=4)
    null = statistics.quantiles([a / c for a, _, c in blocks], n=4)
    whole = 2 * sum(b for _, b, _ in blocks) / sum(a + c for a, _, c in blocks)
    each = min(min(a, c) for a, _, c in blocks) / BLOCK
    return {
        "bare_ms": 1e3 * each,
        "step": whole,
        "low": ratios[0],
        "high": ratios[2],
        "null_low": null[0],
        "null_high": null[2],
    }


def page(found: dict[str, Any]) -> str:
    about = found["about"]
    lines = [
        f"Processor time of blocks of {BLOCK} steps in one process from update 1,000 on, observed against bare, {about['rounds']} "
        f"rounds taken in turn, looks included (quartiles in brackets); load average {about['load']:.0f} on {about['cores']} cores. "
        "A busy machine makes small steps dearer than a quiet one does: other programs take the caches.", "",
        "| loop | step, bare | a step after update 1,000 | bare against bare |", "|---|---|---|---|",
    ]  # fmt: skip
    for name, one in found["loops"].items():
        lines.append(
            f"| {name} | {one['bare_ms']:.2f} ms | {one['step']:.3f} ({one['low']:.3f} to {one['high']:.3f}) "
            f"| {one['null_low']:.3f} to {one['null_high']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] in LOOPS:
        run(sys.argv[1], int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", default="mlp-small,mlp,cnn,tensors-240")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "results" / "paired.json")
    args = parser.parse_args()
    found: dict[str, Any] = {"about": {"rounds": args.rounds, "cores": os.cpu_count()}, "loops": {}}
    for name in args.loops.split(","):
        found["about"]["load"] = os.getloadavg()[0]
        found["loops"][name] = measure(name, args.rounds)
        print(name, {key: round(value, 3) for key, value in found["loops"][name].items()}, flush=True)
        args.output.write_text(json.dumps(found, indent=1) + "\n")
        args.output.with_suffix(".md").write_text(page(found))


if __name__ == "__main__":
    main()
