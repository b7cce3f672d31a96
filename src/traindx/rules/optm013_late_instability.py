"""The learning rate has become too high.

## What it sees

*Raised*: the learning rate was raised at once, after the run had settled, to a height it never had, and the loss has
stayed above its level of before. *Narrowed*: the loss shakes more than drawing batches explains (the excess-variance
ratio). The ratio is above 2 and at least twice its value after the run had first settled, while the learning rate has
not been lowered. A trial at a tenth of the rate that clearly gains confirms it.

## Why it matters

The valley narrows as training continues; a constant rate ends up bouncing between its walls.

## What else looks like this

- LOSS005: shaking from the start.
- OPTM005: flat and calm, at its noise floor.
- Noisier data later in the run (a new source, longer sequences).

## What to do

Start the decay now.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.finding import Blind, Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import noise_of, progress, sampling_noise, settled
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "OPTM013",
    needs={"loss/train": 100, "lr": 5},
    says={
        "raised": "the learning rate was raised {times:.0f}× at step {first}, and the loss went from {before:.4g} to {now:.4g}",
        "": "the loss swings {now:.1f} times more than random batches explain, {growth:.1f} times as much as earlier "
        "in the run, and the learning rate has not been lowered",
    },
    fix={
        "raised": "Go back to before step {first} and keep the learning rate as it was, or decay it.",
        "": "Start decaying the learning rate now.",
    },
    severity=Severity.INFO,
    explains=("LOSS001", "LOSS005", "LOSS006", "GRAD007"),
    unless=("rl", "adversarial", "curriculum"),
    at="optimizer rate",
)
def late_instability(
    run: Run,
    *,
    growth: float = 2.0,  # CATALOGUE part 10
    least: float = 2.0,
) -> Iterator[Evidence]:
    series = regime.curve(run)
    rate = regime.lr(run)
    raised = _raised(run, series)
    if raised is not None:
        yield raised
        return
    if len(run.series("loss/sample_var")) < 20 or not len(run.series("batch/size")):
        raise Blind("the loss alone does not show whether the weights swing or the samples differ", "loss/sample_var")
    if len(rate) and rate.last < 0.5 * regime.peak_lr(run):
        return
    done = progress(series)
    if done is None or len(series) < 400:
        raise Unsure("too few finite losses", needs_steps=400)
    if done.gain < 4:
        return  # it never converged: not *late*
    late = settled(series, 0.8)
    ratios = stats.evr_windows(late.values, sampling_noise(run, late), max(50, min(400, len(late) // 8)))
    if len(ratios) < 4:
        raise Unsure("too few steps since the run settled", needs_steps=400)
    calm, now = float(np.min(ratios[: len(ratios) // 2])), float(np.median(ratios[-2:]))
    if now < max(least, growth * max(calm, 0.8)) or np.count_nonzero(ratios[-3:] >= least) < 2:
        return
    told = facts.table(run, "trial.lr_tenth")
    proven = (
        bool(told)
        and bool(told.get("significant"))
        and facts.number(told.get("train")) < facts.number(told.get("train_continued"), 0.0)
    )
    span = (int(series.steps[-len(series) // 4]), int(series.steps[-1]))
    yield Evidence(
        {"now": now, "growth": now / max(calm, 1e-12), "calm": calm},
        steps=span,
        severity=Severity.WARNING if proven else None,
        confidence=Confidence.STRONG if proven else Confidence.SUGGESTIVE,
    )


def _raised(run: Run, series: Series) -> Evidence | None:
    """The rate went up at once, beyond all it had been, and the loss has stayed above its level of before."""
    rate = regime.lr(run)
    for jump in regime.lr_jumps(run):
        earlier = rate.between(hi=jump.step - 1).values
        before = series.between(hi=jump.step - 1).values
        after = series.between(lo=jump.step + regime.recovery(run)).values
        if (
            jump.ratio < 2
            or not len(earlier)
            or float(np.max(earlier)) > 0.7 * rate.last
            or len(before) < 50
            or len(after) < 20
        ):
            continue
        level, now = float(np.median(before[-25:])), float(np.median(after[-25:]))
        gained = float(np.median(before[:5])) - level
        if gained > 4 * noise_of(before) and now > level + max(6 * noise_of(before[-100:]), 0.05 * gained):
            peak = float(np.max(rate.values))
            lower = f"from {peak:.3g} to {float(np.max(earlier)):.3g}"
            numbers = {"times": jump.ratio, "before": level, "now": now, "lost": (now - level) / gained, "lower": lower}
            return Evidence(numbers, steps=(jump.step, int(series.steps[-1])), say="raised", severity=Severity.WARNING)
    return None
