"""Logits keep growing: outputs keep growing, far beyond what the loss asks for.

## What it sees

The largest logit, over at least `span` steps, rising and above `limit`; in bfloat16 above 64 already, where
neighbouring numbers are 0.25 and more apart; above `far` within any number of steps. Or a log-partition below `sunk`. A
warning in half precision and above `far`, info in float32.

## Why it matters

Softmax ignores a common shift, so nothing keeps logits small. In half precision their differences drown in rounding,
and late in long runs the loss becomes unstable.

## What else looks like this

- Healthy classifiers grow their logits late, to a log-partition of 6 to 13.
- Logits that are large from the start: `LOSS010`, `WGHT005`.

## What to do

A z-loss of 1e-4 on the squared log-partition, logits and loss in float32, weight decay on the output layer.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import outline
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median, rising


@rule(
    "ACTV007",
    needs={"logit_maxabs | logz_mean": 15},
    says={
        "": "logits reach {level:.0f} and rise; at that size {precision} cannot represent differences below {spacing:.2g}",
        "logz": "the log-partition of the logits drifted to {level:.1f}",
    },
    fix="Add a z-loss of 1e-4, compute logits and loss in float32, decay the output layer's weights.",
    explains=("NUMR004", "LOSS008"),
)
def output_logit_drift(
    run: Run,
    *,
    limit: float = 100.0,  # CATALOGUE
    far: float = 1e4,  # [def] no probability needs logits of ten thousand, in any precision
    narrow: float = 64.0,  # bfloat16 has 8 bits: 0.25 spacing from 32 on, 0.5 from 64
    sunk: float = -20.0,  # CATALOGUE
    span: int = 1000,  # CATALOGUE: a drift over a thousand steps
) -> Iterator[Evidence]:
    high, low = run.series("logit_maxabs").finite(), run.series("logz_mean").finite()
    precision = outline.low_precision(run) or "float32"
    severity = Severity.INFO if precision == "float32" else Severity.WARNING
    if len(high) >= 15:
        # of rare looks the last alone: the one before is of another time
        recent = high.between(lo=high.steps[-1] - (high.steps[-1] - high.steps[0]) / 4)
        level = finite_median(recent.values[-3:])
        bound = narrow if precision == "bfloat16" else limit
        bound = bound if high.steps[-1] - high.steps[0] >= span else far
        if level > bound and level > 2 * finite_median(high.values[:5]) and rising(high.values[len(high) // 2 :]):
            bits = {"bfloat16": 8, "float16": 11}.get(precision, 24)
            spacing = 2.0 ** (np.floor(np.log2(level)) - bits + 1)
            seen = {"level": level, "precision": precision, "spacing": float(spacing)}
            severity = Severity.WARNING if level > far else severity
            yield Evidence(steps=(int(high.steps[0]), int(high.steps[-1])), severity=severity, facts=seen)
            return
    if len(low) >= 15 and low.steps[-1] - low.steps[0] >= span:
        level = finite_median(low.values[-3:])
        if level < sunk and rising(-low.values[len(low) // 2 :]):
            steps = (int(low.steps[0]), int(low.steps[-1]))
            yield Evidence(steps=steps, say="logz", severity=severity, facts={"level": level})
