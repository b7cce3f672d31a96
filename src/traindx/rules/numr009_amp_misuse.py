"""Mixed precision is used wrongly: the calls around autocast and the gradient scaler are in the wrong order or place.

## What it sees

Exact facts of the loop:

- clipping before `unscale_`, or `optimizer.step` in addition to `scaler.step`;
- `scaler.update` missing or called twice;
- a float16 model inside autocast, or norms, softmax or the loss in half precision;
- the scheduler stepping on updates that the scaler skipped; As info: backward inside autocast, a scaler together with
  bfloat16.

## Why it matters

Clipping scaled gradients to 1 leaves almost nothing after unscaling; a step around the scaler applies gradients that
are 65,536 times too large.

## What else looks like this

- Norm layers in bfloat16 are usual in large language models: info.
- A handful of updates skipped while calibrating, with the scheduler stepping on: not reported below `share`.

## What to do

```python
with torch.autocast(device, dtype):
    loss = loss_fn(model(x), y)
scaler.scale(loss).backward()
scaler.unscale_(optimizer)
clip_grad_norm_(model.parameters(), 1.0)
scaler.step(optimizer)
scaler.update()
```

With bfloat16, no scaler.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, outline, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

FACTS = {
    "clip_before_unscale": ("clip", Severity.WARNING),
    "scaler_bypassed": ("bypass", Severity.CRITICAL),
    "scaler_no_update": ("update", Severity.WARNING),
    "backward_in_autocast": ("backward", Severity.INFO),
    "scaler_with_bf16": ("bf16", Severity.INFO),
}


@rule(
    "NUMR009",
    subject="half-precision",
    needs={"fact:amp.autocast | fact:amp.scaler | event:scaler_bypassed": 1},
    says={
        "clip": "gradients were clipped before scaler.unscale_ {often}: the limit was applied to gradients that were "
        "still scaled up",
        "bypass": "optimizer.step was called in addition to scaler.step {often}: it applied gradients that were "
        "still scaled up",
        "update": "scaler.update was missing or doubled {often}",
        "backward": "backward ran inside autocast",
        "bf16": "a gradient scaler is used with bfloat16, which does not need one",
        "half-model": "a float16 model runs inside autocast: its weights and updates are half precision",
        "half-op": "norms, softmax or the loss run in half precision: {where}",
        "scheduler": "the scheduler stepped on {share:.0%} of the updates although the scaler skipped them",
    },
    fix={
        "clip": "Call scaler.unscale_(optimizer) before clipping.",
        "bypass": "Call scaler.step(optimizer) only.",
        "update": "Call scaler.update() once per update, last.",
        "backward": "Leave the autocast block before backward.",
        "bf16": "Remove the scaler.",
        "half-model": "Keep the weights in float32 and let autocast choose.",
        "half-op": "Keep these in float32.",
        "scheduler": "Step the scheduler only if the loss scale did not fall.",
    },
    confidence=Confidence.EXACT,
    explains=("OPTM006", "OPTM001", "OPTM002", "NUMR005", "LOSS002"),
)
def amp_misuse(run: Run, *, share: float = 0.05) -> Iterator[Evidence]:
    # [def] a schedule that is a twentieth ahead of the updates begins to matter.
    for kind, (say, severity) in FACTS.items():
        events = run.events_of(kind)
        if events:
            count = int(sum(facts.number(e.data.get("count"), 1) for e in events))
            mild = kind == "scaler_bypassed" and regime.adam_like(run)  # Adam divides the scale out again
            level = Severity.WARNING if mild else severity
            yield Evidence(steps=(events[0].step, events[-1].step), say=say, severity=level, facts={"count": count})
    yield from _half(run)
    skipped = run.series("amp/skipped").finite()
    if len(skipped) >= 100 and len(run.series("loop/scheduler_steps")):
        advanced = (skipped.values > 0) & (run.series("loop/scheduler_steps").at(skipped.steps) > 0)
        ahead = float(np.mean(advanced))
        if ahead > share:
            yield Evidence(steps=run.steps, say="scheduler", facts={"share": ahead})


def _half(run: Run) -> Iterator[Evidence]:
    if run.fact("amp.half_model") and run.fact("amp.autocast"):
        yield Evidence(steps=run.steps, say="half-model")
    modules = facts.strings(run, "amp.half_modules")
    if modules:
        harmless = outline.low_precision(run) != "float16"
        level = Severity.INFO if harmless else Severity.WARNING
        yield Evidence(where=modules, steps=run.steps, say="half-op", severity=level)
