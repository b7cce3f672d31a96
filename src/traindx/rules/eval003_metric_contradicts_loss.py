"""A reported metric is not what the predictions say.

## What it sees

Metrics recomputed from the predictions of the same evaluation, against what the script reported: a difference beyond
.001 and two standard errors. And a bound that needs no predictions: a sample answered wrongly costs a cross-entropy of
at least ln 2, so accuracy cannot be below 1 − loss/ln 2. An accuracy below that bound contradicts the loss. It also
reads the accuracy that the script prints with its evaluations (a number after a word with "acc" that is not of
training). One that never changes and is more than 0.05 away from all that the predictions give is wrong. So is one that
is never within 0.1 of them, nor of the accuracy in training, as when predictions of a shuffled loader are compared with
labels in file order.

## Why it matters

A metric computed along the wrong axis, with a threshold of .5 on logits, with padding counted or labels off by one condemns
a good model or praises a bad one.

## What else looks like this

- EVAL004: the metric is right and the model ignores a class.
- EVAL005: loss and accuracy disagree because of confidence, inside what is possible.
- WIRE006: probabilities go into a loss that wants logits, and the metric rightly takes .5 for their middle.
- Another averaging (macro, micro, per batch): the message says which one would match where it is known.

## What to do

Recompute the metric on one pass with an independent routine and compare sample by sample. Training is fine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "EVAL003",
    subject="evaluation",
    needs={"fact:eval.metric_recomputed | eval/claimed_accuracy | loss/val": 3},
    says={
        "": "{where} was reported as {reported:.4g}; the predictions give {recomputed:.4g}",
        "half": "{where} was reported as {reported:.4g}; the predictions give {recomputed:.4g}: logits are compared with "
        "0.5, which is a probability of 62 %",
        "padded": "{where} was reported as {reported:.4g}; the predictions give {recomputed:.4g}: padding, which the loss "
        "ignores, is counted as right",
        "so far": "{where} was reported as {reported:.4g}; the predictions give {recomputed:.4g}: answers of earlier "
        "evaluations are still counted",
        "of means": "{where} was reported as {reported:.4g}; the predictions give {recomputed:.4g}: a mean over batches of "
        "different sizes",
        "constant": "the printed accuracy is {reported:.4g} in all of {count} evaluations; the predictions give "
        "{low:.4g} to {high:.4g}",
        "printed": "the printed accuracy ({reported:.3g} at last) is far from what the predictions of the same evaluations "
        "give ({recomputed:.3g}), {count} times out of {count}",
        "bound": "{where} is {accuracy:.1%}, but with a loss of {loss:.3g} at least {least:.1%} of the answers must be right",
    },
    fix={
        "half": "Compare with 0, or apply the sigmoid first.",
        "padded": "Leave ignored positions out of both counts: hits[mask].sum() / mask.sum().",
        "so far": "Reset the counts before every evaluation.",
        "of means": "Sum the right answers over all batches, and divide by the number of samples.",
        "": "Recompute the metric from the predictions of one pass. Check the axis of argmax, the threshold on "
        "logits, label offsets, ignored positions and averaging.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    at={"": "compared answers", "constant": "metric figure", "printed": "metric figure"},
)
def metric_contradicts_loss(
    run: Run,
    *,
    least: float = 1e-3,  # CATALOGUE EVAL003
    deviations: float = 2.0,
    grave: float = 0.05,
    slack: float = 0.03,  # rounding and averaging over batches
) -> Iterator[Evidence]:
    recomputed_too = {k: v for k, v in facts.table(run, "eval.metric_recomputed").items() if k != "loss"}  # that is EVAL008's
    bounded = _bounded(run)
    constant = list(_constant(run, grave)) or list(_printed(run))
    yield from constant
    if not recomputed_too and not bounded and not constant:
        raise Blind("no reported metric was seen together with its predictions", "eval.metric_recomputed")
    n = run.series("eval/samples").finite().values
    size = float(np.median(n)) if len(n) else math.nan
    for name, both in recomputed_too.items():
        reported, recomputed = facts.pair(both)
        gap = abs(reported - recomputed)
        how = str(facts.table(run, "eval.metric_formula").get(name, ""))
        if not math.isfinite(gap) or (name == "accuracy" and _loss_may_be_wrong(run)):
            continue
        share = min(max(recomputed, 0.0), 1.0)
        error = math.sqrt(share * (1 - share) / size) if size > 0 and 0 <= recomputed <= 1 else 0.0
        # The same predictions must give the same figure; only what averages over other samples may differ by chance.
        if gap > max(least, 0.0 if how else deviations * error):
            severity = Severity.CRITICAL if gap > grave * max(1.0, abs(recomputed)) else Severity.WARNING
            if how == "of means" and gap <= deviations * error:
                severity = Severity.INFO  # a last batch that is a little smaller: wrong and harmless
            yield Evidence({"reported": reported, "recomputed": recomputed, "gap": gap}, (str(name),), None, how, severity)
    if bounded:
        yield from _bound(run, bounded, slack)


def _loss_may_be_wrong(run: Run) -> bool:
    """Whether the script may read the outputs better than its loss does: along another axis (WIRE007), or as probabilities, of
    which .5 is the middle, where the loss wants logits, of which it is 0, or before a wrong step towards it (WIRE006)."""
    kind = run.fact("loss.kind")
    misread = {"bce_logits": run.fact("loss.unit_interval"), "nll": run.fact("loss.log_probabilities") is False}
    return bool(facts.either_axis(run) or run.fact("loss.wrong_class_axis") or misread.get(str(kind)))


def _constant(run: Run, apart: float, least: int = 4) -> Iterator[Evidence]:
    """A printed accuracy that never moves and is far from what the predictions give: whole-number division, a cached figure."""
    claimed, own = run.series("eval/claimed_accuracy").finite(), run.series("accuracy/val").finite()
    at = np.intersect1d(claimed.steps, own.steps)
    if len(at) < least:
        return
    said, real = claimed.at(at), own.at(at)
    if np.ptp(said) == 0 and np.ptp(real) > 0 and float(np.min(np.abs(real - said))) > apart:
        low, high = float(np.min(real)), float(np.max(real))
        numbers = {"reported": float(said[0]), "count": len(at), "low": low, "high": high}
        yield Evidence(numbers, ("accuracy",), (int(at[0]), int(at[-1])), "constant", Severity.CRITICAL, Confidence.STRONG)


def _printed(run: Run, apart: float = 0.1, least: int = 4) -> Iterator[Evidence]:
    """A printed accuracy that is never near what the predictions give, nor near the accuracy in training."""
    claimed, own = run.series("eval/claimed_accuracy").finite(), run.series("accuracy/val").finite()
    at = np.intersect1d(claimed.steps, own.steps)
    if len(at) < least or len(at) < len(run.events_of("evaluation")) or _loss_may_be_wrong(run):
        return  # the second: several sets are evaluated, and it may be another's
    said, real = claimed.at(at), own.at(at)
    ours = run.series("accuracy/train").finite()
    trained = ours.at(at) if len(ours) else np.full(len(at), np.nan)
    near = np.abs(said - real) <= apart
    near |= np.abs(said - np.where(np.isfinite(trained), trained, math.inf)) <= apart
    if not near.any():
        numbers = {"reported": float(said[-1]), "recomputed": float(real[-1]), "count": len(at)}
        yield Evidence(numbers, ("accuracy",), (int(at[0]), int(at[-1])), "printed", Severity.WARNING, Confidence.STRONG)


def _bounded(run: Run) -> str:
    """The logged accuracy that the loss bounds from below: plain mean cross-entropy of one label per sample."""
    plain = run.fact("loss.kind") == "ce" and run.fact("loss.reduction", "mean") == "mean" and not run.fact("loss.weighted")
    logged = [n for n in run.matching("metric/val/*") if n.rsplit("/", 1)[-1].lower() in facts.ACCURACY_NAMES]
    # Where we counted the right answers ourselves the recomputed figure has spoken.
    return logged[0] if plain and logged and not facts.takes_tokens(run) and not len(run.series("accuracy/val")) else ""


def _bound(run: Run, name: str, slack: float) -> Iterator[Evidence]:
    loss, accuracy = run.series("loss/val").finite(), facts.accuracy(run)
    at = np.intersect1d(loss.steps, accuracy.steps)[-3:]
    if len(at) < 3:
        return
    values, shares = loss.at(at), accuracy.at(at)
    bound = 1 - values / math.log(2)
    if np.all(shares < bound - slack):
        numbers = {"accuracy": float(shares[-1]), "loss": float(values[-1]), "least": float(bound[-1])}
        yield Evidence(numbers, (name,), (int(at[0]), int(at[-1])), "bound", Severity.WARNING, Confidence.STRONG)
