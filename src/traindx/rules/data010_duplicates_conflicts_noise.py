"""Conflicting or repeated samples: one input has several labels or occurs often, or many labels are wrong.

## What it sees

Content hashes of the training samples show inputs with more than one label (above 0.5 % of the distinct inputs, at
least five). They also show samples whose content had been seen before within the first epoch. Where a trial estimated
wrong labels out of fold on 2,000 samples, a share above 5 % counts too. Without a trial it uses two simple probes
(neighbours and a line, out of fold). Labels must contradict them in more than 15 % of the samples where they are
surest, and hardly more often in the next ones. Meanwhile the network memorises its labels and validation gets worse.

## Why it matters

Two answers to one question cannot both be learned. The loss has a floor above zero that no model and no learning rate
can pass; a model that does has memorised.

## What else looks like this

- LOSS009: the model is too small; a larger one lowers the floor.
- Questions that are open by nature (several annotators, stochastic outcomes): the floor is real and right.
- Inputs with few possible values (a handful of integer features): they repeat by nature. If half the samples are repeats,
  only a remark.
- Names and other short texts: a few of them belong to several classes. Below a tenth of the inputs only a remark.
- Sampling with replacement: the same *sample* comes twice with the same label, and is not a conflict.

## What to do

Look at the conflicting samples, keep the majority or drop them; remove duplicates before splitting. With labels that stay
noisy use label smoothing of .1 or a robust loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DATA010",
    needs={"fact:data.conflicts | fact:data.duplicate_share | fact:data.label_noise | fact:data.label_probe": 1},
    says={
        "conflicts": "{conflicts:.0f} inputs occur with more than one label ({share:.1%} of the inputs seen)",
        "duplicates": "{share:.0%} of the samples of an epoch repeat an earlier one",
        "noise": "about {share:.0%} of the labels are wrong (estimated on {n:.0f} samples)",
        "doubt": "about {share:.0%} of the labels contradict clear inputs (judged on {n:.0f} samples without your model), "
        "and the model memorises them",
    },
    fix={
        "conflicts": "Keep the majority label of these inputs, or drop them; no model can fit both answers.",
        "duplicates": "Remove duplicates before splitting; the data set effectively has {rest:.0%} of its size.",
        "doubt": "Check the labels of samples that are learned last. Or stop early and use label smoothing of 0.1.",
        "noise": "Clean the labels with the largest out-of-fold loss first; use label smoothing of 0.1 until then.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("LOSS009", "LOSS003", "LOSS011"),
    unless=("adversarial", "rl"),  # a discriminator meets the same picture as real and as fake
    at="loader target",
)
def duplicates_conflicts_noise(
    run: Run,
    *,
    conflicts: float = 0.005,  # CATALOGUE DATA010
    least: int = 5,
    noise: float = 0.05,
    least_noise: int = 2000,
    duplicates: float = 0.1,
    discrete: float = 0.5,  # repeats above this mean that inputs have few possible values
    often: float = 0.1,  # names and words of several meanings are rarer than that
    another: float = 0.5,  # conflicts above this are a second task on the same inputs, not noise
) -> Iterator[Evidence]:
    seen = facts.number(facts.table(run, "data.seen").get("train"), 0.0)
    repeats = facts.number(run.fact("data.duplicate_share"), 0.0)
    clash = facts.number(run.fact("data.conflicts"), 0.0)
    if seen > 0 and clash >= least and clash / seen > conflicts and not _places(run):
        few = run.fact("data.continuous") is False or (_short(run) and clash / seen < often)
        by_nature = repeats > discrete or clash / seen > another or few
        severity = Severity.INFO if by_nature else Severity.WARNING
        yield Evidence({"conflicts": clash, "share": min(clash / seen, 1.0)}, say="conflicts", severity=severity)
    sampler = str(facts.table(run, "data.loader").get("sampler") or "")
    if repeats > duplicates and "Weighted" not in sampler and not facts.table(run, "data.loader").get("replacement"):
        yield Evidence({"share": repeats, "rest": 1 - repeats}, say="duplicates", severity=Severity.INFO)
    estimate = facts.table(run, "data.label_noise")
    share, n = facts.number(estimate.get("share"), 0.0), facts.number(estimate.get("n"), 0.0)
    if share > noise and n >= least_noise:
        yield Evidence({"share": share, "n": n}, say="noise", confidence=Confidence.STRONG)
    else:
        yield from _doubt(run)


def _short(run: Run, most: float = 16.0) -> bool:
    """Whether inputs are texts so short (names, words) that the same one may mean several things."""
    length = run.series("batch/length").finite().values
    return len(length) > 0 and float(np.median(length)) <= most


def _doubt(run: Run, least: float = 0.15, level: float = 0.1, gain: float = 0.15) -> Iterator[Evidence]:
    """Labels that are contradicted as often where inputs are clear as elsewhere, in a run that learns them by heart.

    The quarter of the samples where probes are surest must be contradicted in 15 % of the cases beyond doubt, and the next
    quarter hardly more often: classes that merely overlap are contradicted where they meet.
    """
    probe = facts.table(run, "data.label_probe")
    sure, following, n, score, null = (
        facts.number(probe.get(k)) for k in ("sure_errors", "next_errors", "n", "score", "null_mean")
    )
    train, val = regime.curve(run).finite().values, run.series("loss/val").finite().values
    if not (n >= 300 and following - sure < level and score - null > gain) or len(val) < 5 or len(train) < 50:
        return
    error = 2.6 * math.sqrt(max(sure * (1 - sure), 0.01) / (n / 4))
    late, now = float(np.median(val[-max(3, len(val) // 5) :])), float(np.median(train[-max(5, len(train) // 10) :]))
    by_heart = late > 1.1 * float(np.min(val)) > 0 and now < 0.6 * late
    if sure - error > least and by_heart:
        yield Evidence({"share": sure, "n": n}, say="doubt", severity=Severity.WARNING, confidence=Confidence.STRONG)


def _places(run: Run) -> bool:
    """Labels that are places in the batch, each once: a contrastive loss, in which a sample finds its partner anywhere."""
    table, size = run.matrix("batch/labels/class"), run.series("batch/size").finite().values
    if not len(table) or not len(size):
        return False
    counts = np.nan_to_num(table.values)
    return bool(counts.max() <= 1) and abs(len(table.names) - float(np.median(size))) <= 1
