"""Small recorded runs as test data: one packed .npz each, thinned so that all of them together stay at a few hundred KB.

>>> run = load(RUNS / "zero_grad_missing_mlp.npz")  # doctest: +SKIP
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

import numpy as np

from clinic.case import HERE, Case, written
from clinic.patient import examine, record_dir
from clinic.score import twin

RUNS = HERE.parent / "tests" / "data" / "runs"
ROWS = 24  # records kept of a matrix
POINTS = 600  # records kept of a series that rules judge step by step; a third of that of the others
DENSE = ("loss/train", "grad_norm", "lr", "loss/sample_var", "update_ratio")
EXACT = ("loss/val", "metric/", "batch/fingerprint", "rank/")
# One of every family, each with its healed twin, and the healthy runs that tempt most rules.
SICK = (
    "zero_grad_missing_mlp", "head_replaced_after_optimizer", "left_in_eval_mode", "softmax_before_cross_entropy", "adam_lr_half",
    "learning_rate_in_the_mud", "step_lr_every_batch", "sigmoid_tower", "overfit_small_sample", "sorted_by_class", "shuffled_apart",
    "nan_in_the_sensor_file", "log_of_zero_by_hand", "validates_a_frozen_copy", "bn_momentum_of_a_thousandth", "dead_on_arrival",
    "init_eight_times_too_large", "corrupt_rows_every_epoch",
)  # fmt: skip
HEALED = SICK[:8]
HEALTHY = (
    "warm_restarts", "gaussian_nll_negative", "heavy_dropout", "batch_of_four", "cosine_to_zero",
    "converges_at_once", "accumulation_divided", "reinforce_corridor",
)  # fmt: skip
_NEEDLESS = {"argv", "versions", "git.commit", "script", "started", "cost", "device", "exception"}


def load(path: Path) -> Any:
    """The stored run as a `traindx.run.Run`."""
    from traindx.run import Event, Matrix, Run, Series

    with np.load(path, allow_pickle=False) as box:
        about = json.loads(lzma.decompress(box["about"].tobytes()))
        clocks = [np.cumsum(np.array(c, dtype=np.int64)) for c in about["clocks"]]
        planes = np.frombuffer(lzma.decompress(box["values"].tobytes()), dtype=np.uint8).reshape(8, -1)
    values = np.ascontiguousarray(planes.T).view(np.float64).ravel()
    signals: dict[str, Any] = {}
    at = 0
    for name, clock, columns in about["signals"]:
        steps, width = clocks[clock], len(columns) if columns is not None else 1
        part = values[at : at + len(steps) * width]
        at += len(part)
        signals[name] = (
            Series(steps, part) if columns is None else Matrix(steps, tuple(columns), part.reshape(len(steps), width))
        )
    events = tuple(Event(e["step"], e["kind"], e["data"]) for e in about["events"])
    return Run(signals, about["facts"], events, tuple(about["notes"]), source=path.stem, kind="record")


def save(run: Any, path: Path) -> int:
    """Keep a run thinned; returns the bytes written."""
    from traindx.report.json import plain
    from traindx.run import Series

    table: list[tuple[str, int, list[str] | None]] = []
    clocks: dict[tuple[int, ...], int] = {}
    parts: list[np.ndarray] = []
    for name, signal in sorted(run.signals.items()):
        if name.startswith(("time/", "mem/")) or not len(signal):
            continue
        most = ROWS if not isinstance(signal, Series) else POINTS if name in DENSE else POINTS // 3
        keep = _thin(len(signal), most)
        clock = clocks.setdefault(tuple(np.diff(signal.steps[keep], prepend=0).tolist()), len(clocks))
        table.append((name, clock, None if isinstance(signal, Series) else list(signal.names)))
        parts.append(_rounded(signal.values[keep], exact=name.startswith(EXACT)).ravel())
    facts = {k: plain(v) for k, v in run.facts.items() if k not in _NEEDLESS}
    events = [{"step": e.step, "kind": e.kind, "data": plain(dict(e.data))} for e in run.events if e.kind != "mode"][:100]
    about = {
        "signals": table,
        "clocks": list(clocks),
        "facts": _scrubbed(facts),
        "events": _scrubbed(events),
        "notes": list(run.notes),
    }
    planes = np.concatenate(parts).view(np.uint8).reshape(-1, 8).T  # equal bytes side by side: they compress
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, about=_packed(json.dumps(about).encode()), values=_packed(np.ascontiguousarray(planes).tobytes()))
    return path.stat().st_size


def _packed(data: bytes) -> np.ndarray:
    return np.frombuffer(lzma.compress(data, preset=9), dtype=np.uint8)


def _rounded(values: np.ndarray, *, exact: bool) -> np.ndarray:
    """Ten bits of mantissa, where a rule does not compare digits."""
    out = np.array(values, dtype=np.float64)
    if exact:
        return out
    bits = out.view(np.uint64)
    bits &= ~np.uint64((1 << 42) - 1)
    return out


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
        examine(case, any_observer=True, forked=True)
        size = save(read(record_dir(case, any_observer=True) / "record"), RUNS / f"{case.name}.npz")
        total += size
        print(f"{case.name:44s} {size / 1024:6.1f} KB", file=sys.stderr)
    print(f"{total / 1024:.0f} KB in all", file=sys.stderr)
    return 0
