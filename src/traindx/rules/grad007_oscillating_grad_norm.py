"""The gradient norm of a layer swings more and more widely.

## What it sees

The spread of the logarithm of each weight's gradient norm (and of the global norm) in windows. The reference is the
calmest three earlier windows in a row at the same learning rate. It fires at three times that width in three of the
last five windows, if single bursts do not explain it.

## Why it matters

A widening swing shows instability in that layer before the loss shows it.

## What else looks like this

- GRAD003: single bursts; the spread here is robust against them.
- Batches of mixed sources or lengths, which swing from the start and not wider later.
- The end of training, when gradients get small and noisy everywhere: then every layer widens alike. Told as a remark, and so
  is a global norm where those of the layers are not known.

## What to do

Learning rate ÷3 (for that group), clip at the 95 % quantile, β₂ .999 → .95.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Evidence, Severity, Unsure
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Floats, Ints, Run


@rule(
    "GRAD007",
    needs={"grad_norm/param | grad_norm": 60},
    says="the gradient norm of {where} swings {ratio:.1f} times wider than at its calmest at this learning rate",
    fix="Divide the learning rate of {where} by 3, or clip its gradient at the 95 % quantile.",
    severity=Severity.INFO,
)
def oscillating_grad_norm(
    run: Run,
    *,
    wider: float = 3.0,  # CATALOGUE part 10
    windows: int = 5,
    need: int = 3,
) -> Iterator[Evidence]:
    table = run.matrix("grad_norm/param")
    columns = dict(table.columns()) if len(table) >= 60 else {}
    columns = {n: columns[n] for n in params.weights(run, columns)}
    steps = table.steps
    if not columns:
        norm = run.series("grad_norm").finite()
        columns, steps = {"all parameters": norm.values}, norm.steps
    usable = steps >= regime.start(run)
    rate = regime.lr(run)
    if len(rate) and rate.last > 0:
        usable &= np.abs(np.log(np.maximum(rate.at(steps), 1e-300) / rate.last)) < 0.4
    if usable.sum() < 60:
        raise Unsure("too few records at this learning rate", needs_steps=60)
    swings = {n: _swing(c[usable], windows, wider, need) for n, c in columns.items()}
    found = {n: s for n, s in swings.items() if s is not None}
    if not found:
        return
    span = _span(steps[usable], windows)
    everywhere = len(columns) == 1 or len(found) > max(2, 0.7 * len(columns))  # of one alone nobody can say that it stands out
    worst = sorted(found, key=lambda n: -found[n])
    numbers = {"ratio": found[worst[0]], "layers": len(found), "of": len(columns)}
    yield Evidence(numbers, tuple(worst), span, severity=None if everywhere else Severity.WARNING)


def _swing(column: Floats, windows: int, wider: float, need: int) -> float | None:
    logs = np.log(np.maximum(column[np.isfinite(column) & (column > 0)], 1e-300))
    if len(logs) < 60:
        return None
    size = max(12, len(logs) // 12)
    spread = stats.spread_windows(logs, size, width=9)
    if len(spread) < windows + 2:
        return None
    before = spread[: len(spread) - windows + 2]
    if len(before) < 3:
        return None
    # one window of a dozen records may be calm by chance; three in a row are not
    calm = float(np.min(np.median(np.lib.stride_tricks.sliding_window_view(before, 3), axis=1)))
    last = spread[-windows:]
    if calm <= 1e-3 or np.count_nonzero(last >= wider * calm) < need or last[-1] < wider * calm:
        return None
    return float(np.median(last) / calm)


def _span(steps: Ints, windows: int) -> tuple[int, int]:
    return int(steps[-max(1, windows * max(12, len(steps) // 12)) :][0]), int(steps[-1])
