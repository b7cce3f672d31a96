"""Rare classes: the model hardly ever sees some of the classes.

## What it sees

The class counts of the training targets. The largest is more than 20 times the smallest, and a batch holds fewer than
one sample of the smallest or the run is judged by accuracy. It is a warning once the evaluation shows the harm (a rare
class with recall below .05, or accuracy no better than the largest class), a remark otherwise.

## Why it matters

With 1 % of one class, always answering the other scores 99 %. The gradient says the same: most batches do not mention the
rare class.

## What else looks like this

- EVAL004 with balanced classes: the model fails on a class for another reason.
- Vocabularies of language models and the background of detectors are unbalanced by nature: not judged.
- Class weights in the loss, or a balancing sampler: the imbalance is known and treated; then a remark at most.

## What to do

Weights ∝ 1/√n per class, a weighted sampler, or focal loss with γ = 2; watch balanced accuracy, F1 or average precision
instead of accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Muted, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DATA011",
    needs={"fact:data.class_counts | batch/labels/class | eval/support/class": 1},
    says={
        "": "class {largest} has {ratio:.0f} times as many samples as class {smallest}; a batch holds "
        "{per_batch:.2g} of class {smallest} on average",
        "harm": "class {smallest} is {ratio:.0f} times rarer than class {largest}, and the evaluation shows it: {harm}",
    },
    fix="Weight the classes (about {weight:.1f} for class {smallest}), or sample them evenly; watch balanced accuracy "
    "or F1, not accuracy.",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("EVAL004", "EVAL010", "ACTV005"),
    at="loss criterion",
)
def class_imbalance_feed(
    run: Run,
    *,
    ratio: float = 20.0,  # CATALOGUE DATA011
    most_classes: int = 50,  # beyond it rare classes are normal
    least_labels: int = 500,
    recall: float = 0.05,  # EVAL004
) -> Iterator[Evidence]:
    counts = {c: n for c, n in _counts(run).items() if n > 0}
    total = sum(counts.values())
    if facts.takes_tokens(run) and (len(counts) > 20 or facts.number(run.fact("loss.next_target_share"), 0.0) >= 0.9):
        raise Muted("targets are tokens of a vocabulary")
    if len(counts) > most_classes:
        raise Muted(f"{len(counts)} classes: rare ones are normal")
    if total < least_labels:
        raise Unsure(f"{total:.0f} labels were seen and {least_labels} are needed")
    if facts.labels_in_clumps(run):
        raise Unsure("batches hold one class after the other, and only some of them were looked at")
    if len(counts) < 2:
        return
    smallest, largest = min(counts, key=lambda c: counts[c]), max(counts, key=lambda c: counts[c])
    factor = counts[largest] / counts[smallest]
    if factor <= ratio:
        return
    per_batch = counts[smallest] / total * _batch(run)
    values = {
        "smallest": smallest,
        "largest": largest,
        "ratio": factor,
        "per_batch": per_batch,
        "weight": math.sqrt(factor),
    }
    harm = _harm(run, counts, recall)
    treated = bool(run.fact("loss.weighted")) or "Weighted" in str(facts.table(run, "data.loader").get("sampler") or "")
    where = (f"class {smallest}",)
    if harm:
        yield Evidence({**values, "harm": harm}, where, None, "harm", Severity.INFO if treated else Severity.WARNING)
    elif (per_batch < 1 or len(facts.accuracy(run))) and not treated:
        yield Evidence(values, where, severity=Severity.INFO)


def _counts(run: Run) -> dict[str, float]:
    """Labels per class: of all samples, else of the batches that were recorded, else of the last evaluation."""
    told = facts.counts(run.fact("data.class_counts"))
    if told:
        return told
    for name, last in (("batch/labels/class", False), ("eval/support/class", True)):
        table = run.matrix(name)
        if len(table):
            rows = np.nan_to_num(table.values[-1:] if last else table.values, posinf=0.0, neginf=0.0)
            return dict(zip(table.names, rows.sum(axis=0).tolist(), strict=True))
    return {}


def _batch(run: Run) -> float:
    size = run.series("batch/size").finite().values
    if len(size):
        return float(np.median(size))
    return facts.number(facts.table(run, "data.loader").get("batch_size"), 32.0)


def _harm(run: Run, counts: dict[str, float], recall: float, least: int = 30, few: int = 10, steps: int = 100) -> str:
    """What the last evaluations show: a rare class that is never found, or an accuracy that the largest class alone scores.

    Without an evaluation the answers of the first `steps` tell nothing: every run begins with the commonest class.
    """
    table, support = run.matrix("eval/recall/class"), run.matrix("eval/support/class")
    rare = sorted((c for c in table.place if counts.get(c, 0.0) * 20 < max(counts.values())), key=lambda c: counts.get(c, 0.0))
    for c in rare:
        found = table.column(c).finite().values[-3:]
        n = support.column(c).last if c in support.place else math.nan
        # None of ten is told as none of thirty is: recall is then below .26 at 95 %, and three evaluations agree.
        never = len(found) >= 3 and float(np.max(found)) == 0 and n >= few
        if len(found) >= 2 and float(np.max(found)) < recall and (never or not n < least):
            return f"recall of class {c} is {float(np.median(found)):.0%}" + (f" ({n:.0f} samples)" if n < least else "")
    name, share, n = facts.majority(run)
    seen = facts.accuracy(run).values[-3:]
    if (
        len(seen) >= 2
        and n >= least
        and math.isfinite(share)
        and float(np.max(seen)) <= share + 2 * math.sqrt(share * (1 - share) / max(n, 1.0))
    ):
        return f"accuracy {float(np.median(seen)):.0%} is what always answering class {name} scores"
    top = run.series("output_top_share").finite().values[-10:]
    first, last = run.steps or (0, 0)
    if (
        last - first >= steps and len(top) == 10 and float(np.min(top)) > 0.995
    ):  # no evaluation was seen: what training answers tells as much
        return "every sample of the last recorded batches gets the same answer"
    return ""
