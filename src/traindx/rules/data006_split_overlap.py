"""Validation samples were also trained on.

## What it sees

Content hashes of the samples as they were consumed, labels left out: the validation samples whose content had come up in
training. At least three of them and .1 % of the validation set.

## Why it matters

A validation figure on training data measures memory. It looks excellent, chooses the wrong checkpoint and fails on
delivery.

## What else looks like this

- EVAL006: validation better than training because of dropout or averaging; no samples are shared.
- Small discrete inputs (short texts, counts, a few integer features): equal samples turn up by chance. If the training set
  or the validation set repeats itself about as often, the finding is only a remark.
- An extra pass over the training data to report training accuracy: not a validation set, and not counted. Where a script
  evaluates without a loader and only a part of the training data comes up, in batches of their own, that is a remark.

## What to do

Remove duplicates first, then split; split by user, patient, document or time when samples come in groups. The figures so
far cannot be used to choose a model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Blind, Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.tails import most_expected


@rule(
    "DATA006",
    subject="evaluation",
    needs={"fact:data.shared | fact:data.same_set": 1},
    says={
        "": "{shared:.0f} of {val:.0f} validation samples ({share:.1%}) were also trained on",
        "chance": "{shared:.0f} of {val:.0f} validation samples ({share:.1%}) occur in training too, {how}",
        "copies": "{shared:.0f} of {val:.0f} validation samples ({share:.1%}) were also trained on: samples were copied "
        "before the split (training holds {repeats:.1%} copies, too)",
        "apart": "{apart:.0f} evaluated samples were also trained on, in separate batches: you evaluate training data, or "
        "the split overlaps",
        "same": "validation reads the training set",
    },
    fix={
        "": "Remove duplicates, then split again (by group or time where samples belong together) and validate again.",
        "chance": "No action needed, unless equal samples come from the same object: then split by object.",
        "copies": "Split first; then draw or copy samples within the training part only.",
        "apart": "Check the indices of the split; no action is needed if you evaluate training data on purpose.",
        "same": "Hold out data that training never sees. Until then your validation figure is a training figure.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("EVAL006",),
    at="val_loader|judged_loader val_data|judged_data",
)
def split_overlap(
    run: Run,
    *,
    least: int = 3,  # CATALOGUE DATA006: max(3, .1 %)
    share: float = 0.001,
    grave: float = 0.01,  # above it the validation figure is wrong, not merely touched up
    by_chance: float = 3.0,  # times the rate at which training repeats itself
    tokens: float = 0.3,  # short windows of text repeat by nature (indentation, set phrases): below this a remark
    ambiguous: float = 0.2,  # share of training inputs with several labels above which an input does not name a sample
) -> Iterator[Evidence]:
    if run.fact("data.same_set"):
        yield Evidence(say="same", severity=Severity.WARNING)
        return
    shared = facts.number(run.fact("data.shared"), 0.0)
    val = facts.number(facts.table(run, "data.seen").get("val"), 0.0)
    if "data.shared" in run.facts and val <= 0:
        raise Blind("no validation sample was hashed", "data.seen")
    if not _evaluates(run):
        raise Blind("no evaluation with a loss of its own was seen", "loss/val")
    part = shared / val if val > 0 else 0.0
    if shared < least or part < share:
        apart = facts.number(run.fact("data.shared_apart"), 0.0)
        if apart >= least:
            yield Evidence({"apart": apart}, say="apart", severity=Severity.INFO)
        return
    _looked_at_enough(run, val)
    _names_samples(run, val, ambiguous)
    repeats = facts.number(run.fact("data.duplicate_share"), 0.0)
    values = {"shared": shared, "val": val, "share": part, "repeats": repeats}
    texts = bool(facts.table(run, "data.token")) and (part < tokens or _words(run))
    by_chance *= repeats * val + math.sqrt(repeats * val)
    by_nature = shared <= by_chance or _few_inputs(run, val)  # inputs of few possible values meet
    if by_nature and not texts and _continuous(run):
        yield Evidence(values, say="copies", severity=Severity.WARNING)
    elif texts or by_nature:
        often = f"about as often as training repeats itself ({repeats:.1%})" if repeats else "as inputs of few values do"
        yield Evidence({**values, "how": often}, say="chance", severity=Severity.INFO)
    elif not _continuous(run) and shared <= _by_birthdays(run, val, sure=part >= grave):
        yield Evidence({**values, "how": "no more than chance explains"}, say="chance", severity=Severity.INFO)
    else:
        yield Evidence(values, severity=Severity.CRITICAL if part >= grave else Severity.WARNING)


def _looked_at_enough(run: Run, val: float) -> None:
    """Refuse to judge by one batch of one pass: frameworks build a model by a training batch before they train."""
    passes, batch = run.series("eval/samples").finite().values, run.series("batch/size").finite().values
    if len(passes) and len(batch) and val <= float(np.max(batch)) and (len(passes) < 2 or val < float(np.max(passes))):
        raise Unsure("only one evaluated batch was compared with training", needs_steps=len(run.series("loss/train")))


def _names_samples(run: Run, val: float, ambiguous: float) -> None:
    """Refuse to judge where what was hashed is not the sample: one of several inputs (an item's id), or other forwards."""
    seen = facts.table(run, "data.seen")
    train, conflicts = facts.number(seen.get("train"), 0.0), facts.number(run.fact("data.conflicts"), 0.0)
    if train > 0 and conflicts > ambiguous * train:
        raise Blind(
            f"{conflicts / train:.0%} of the inputs carry several labels: an input does not name a sample", "data.shared"
        )
    forwards, backwards = (run.series(f"loop/{n}").finite().values for n in ("forwards", "backwards"))
    if len(forwards) and len(backwards) and float(np.median(forwards)) >= 2 * max(1.0, float(np.median(backwards))):
        raise Blind("several forwards make one loss: pairs and views are the samples, not the inputs", "data.shared")
    sizes = run.series("eval/samples").finite().values
    if len(sizes) and val > 1.5 * float(np.max(sizes)) and len(np.unique(sizes)) == 1 and not _loaded(run):
        raise Blind("other forwards without gradients were counted among the validation samples", "data.shared")


def _by_birthdays(run: Run, val: float, *, sure: bool) -> float:
    """How many samples both sets may share by chance, judged by how often samples are equal within one set.

    `sure`: what those equal samples make likely; else the most that they allow.
    """
    seen, sizes = facts.number(facts.table(run, "data.seen").get("train"), 0.0), run.series("eval/samples").finite().values
    alike = pairs = 0.0
    if len(sizes) and len(np.unique(sizes)) == 1 and float(sizes[0]) >= val:
        alike, pairs = float(sizes[0]) - val, val * val / 2
    if "data.duplicate_share" in run.facts:
        alike += facts.number(run.fact("data.duplicate_share"), 0.0) * seen
        pairs += seen * seen / 2
    if pairs <= 0:
        return 0.0
    rate = (alike if alike >= 3 else 0.0) if sure else most_expected(alike)
    expected = rate / pairs * seen * val
    return expected + 2 * math.sqrt(expected)


def _few_inputs(run: Run, val: float, times: float = 3.0) -> bool:
    """Whether validation itself holds every input several times: then there are few possible ones, and all are met."""
    sizes = run.series("eval/samples").finite().values
    return len(sizes) > 0 and float(np.median(sizes)) >= times * val


def _words(run: Run, most: float = 16.0) -> bool:
    """Whether inputs are so short (names, words) that the same one is drawn again."""
    length = run.series("batch/length").finite().values
    return len(length) > 0 and float(np.median(length)) <= most


def _continuous(run: Run, least: int = 4) -> bool:
    """Whether inputs are several measured numbers: those do not repeat to the bit unless they are copied."""
    if isinstance(known := run.fact("data.continuous"), bool):
        return known and not facts.table(run, "data.token")
    told = facts.table(run, "data.input_stats")
    ends = [facts.number(told.get(k)) for k in ("min", "max")]
    features = len(facts.table(run, "data.channel_stats").get("mean") or ())
    broken = all(math.isfinite(v) and abs(v * 64 - round(v * 64)) > 1e-6 for v in ends)  # not a count, not a grey level
    return broken and features >= least and not facts.table(run, "data.token")


def _loaded(run: Run) -> bool:
    """Whether validation draws from a loader, so that one evaluation need not see the whole set."""
    return bool(facts.table(run, "data.val_loader"))


def _evaluates(run: Run) -> bool:
    """Whether validation is a pass of its own: passes between all updates are teachers, targets or a policy that acts."""
    val, train = len(run.series("loss/val")), len(run.series("loss/train"))
    return train == 0 or 0 < val <= 0.3 * train
