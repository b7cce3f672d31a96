"""A run in a few numbers, as they stand in its record."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from traindx.run import Run


@dataclass(frozen=True)
class Summary:
    """The numbers of a run so far; prints as a few lines. NaN is what was not recorded."""

    steps: int
    first_loss: float
    final_loss: float
    min_loss: float
    val_loss: float
    best_val_loss: float
    best_val_step: int | None
    mean_grad_norm: float
    clip_frequency: float  # share of the clip calls that clipped
    clip_threshold: float
    nonfinite_steps: int  # steps whose loss or gradient norm was not finite
    skipped_updates: int  # by `skip_nonfinite`
    alerts: int  # crossings of `alert_grad_norm`
    largest_gradients: tuple[str, ...]  # parameters, by the mean norm of their gradient
    smallest_gradients: tuple[str, ...]  # by the same for each entry
    where: str = ""  # the record, and what observing cost

    def __str__(self) -> str:
        lines = [f"{self.steps} steps, loss {self.first_loss:.4g} → {self.final_loss:.4g}, lowest {self.min_loss:.4g}"]
        if self.best_val_step is not None:
            best = f"best {self.best_val_loss:.4g} at step {self.best_val_step}"
            lines.append(f"validation {self.val_loss:.4g}, {best}")
        if math.isfinite(self.mean_grad_norm):
            clipped = f", clipped {self.clip_frequency:.0%} of the steps at {self.clip_threshold:.4g}"
            lines.append(f"mean gradient norm {self.mean_grad_norm:.4g}{clipped if math.isfinite(self.clip_frequency) else ''}")
        kept = f", {self.skipped_updates} updates skipped" if self.skipped_updates else ""
        lines.append(f"{self.nonfinite_steps} steps with a loss or gradient that is not finite{kept}")
        if self.largest_gradients:
            lines.append(f"largest gradients: {', '.join(self.largest_gradients)}")
            lines.append(f"smallest gradients per weight: {', '.join(self.smallest_gradients)}")
        return "\n".join([*lines, self.where] if self.where else lines)


def summary_of(run: Run, where: str = "") -> Summary:
    """The summary of what was recorded."""
    train, val, norm = run.series("loss/train"), run.series("loss/val").finite(), run.series("grad_norm")
    loss = train.finite().values
    bad = {int(s) for series in (train, norm) for s in series.steps[~np.isfinite(series.values)]}
    skipped = {e.step for e in run.events_of("skip_guard")}
    best = int(val.values.argmin()) if len(val) else -1
    clip, limit = run.series("clip/norm").finite(), run.series("clip/threshold").finite()
    bound = limit.at(clip.steps)
    before = (clip if len(clip) >= len(norm.finite()) else norm.finite()).values  # a clip call sees every norm before it acts
    largest, smallest = _layers(run)
    return Summary(
        len(train), _at(loss, 0), _at(loss, -1), float(loss.min()) if len(loss) else math.nan, _at(val.values, -1),
        _at(val.values, best), int(val.steps[best]) if len(val) else None, float(before.mean()) if len(before) else math.nan,
        float(np.mean(clip.values > bound)) if len(clip) and len(limit) else math.nan, limit.last if len(limit) else math.nan,
        len(bad | skipped), len(skipped), len(run.events_of("grad_alert")), largest, smallest, where,
    )  # fmt: skip


def _at(values: np.ndarray, place: int) -> float:
    return float(values[place]) if len(values) else math.nan


def _layers(run: Run, most: int = 3) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parameters with the largest and with the smallest gradients, by their mean norm over the records."""
    table = run.matrix("grad_norm/param")
    shapes = run.fact("model.param_shapes") or {}
    seen = {n: v[np.isfinite(v)] for n, v in zip(table.names, table.values.T, strict=True)} if len(table) else {}
    means = {n: float(v.mean()) for n, v in seen.items() if len(v)}
    each = {n: m / math.sqrt(max(math.prod(shapes.get(n) or (1,)), 1)) for n, m in means.items()}
    large, small = sorted(means, key=lambda n: -means[n])[:most], sorted(each, key=lambda n: each[n])[:most]
    return tuple(f"{n} {means[n]:.3g}" for n in large), tuple(f"{n} {each[n]:.2g}" for n in small)
