"""Fine-tuning is too hot or too long: the model memorises, or forgets before it learns.

## What it sees

Two of three signs, in a run that started from trained weights:

- the training loss falls in steps at epoch boundaries, and validation was best within the first epoch or so;
- the loss of the first 50 records rises above its start by more than six deviations. Or it rises at once: the next five
  are twice the first, or all of the next nine a third higher;
- pretrained tensors move by more than 0.001 of their size per step after warm-up.

## Why it matters

Staircases mean that samples are recognised, not understood. A rise at the start means that the first steps destroyed what
pre-training had built.

## What else looks like this

- LOSS008: overfitting of a model trained from scratch.
- A fresh head on a frozen body: the head's own rate may be high; adapters are not counted as pretrained.
- DATA005: a fixed order repeats its shape *inside* every epoch.

## What to do

Full tuning at 1e-5 to 5e-5, LoRA at 1e-4 to 2e-4, warm-up over 3 to 10 % of the steps, one to three epochs. Keep the
checkpoint with the best validation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "TUNE006",
    needs={"loss/train": 20},
    says={"": "{signs}", "stairs": "{signs}"},
    fix="Use a learning rate of 1e-5 to 5e-5 (LoRA: 1e-4 to 2e-4), a warm-up of 3–10 %, and one to three epochs{now}.",
    severity=Severity.WARNING,
    explains=("LOSS012", "LOSS008", "LOSS001", "LOSS006"),
    at="optimizer rate",
)
def too_hot_finetune(
    run: Run,
    *,
    stairs: float = -3.0,  # z of the jump at epoch boundaries, CATALOGUE 2.8
    rise: float = 6.0,
    moves: float = 1e-3,  # CATALOGUE TUNE006
) -> Iterator[Evidence]:
    tuned = _stage(run)
    if tuned is None:
        raise Muted("not a fine-tuning run")
    run = tuned
    steps = _staircase(run, stairs)
    signs = [s for s in (steps, _early_rise(run, rise), _large_moves(run, moves)) if s]
    if len(signs) >= 2:
        peak = regime.peak_lr(run)
        now = f" (the rate went up to {peak:.2g})" if math.isfinite(peak) else ""
        yield Evidence({"signs": "; ".join(signs), "now": now}, ("loss/train",), run.steps, "stairs" if steps else "")


def _stage(run: Run, factor: float = 1.5) -> Run | None:
    """The part that fine-tunes: all of it, or what follows a load in mid-run with another learning rate; None without one."""
    if regime.finetune(run):
        return run
    for event in reversed(run.events_of("load")):
        before, after = regime.lr(run).at([event.step - 1, event.step + 1])
        other_rate = before > 0 and after > 0 and max(before / after, after / before) > factor
        if event.step > 0 and not event.data.get("missing") and other_rate:
            return run.between(event.step)
    return None


def _staircase(run: Run, limit: float) -> str:
    per = regime.records_per_epoch(run)
    curve = regime.curve(run)
    if per is None or per < 10:
        return ""
    found = stats.boundary_jump(curve.values, per, skip=0)
    val = regime.curve(run, "loss/val")
    whole = regime.steps_per_epoch(run) or 1
    early = len(val) >= 3 and int(val.steps[int(np.argmin(val.values))]) - (run.steps or (0, 0))[0] <= 1.3 * whole
    if found.boundaries >= 2 and found.z < limit and early:
        falls = f"the training loss falls by {-found.jump:.2f} (log) at every epoch boundary"
        return f"{falls} while validation was best in the first epoch"
    return ""


def _early_rise(run: Run, limit: float) -> str:
    start = regime.curve(run).values[:50]
    if len(start) < 20:
        return ""
    first = float(np.median(start[:3]))
    spread = max(stats.mad(np.diff(start)) / math.sqrt(2), 1e-9 * abs(first))
    smooth = np.array([np.median(start[i : i + 5]) for i in range(len(start) - 4)])
    if top := _ruined(start, limit * spread):
        first = float(start[0])
    else:
        top = float(smooth.max())
    if top > first + limit * spread and top > 1.05 * first:
        return f"the loss rose from {first:.3g} to {top:.3g} within the first {len(start)} records"
    return ""


def _ruined(start: Floats, least: float) -> float:
    """How high the loss stands right after a start that the first update ruined; 0 where it did not.

    The first loss is of the weights as they were loaded. One update may be enough to lose what they knew, and then all the
    other records are of the ruin.
    """
    first, tall, long = float(start[0]), float(np.median(start[1:6])), float(np.min(start[1:10]))
    if first > 0 and (tall > max(2 * first, first + least) or long > max(1.3 * first, first + least / 2)):
        return float(np.max([np.median(start[i : i + 5]) for i in (1, 2, 3)]))
    return 0.0


def _large_moves(run: Run, limit: float) -> str:
    table = run.matrix("update_ratio/param").between(max(regime.start(run), regime.phase_start(run) or 0))
    fresh = {*facts.strings(run, "model.adapters"), *facts.strings(run, "model.norm_gains")}
    shapes = facts.table(run, "model.param_shapes")
    usual = [
        float(np.median(v[np.isfinite(v)]))
        for n, v in table.columns()
        if n not in fresh and np.isfinite(v).sum() >= 10 and len(shapes.get(n) or (0, 0)) >= 2
    ]
    if len(usual) >= 2 and float(np.median(usual)) > limit:
        return f"pretrained tensors move by {float(np.median(usual)):.1e} of their size per step (more than {limit:.0e})"
    return ""
