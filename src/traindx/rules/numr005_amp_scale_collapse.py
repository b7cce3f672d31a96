"""The loss scale collapses: the gradient scaler keeps halving and skips the updates.

## What it sees

`amp/skipped` and `amp/scale`. A scale below one; or at least `skips` skipped updates in 20 after the first calibration;
or more than `share` of all updates skipped after the first 50. If the scale stays where it is, skips and doublings
balance: a scaler with a short growth interval works that way, and nothing is reported. Where every update was skipped,
nothing was trained, wherever the scale stands.

## Why it matters

A skipped update is none. A run that skips all of them shows a flat loss and looks as if the learning rate were too
low.

## What else looks like this

- Five to fifteen skips right at the start: calibration from 65,536 down.
- A single skip after a doubling: normal.
- A scale of one or less that still overflows: the forward itself is not finite (`NUMR001`); scaling is not the
  problem.

## What to do

Find what overflows (`NUMR001`, `NUMR004`), or use bfloat16, which needs no scaler.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "NUMR005",
    subject="half-precision",
    needs={"amp/skipped | amp/scale": 20},
    says={
        "": "the gradient scaler skipped {skipped} of {total} updates",
        "never": "the gradient scaler skipped all {total} updates (loss scale {scale:.2g}): nothing was trained",
        "scale": "the loss scale fell to {scale:.2g}; {skipped} of {total} updates were skipped",
    },
    fix={
        "": "Find what overflows in half precision, or use bfloat16, which needs no scaler.",
        "never": "Start the scaler lower (init_scale) or let it back off faster; find what overflows, or use bfloat16.",
    },
    explains=("OPTM001", "LOSS002", "LOSS009", "NUMR008", "OPTM003"),
)
def amp_scale_collapse(
    run: Run,
    *,
    skips: int = 8,  # CATALOGUE: eight of twenty
    share: float = 0.05,  # CATALOGUE: 5 % of at least 1,000 updates after the first 50
    calibration: int = 15,  # CATALOGUE: 5-15 skips at the start are calibration
) -> Iterator[Evidence]:
    skipped, scale = run.series("amp/skipped").finite(), run.series("amp/scale").finite()
    hit = skipped.values > 0
    low = len(scale) > 0 and 0 < scale.last < 1
    storm = _storm(hit, skips, calibration) and not _balanced(scale)
    often = len(hit) >= 1050 and float(np.mean(hit[50:])) > share and not _balanced(scale)
    never = len(hit) > calibration and bool(hit.all())
    if not (low or storm or often or never):
        return
    dying = len(hit) >= 20 and float(np.mean(hit[-20:])) > 0.9
    steps = skipped.steps[hit] if np.any(hit) else scale.steps
    yield Evidence(
        steps=(int(steps[0]), int(steps[-1])),
        say="never" if never else "scale" if low else "",
        severity=Severity.CRITICAL if dying or low or never else Severity.WARNING,
        facts={"skipped": int(np.count_nonzero(hit)), "total": len(hit), "scale": scale.last},
    )


def _storm(hit: np.ndarray, skips: int, calibration: int) -> bool:
    """Whether 20 updates in a row hold `skips` skipped ones, the first streak of the run aside."""
    rest = np.flatnonzero(~hit)
    head = min(int(rest[0]) if len(rest) else len(hit), calibration)
    window = np.convolve(hit[head:].astype(float), np.ones(20), mode="valid") if len(hit) - head >= 20 else np.empty(0)
    return bool(np.any(window >= skips))


def _balanced(scale: Series) -> bool:
    """Whether the scale of the last half stands where it stood before, within two doublings."""
    values = scale.values[scale.values > 0]
    if len(values) < 40:
        return False
    early, late = np.median(values[len(values) // 4 : len(values) // 2]), np.median(values[-len(values) // 4 :])
    return bool(abs(np.log2(late / early)) <= 2)
