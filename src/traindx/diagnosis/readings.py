"""The number behind a branch: short readings of a run, so that a hypothesis is refuted with a figure and not with a shrug."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from traindx import stats
from traindx.run import Run

WORTH = 0.05  # share of the gain in the second half below which a fall is not worth waiting for (CATALOGUE LOSS004)
HIGH = 0.5  # share of the first loss above which a loss has stayed high
Reading = Callable[[Run], str]


def finite_inputs(run: Run) -> str:
    bad = run.series("batch/input_nonfinite")
    return f"{int(np.nansum(bad.values))} non-finite input values in {len(bad)} checked batches" if len(bad) else ""


def finite_losses(run: Run) -> str:
    loss = run.series("loss/train")
    bad = np.flatnonzero(~np.isfinite(loss.values))
    if not len(loss):
        return ""
    return f"first non-finite loss at step {loss.steps[bad[0]]}" if len(bad) else f"all {len(loss)} losses finite"


def lr_over_peak(run: Run) -> str:
    lr = run.series("lr").finite()
    if not len(lr) or not lr.values.max() > 0:
        return ""
    return f"lr is {lr.last:.3g}, {lr.last / lr.values.max():.0%} of its peak"


def rate_never_falls(run: Run) -> bool:
    """Whether the learning rate is at its peak with no schedule that would lower it."""
    lr = run.series("lr").finite()
    if len(lr) < 10 or run.fact("schedule.name") or run.fact("schedule.planned_steps"):
        return False
    return bool((lr.values[len(lr) // 2 :] >= 0.99 * lr.values.max()).all())


def losses_stay_high(run: Run) -> bool:
    """Whether the training loss is still above half of what it was at the start."""
    loss = run.series("loss/train").finite()
    if len(loss) < 30:
        return False
    return bool(np.median(loss.values[-50:]) > HIGH * np.median(loss.values[:10]) > 0)


def update_size(run: Run) -> str:
    ratio = run.series("update_ratio").finite()
    if not len(ratio):
        return ""
    early, late = float(np.max(ratio.values[:10])), float(np.median(ratio.values[-50:]))
    return f"updates move the weights by {late:.1e} of their size (largest early: {early:.1e})"


def gradient_size(run: Run) -> str:
    norm = run.series("grad_norm").finite()
    if not len(norm):
        return ""
    return f"gradient norm {np.median(norm.values[-100:]):.3g}, was {np.median(norm.values[:100]):.3g}"


def val_spread(run: Run) -> str:
    val = run.series("loss/val").finite()
    if len(val) < 2:
        return f"{len(val)} evaluation(s)"
    tail = val.values[-min(len(val), 10) :]
    return f"last {len(tail)} validation losses {tail.min():.4g}…{tail.max():.4g}, {len(np.unique(tail))} distinct"


def validation_falls(run: Run) -> bool:
    """Whether validation takes part in a fall of the training loss; true where there is no validation to say otherwise."""
    val = run.series("loss/val").finite()
    if len(val) < 8:
        return True
    trend = stats.trend_verdict(val.values, len(val) // 2, grow=False)
    return trend.direction is stats.Direction.FALLING and trend.change < -WORTH


def validation_left_behind(run: Run) -> str:
    """Training falls beyond doubt, validation does not follow: what "generalisation is the limit" means."""
    train, val = run.series("loss/train").finite(), run.series("loss/val").finite()
    if len(train) < 30 or len(val) < 8 or validation_falls(run):
        return ""
    if stats.trend_verdict(val.values, len(val) // 2, grow=False).direction is stats.Direction.UNSURE:
        return ""
    if stats.trend_verdict(train.values).direction is not stats.Direction.FALLING or np.median(train.values[-50:]) >= val.last:
        return ""
    return f"training falls on, {val_trend(run)}; {gap(run)}"


def val_trend(run: Run) -> str:
    val = run.series("loss/val").finite()
    if len(val) < 8:
        return ""
    trend = stats.trend_verdict(val.values, len(val) // 2, grow=False)
    told = f" ({trend.change:+.1%} of its gain)" if abs(trend.change) <= 1 else ""
    return f"validation {trend.direction.value} over its second half{told}"


def gap(run: Run) -> str:
    train, val = run.series("loss/train").finite(), run.series("loss/val").finite()
    if not len(train) or not len(val):
        return ""
    best = int(np.argmin(val.values))
    return (
        f"train {np.median(train.values[-50:]):.4g}, val {val.last:.4g} (best {val.values[best]:.4g} at step {val.steps[best]})"
    )


def scaler(run: Run) -> str:
    scale, skipped = run.series("amp/scale"), run.series("amp/skipped")
    if not len(scale):
        return "no GradScaler seen" if run.fact("amp.scaler") is False else ""
    return f"scale {scale.last:.3g}, {int(np.nansum(skipped.values))} updates skipped"


def dead_units(run: Run) -> str:
    dead = run.matrix("dead_fraction/module")
    if not len(dead):
        return ""
    last = dead.values[-1]
    if not np.isfinite(last).any():
        return ""
    i = int(np.nanargmax(last))
    return f"at most {last[i]:.0%} dead units ({dead.names[i]})"


def output_spread(run: Run) -> str:
    spread = run.series("output_std").finite()
    if len(spread) < 2 or not spread.values[0] > 0:
        return ""
    return f"outputs vary {spread.last / spread.values[0]:.2g} times as much over samples as at the start"


def batch_mix(run: Run) -> str:
    dispersion = run.fact("data.label_dispersion")
    return f"label mix of batches {dispersion:.2f} (1 is shuffled)" if dispersion is not None else ""


def shared_samples(run: Run) -> str:
    shared, seen = run.fact("data.shared"), run.fact("data.seen")
    return f"{shared} of {seen.get('val', '?')} validation samples also trained on" if shared is not None and seen else ""


def evaluation_mode(run: Run) -> str:
    mode = run.series("eval/train_mode")
    return f"{np.nanmean(mode.values):.0%} of validation forwards in train mode" if len(mode) else ""


def waiting(run: Run) -> str:
    step, data = run.series("time/step").finite(), run.series("time/data").finite()
    if not len(step) or not len(data):
        return ""
    return f"{np.median(data.values) / max(np.median(step.values), 1e-12):.0%} of a step is waiting for data"


def memory(run: Run) -> str:
    rss = run.series("mem/rss").finite()
    return f"resident memory {rss.values[0] / 2**20:.0f} → {rss.last / 2**20:.0f} MiB" if len(rss) else ""


def nothing(run: Run) -> str:
    return ""


def always(run: Run) -> bool:
    return True
