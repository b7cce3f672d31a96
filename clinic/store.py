"""Small recorded runs as test data: one compressed .npz each, thinned so that all of them together stay at a few hundred KB.

>>> run = load(RUNS / "zero_grad_missing_mlp.npz")  # doctest: +SKIP
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from clinic.case import HERE, Case, written
from clinic.patient import examine, record_dir
from clinic.score import twin

RUNS = HERE.parent / "tests" / "data" / "runs"
ROWS = 40  # records kept of a matrix
POINTS = 700  # records kept of a series
# One of every family, each with its healed twin, and the healthy runs that tempt most rules.
SICK = (
    "zero_grad_missing_mlp", "head_replaced_after_optimizer", "left_in_eval_mode", "softmax_before_cross_entropy", "adam_lr_half",
    "learning_rate_in_the_mud", "step_lr_every_batch", "sigmoid_tower", "overfit_small_sample", "sorted_by_class", "shuffled_apart",
    "nan_in_the_sensor_file", "log_of_zero_by_hand", "validates_a_frozen_copy", "bn_momentum_of_a_thousandth", "dead_on_arrival",
    "init_eight_times_too_large", "weight_decay_of_sixty", "sgd_bounces", "corrupt_rows_every_epoch", "mse_broadcast", "same_batch_for_ever",
)  # fmt: skip
HEALED = SICK[:12]
HEALTHY = (
    "warm_restarts", "gan_on_a_ring", "gaussian_nll_negative", "heavy_dropout", "batch_of_four", "cosine_to_zero", "lora_adapters",
    "converges_at_once", "accumulation_divided", "reinforce_corridor",
)  # fmt: skip
_NEEDLESS = {"argv", "versions", "git.commit", "script", "started", "cost", "device", "exception"}


def load(path: Path) -> Any:
    """The stored run as a `traindx.run.Run`."""
    from traindx.run import Event, Matrix, Run, Series

    with np.load(path, allow_pickle=False) as box:
        about = json.loads(str(box["about"]))
        signals: dict[str, Any] = {}
        for k, (name, columns) in enumerate(about["signals"]):
            steps, values = box[f"s{k}"], box[f"v{k}"].astype(np.float64)
            signals[name] = Series(steps, values) if columns is None else Matrix(steps, tuple(columns), values)
    events = tuple(Event(e["step"], e["kind"], e["data"]) for e in about["events"])
    return Run(signals, about["facts"], events, tuple(about["notes"]), source=path.stem, kind="record")


def save(run: Any, path: Path) -> int:
    """Keep a run thinned; returns the bytes written."""
    from traindx.report.json import plain
    from traindx.run import Series

    table: list[tuple[str, list[str] | None]] = []
    arrays: dict[str, Any] = {}
    for name, signal in sorted(run.signals.items()):
        if name.startswith(("time/", "mem/")) or not len(signal):
            continue
        keep = _thin(len(signal), POINTS if isinstance(signal, Series) else ROWS)
        arrays[f"s{len(table)}"] = signal.steps[keep].astype(np.int32)
        arrays[f"v{len(table)}"] = signal.values[keep].astype(np.float32)
        table.append((name, None if isinstance(signal, Series) else list(signal.names)))
    facts = {k: plain(v) for k, v in run.facts.items() if k not in _NEEDLESS}
    events = [{"step": e.step, "kind": e.kind, "data": plain(dict(e.data))} for e in run.events if e.kind != "mode"][:200]
    about = {"signals": table, "facts": _scrubbed(facts), "events": _scrubbed(events), "notes": list(run.notes)}
    path.parent.mkdir(parents=True, exist_ok=True)
    box = io.BytesIO()
    np.savez_compressed(box, about=np.array(json.dumps(about)), **arrays)
    path.write_bytes(box.getvalue())
    return len(box.getvalue())


def _thin(n: int, most: int) -> np.ndarray:
    """All records, or `most` of them: the first and last tenth whole, the rest evenly."""
    if n <= most:
        return np.arange(n)
    edge = most // 4
    inner = np.linspace(edge, n - edge - 1, most - 2 * edge).astype(int)
    return np.unique(np.concatenate([np.arange(edge), inner, np.arange(n - edge, n)]))


def _scrubbed(value: Any) -> Any:
    """Without the temporary folder a case ran in."""
    if isinstance(value, str) and "/clinic-" in value:
        return value.rsplit("/", 1)[-1]
    if isinstance(value, dict):
        return {k: _scrubbed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_scrubbed(v) for v in value]
    return value


def _wanted(only: list[str]) -> list[Case]:
    by_name = {c.name: c for c in written()}
    cases = [by_name[n] for n in (*SICK, *HEALTHY)] + [twin(by_name[n]) for n in HEALED]
    return [c for c in cases if not only or c.name in only]


def main(only: list[str]) -> int:
    """Record what is missing, then write all stored runs."""
    from traindx.record import read

    total = 0
    for case in _wanted(only):
        examine(case)
        size = save(read(record_dir(case) / "record"), RUNS / f"{case.name}.npz")
        total += size
        print(f"{case.name:44s} {size / 1024:6.1f} KB", file=sys.stderr)
    print(f"{total / 1024:.0f} KB in all", file=sys.stderr)
    return 0
