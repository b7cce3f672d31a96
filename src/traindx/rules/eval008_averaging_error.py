"""The validation loss is averaged wrongly: the reported validation loss is not the mean over the samples.

## What it sees

The validation loss as the script reported it, against the mean over all samples of the same evaluation. It fires when
the two differ by more than 0.5 % and by more than two standard errors, and names the formula that matches. Known ones:
a mean of batch means with a small last batch; batch means divided by the number of samples or by nothing. Also a
running mean that was never reset. Another is a sum over the tokens that count, divided by all of them. Printed
perplexities are read as the exponential of the mean.

## Why it matters

A last batch of three samples counts as much as a full one; with ranks or padding the error grows. Comparisons between runs
with other batch sizes are then comparisons of arithmetic.

## What else looks like this

- EVAL003: a metric, not the loss, is computed differently.
- Regularisation terms or class weights added to the reported loss only: the ratio is constant, and the formula is yours to
  know. A factor that is the same at three or more evaluations and fits none of the known formulas is a remark: it changes no
  comparison. Trainers that count the first label of each sequence, which nothing predicts, are off by one.

## What to do

Sum loss × samples, divide by the number of samples (tokens that count, for sequences), and reset the sums for every
evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "EVAL008",
    subject="evaluation",
    needs={"fact:eval.metric_recomputed": 1},
    says={
        "": "the validation loss was reported as {reported:.5g}; the mean over all samples is {recomputed:.5g} "
        "({gap:+.1%}){formula}",
    },
    fix="Sum loss × samples over the evaluation and divide by the number of samples; reset the sums each time.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    at="mean average",
)
def averaging_error(
    run: Run,
    *,
    relative: float = 0.005,  # CATALOGUE EVAL008
    deviations: float = 2.0,
) -> Iterator[Evidence]:
    reported, recomputed = facts.pair(facts.table(run, "eval.metric_recomputed").get("loss"))
    if not (math.isfinite(reported) and math.isfinite(recomputed)) or recomputed == 0:
        return
    gap = (reported - recomputed) / abs(recomputed)
    se = run.series("eval/loss_se").finite().values
    error = float(np.median(se[-3:])) if len(se) else 0.0
    if abs(gap) <= relative:
        return
    # Below the error of the measurement the arithmetic is wrong and harmless, and so is a factor that nothing explains.
    formula = _formula(run, reported)
    harmless = abs(reported - recomputed) <= deviations * error or (not formula and _same_factor(run, reported))
    severity = Severity.INFO if harmless else Severity.WARNING
    values = {"reported": reported, "recomputed": recomputed, "gap": gap, "formula": formula}
    yield Evidence(values, ("loss/val",), None, "", severity)


def _same_factor(run: Run, reported: float, most: float = 0.005) -> bool:
    """Whether what was logged is the loss of each evaluation times one number."""
    loss = run.series("loss/val").finite().values
    for told in run.matching("metric/val/*").values():
        values = told.finite().values if isinstance(told, Series) else loss[:0]
        if len(values) == len(loss) >= 3 and math.isclose(values[-1], reported, rel_tol=1e-4):
            factors = values / loss
            return float(np.ptp(factors)) < most * abs(float(factors.mean()))
    return False


WORDS = {
    "so far": "a mean over all evaluations so far",
    "of means": "the batch means are summed and divided by the number of samples",
    "undivided": "the batch means are summed and not divided",
    "of sums": "the sum over the samples is divided by the number of batches",
    "padded": "positions that the loss ignores (padding) are counted in the divisor",
}


def _formula(run: Run, reported: float) -> str:
    """The arithmetic that gives the reported value, where one does."""
    how, _, form = str(facts.table(run, "eval.metric_formula").get("loss", "")).partition(", ")
    if how in WORDS:
        return f": {WORDS[how]}" + (f"; its exponential ({math.exp(reported):.4g}) was printed" if form else "")
    val = run.series("loss/val").finite().values
    plain = run.series("eval/unweighted_loss").finite().last
    told = [e.data for e in run.events_of("evaluation") if not e.data.get("on_train")]
    batches, samples = (facts.number(told[-1].get(k)) if told else math.nan for k in ("batches", "samples"))
    rivals = {
        "a mean of batch means": plain,
        WORDS["so far"]: float(np.mean(val)) if len(val) > 1 else math.nan,
        WORDS["of means"]: plain * batches / samples,
        WORDS["undivided"]: plain * batches,
        WORDS["of sums"]: val[-1] * samples / batches if len(val) else math.nan,
    }
    for words, value in rivals.items():
        if math.isfinite(value) and abs(value - reported) <= 1e-3 * abs(reported):
            return f": {words}"
    return ""
