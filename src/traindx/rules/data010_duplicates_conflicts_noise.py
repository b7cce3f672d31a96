"""The same input stands in the data with different labels, or many times, or many labels are wrong.

## What it sees

Content hashes of the training samples: inputs seen with more than one label (above .5 % of the distinct inputs, at least
five), samples whose content had been seen before within the first epoch, and, where a trial estimated it out of fold on
2,000 samples, a share of wrong labels above 5 %.

## Why it matters

Two answers to one question cannot both be learned: the loss has a floor above zero that no model and no learning rate will
pass, and a model that does pass it has memorised.

## What else looks like this

- LOSS009: the model is too small; a larger one lowers the floor.
- Questions that are open by nature (several annotators, stochastic outcomes): the floor is real and right.
- Inputs with few possible values (a handful of integer features): they repeat by nature. If half the samples are repeats,
  only a remark.
- Sampling with replacement: the same *sample* comes twice with the same label, and is not a conflict.

## What to do

Look at the conflicting samples, keep the majority or drop them; remove duplicates before splitting. With labels that stay
noisy use label smoothing of .1 or a robust loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DATA010",
    needs={"fact:data.conflicts | fact:data.duplicate_share | fact:data.label_noise": 1},
    says={
        "conflicts": "{conflicts:.0f} inputs occur with more than one label ({share:.1%} of those seen)",
        "duplicates": "{share:.0%} of the samples of an epoch repeat an earlier one",
        "noise": "about {share:.0%} of the labels are wrong (estimated on {n:.0f} samples)",
    },
    fix={
        "conflicts": "Review these inputs: keep the majority label or drop them; no model can fit both answers.",
        "duplicates": "Remove duplicates before splitting; the effective data set is {rest:.0%} of its size.",
        "noise": "Clean the labels with the largest out-of-fold loss first; label smoothing .1 meanwhile.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("LOSS009", "LOSS003", "LOSS011"),
    unless=("adversarial", "rl"),  # a discriminator meets the same picture as real and as fake
    at="loader",
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
    another: float = 0.5,  # conflicts above this are a second task on the same inputs, not noise
) -> Iterator[Evidence]:
    seen = facts.number(facts.table(run, "data.seen").get("train"), 0.0)
    repeats = facts.number(run.fact("data.duplicate_share"), 0.0)
    clash = facts.number(run.fact("data.conflicts"), 0.0)
    if seen > 0 and clash >= least and clash / seen > conflicts and not _places(run):
        by_nature = repeats > discrete or clash / seen > another or run.fact("data.continuous") is False
        severity = Severity.INFO if by_nature else Severity.WARNING
        yield Evidence({"conflicts": clash, "share": min(clash / seen, 1.0)}, say="conflicts", severity=severity)
    sampler = str(facts.table(run, "data.loader").get("sampler") or "")
    if repeats > duplicates and "Weighted" not in sampler and not facts.table(run, "data.loader").get("replacement"):
        yield Evidence({"share": repeats, "rest": 1 - repeats}, say="duplicates", severity=Severity.INFO)
    estimate = facts.table(run, "data.label_noise")
    share, n = facts.number(estimate.get("share"), 0.0), facts.number(estimate.get("n"), 0.0)
    if share > noise and n >= least_noise:
        yield Evidence({"share": share, "n": n}, say="noise", confidence=Confidence.STRONG)


def _places(run: Run) -> bool:
    """Labels that are places in the batch, each once: a contrastive loss, in which a sample finds its partner anywhere."""
    table, size = run.matrix("batch/labels/class"), run.series("batch/size").finite().values
    if not len(table) or not len(size):
        return False
    counts = np.nan_to_num(table.values)
    return bool(counts.max() <= 1) and abs(len(table.names) - float(np.median(size))) <= 1
