"""One input feature alone gives the label away.

## What it sees

For flat inputs, how well every single feature alone gives the target: AUC for two classes, gain over the prior for
more, R² for numbers. Above .99 in one feature, while no other comes near it (at most .9) and there are at least four:
no ordinary feature does that.

## Why it matters

A feature may be computed from the answer: a status set later, an id assigned by class, the label itself. Training and
validation look perfect, and the feature is missing or unknown when the model is used.

## What else looks like this

- A target that was made from one feature (a toy, a threshold): no other feature says anything about it. Only a remark.
- Easy tasks: several features separate the classes, or there are only two or three of them. Only a remark then.
- DATA006: whole samples are shared between training and validation.
- A legitimate strong predictor: the rule cannot know. Ask whether the value is known at the moment of prediction.

## What to do

Find out when and how that feature is filled in. Drop it if it is not known at prediction time, and split by time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DATA007",
    needs={"fact:data.feature_auc": 1},
    says={
        "": "{where} alone predicts the target almost perfectly ({auc:.3f} of 1; the next best feature "
        "{next_best:.2f}): it may leak the answer",
        "rule": "{where} alone predicts the target ({auc:.3f}), and no other feature helps ({next_best:.2f}): the task "
        "is a rule on one feature, or this feature leaks the answer",
        "easy": "{where} alone predicts the target ({auc:.3f}), and other features almost do: the task is easy, or "
        "several features leak",
    },
    fix="Check whether you know {where} at the time of prediction. If not, drop it and split by time.",
    severity=Severity.WARNING,
    confidence=Confidence.STRONG,
    explains=("EVAL006",),
    at="loader given",
)
def target_leak(
    run: Run,
    *,
    auc: float = 0.99,  # CATALOGUE DATA007
    apart: float = 0.9,  # the next best feature of an honest data set may be at most this good
    least_features: int = 4,
    many: float = 0.1,
) -> Iterator[Evidence]:
    scores = facts.counts(run.fact("data.feature_auc"))
    ranked = sorted(scores.items(), key=lambda kv: (-kv[1], kv[0]))
    leaks = [(name, s) for name, s in ranked if s > auc - _borders(run)]
    if not leaks or len(leaks) > max(2, many * len(ranked)):  # that many make an easy task, not a leak
        return
    next_best = ranked[1][1] if len(ranked) > 1 else 0.0
    where = tuple(f"feature {name}" for name, _ in leaks)
    values = {"auc": leaks[0][1], "next_best": next_best}
    if len(leaks) == 1 and next_best <= apart and len(ranked) >= least_features:
        if next_best <= _nothing(run):
            yield Evidence(values, where, say="rule", severity=Severity.INFO)
        else:
            yield Evidence(values, where)
    else:
        yield Evidence(values, where, say="easy", confidence=Confidence.SUGGESTIVE)


def _nothing(run: Run) -> float:
    """What the best of a few features without any bearing on the target reaches by chance."""
    probe, classes = facts.table(run, "data.label_probe"), facts.counts(run.fact("data.class_counts"))
    n = facts.number(probe.get("n"), 0.0)
    if n <= 0:
        return 0.0
    if probe.get("kind") == "regression" and len(classes) != 2:
        return 10.0 / n
    shares = np.array([*classes.values()]) / max(sum(classes.values()), 1.0) if len(classes) == 2 else np.array([0.5, 0.5])
    return 0.5 + 3.0 / math.sqrt(12 * n * float(max(shares.prod(), 1e-3))) if len(classes) <= 2 else 0.05


def _borders(run: Run, most: float = 0.05) -> float:
    """Of more than two classes neighbours vote, and they err at the borders: by two samples on either side of each."""
    probe, classes = facts.table(run, "data.label_probe"), len(facts.counts(run.fact("data.class_counts")))
    n = facts.number(probe.get("n"), 0.0)
    return min(most, 4 * (classes - 1) / n) if probe.get("kind") == "class" and classes > 2 and n else 0.0
