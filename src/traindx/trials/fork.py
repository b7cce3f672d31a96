"""Two arms from one state: as it is against one change, under the same batches (CATALOGUE T16).

A lower learning rate wins any short race, so a small lead proves nothing. A "better" below 30 % must be confirmed with fresh
data orders, and every answer says how far it looked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from traindx.errors import UsageError
from traindx.stats.tails import student_quantile, student_tail
from traindx.trial import Progress, silent
from traindx.trials.state import random_kept
from traindx.trials.task import Batch, Task, Twin

Change = Callable[[Twin], None]
LEAST = 0.05  # a difference of less than 5 % is no finding
CONFIRM = 0.3  # a lead below this must be seen again with fresh orders
LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """Arm B against arm A: `effect` is the mean of ln(probe B / probe A); negative means B is better."""

    verdict: str  # better, worse, undecided
    effect: float
    low: float
    high: float
    steps: int  # horizon looked at
    pairs: int
    broke_a: int  # arms that went non-finite
    broke_b: int
    updates: int
    probes_a: tuple[float, ...] = ()
    probes_b: tuple[float, ...] = ()
    confirmed: bool = False


def compare_arms(
    task: Task,
    change: Change,
    *,
    orders: int = 5,
    horizons: tuple[int, ...] = (50, 100, 200),
    progress: Progress = silent,
    seed: int = 0,
    modes: bool = True,
) -> Comparison:
    """Run both arms over `orders` data orders, doubling the horizon until they differ clearly or it ends.

    `modes`: put both arms into train mode first.
    """
    if task.optimizer is None:
        raise UsageError("this trial trains on from the task's state; give Task(…, optimizer=…)")
    pool = task.batches(min(512, max(horizons) * 2))
    if len(pool) < 2:
        raise UsageError("this trial needs at least two batches of training data")
    probe = task.probes(4 if task.val is not None else 32)
    updates, last = 0, None
    for look, steps in enumerate(horizons):
        last = _look(task, change, pool, probe, orders, steps, seed, progress, LEVEL / len(horizons), modes)
        updates += 2 * orders * steps
        if last.verdict != "undecided":
            if abs(last.effect) >= CONFIRM or last.broke_a != last.broke_b:
                break
            again = _look(task, change, pool, probe, orders, steps, seed + 1000 + look, progress, LEVEL, modes)
            updates += 2 * orders * steps
            if again.verdict == last.verdict:
                last = _with(last, confirmed=True)
                break
            last = _with(last, verdict="undecided")
    assert last is not None
    return _with(last, updates=updates)


def _with(c: Comparison, **changes: object) -> Comparison:
    from dataclasses import replace

    return replace(c, **changes)  # type: ignore[arg-type]


def _look(
    task: Task,
    change: Change,
    pool: list[Batch],
    probe: list[Batch],
    orders: int,
    steps: int,
    seed: int,
    progress: Progress,
    level: float,
    modes: bool,
) -> Comparison:
    a: list[float] = []
    b: list[float] = []
    for r in range(orders):
        order = torch.randperm(len(pool), generator=torch.Generator().manual_seed(seed + r)).tolist()
        batches = [pool[order[i % len(order)]] for i in range(steps)]
        for arm, out in ((None, a), (change, b)):
            out.append(_arm(task, arm, batches, probe, seed + r, modes))
            progress(2 * r + (arm is not None) + 1, 2 * orders, f"{steps} steps, data order {r + 1} of {orders}")
    return judge(np.array(a), np.array(b), steps, level)


def _arm(task: Task, change: Change | None, batches: list[Batch], probe: list[Batch], seed: int, modes: bool) -> float:
    with task.twin(seed=seed) as twin, random_kept(seed=seed):
        if modes:
            twin.model.train()
        if change is not None:
            change(twin)
        for batch in batches:
            loss = twin.step(batch)
            if twin.scheduler is not None and not hasattr(twin.scheduler, "patience"):
                twin.scheduler.step()
            if not math.isfinite(loss):
                return math.inf
        return twin.probe(probe)


def judge(a: np.ndarray, b: np.ndarray, steps: int, level: float) -> Comparison:
    """What the pairs say: better or worse only when all of them agree, by more than they scatter."""
    broke_a, broke_b = int((~np.isfinite(a)).sum()), int((~np.isfinite(b)).sum())
    common: dict[str, Any] = {
        "steps": steps,
        "pairs": len(a),
        "broke_a": broke_a,
        "broke_b": broke_b,
        "updates": 0,
        "probes_a": tuple(a),
        "probes_b": tuple(b),
    }
    if broke_a != broke_b:
        verdict = "better" if broke_a - broke_b > len(a) / 2 else "worse" if broke_b - broke_a > len(a) / 2 else "undecided"
        return Comparison(verdict, math.nan, math.nan, math.nan, **common)
    fine = np.isfinite(a) & np.isfinite(b)
    if fine.sum() < 3:
        return Comparison("undecided", math.nan, math.nan, math.nan, **common)
    x, y = a[fine], b[fine]
    positive = bool((x > 0).all() and (y > 0).all())
    spread = float(np.std(np.log(x), ddof=1)) if positive else 0.0
    d = np.log(y / x) if positive else (y - x) / max(float(np.std(x, ddof=1)), 1e-12)
    mean, error = float(d.mean()), float(np.std(d, ddof=1)) / math.sqrt(len(d)) or 1e-12
    half = student_quantile(0.975, len(d) - 1) * error
    p = 2 * student_tail(abs(mean) / error, len(d) - 1) if float(np.ptp(d)) > 0 else (0.0 if mean else 1.0)
    clear = bool((np.sign(d) == np.sign(mean)).all()) and abs(mean) > max(LEAST, 0.5 * spread) and p < level
    verdict = ("better" if mean < 0 else "worse") if clear else "undecided"
    return Comparison(verdict, mean, mean - half, mean + half, **common)
