"""The data pipeline repeats itself: it serves the same batch again and again, only part of the data, or constant inputs.

## What it sees

It looks for:

- at least three batches in a row with the same content, although the loader has more than one to give and was asked
  again;
- the same inputs with changing labels, twenty times in a row, or inputs without any variation;
- fewer than 90 % distinct samples in an epoch drawn without replacement, or fewer than 5 % in one drawn with it;
- a batch of one sample in front of a BatchNorm layer;
- an exhausted iterator that was asked again, twice or more.

## Why it matters

The cause is `next(iter(loader))` inside the loop, an iterator created again, or a cache with one entry. The network
memorises a handful of samples, the loss falls absurdly fast, and validation never moves.

## What else looks like this

- Overfitting one batch on purpose: the batch is fetched once and kept. Only a remark, unless the run is also evaluated on
  other data.
- Full-batch training: one batch is the whole data set. Quiet.
- Sampling with replacement leaves 37 % of the samples out of an epoch. Quiet.
- DATA010: different samples with equal content.
- A policy sees the same state as often as it goes there; an update made of many forwards shows its batch only in
  pieces. Quiet.

## What to do

Make the iterator once per epoch (`for batch in loader`), check caches and index arithmetic, set `drop_last=True` where
BatchNorm could get a last batch of one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run, Series


@rule(
    "DATA012",
    needs={"batch/repeat | batch/fingerprint | batch/input_std | fact:data.unique_share": 3},
    says={
        "repeat": "the same batch was served {often} in a row (steps {first} to {last}) although the loader has "
        "{length} batches",
        "refilled": "the same inputs were served {often} in a row (steps {first} to {last}), each time with other labels",
        "few": "only {distinct:.0f} of the {samples:.0f} samples in the data set were ever used ({share:.1%} of the "
        "samples drawn are distinct)",
        "kept": "every step used the same batch, which was fetched once; this may be a test on one batch",
        "constant": "inputs do not vary at all over {count} batches",
        "alike": "all {count} samples have the same input, with {classes} different targets",
        "subset": "only {share:.0%} of the samples drawn in an epoch are distinct",
        "dry": "an exhausted iterator was used again {often} from step {first} on and gave nothing: these epochs were empty",
        "single": "a BatchNorm layer got {count} batches of a single sample in training mode",
    },
    fix={
        "": "Iterate `for batch in loader` and make the iterator once per epoch; `next(iter(loader))` in the loop "
        "starts from the beginning each time.",
        "alike": "Look at one batch: the reader returns the same values for every sample.",
        "constant": "Look at one batch: the reader returns the same values for every sample.",
        "refilled": "Copy what is put into the batch: every batch is a view of one buffer that is filled again and again.",
        "few": "Check the sampler: weights and indices must be one per sample, not one per class.",
        "dry": "Write `for batch in loader`, not `for batch in iterator`: an iterator serves one epoch.",
        "single": "Set drop_last=True, or choose a batch size that leaves no remainder of one.",
        "kept": "No action needed if it is a test on one batch; otherwise fetch a new batch in every step.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=(
        *("LOSS008", "EVAL007", "LOSS011", "LOSS002", "ACTV005", "GRAD003"),
        *("DATA004", "DATA008", "DATA010", "DATA011", "EVAL004"),
    ),
    unless=("rl",),  # a policy meets the same state as often as it goes there
    at="loader sampler|drawn",
)
def pipeline_stuck(
    run: Run,
    *,
    least: int = 3,  # CATALOGUE DATA012
    grave: int = 20,  # in a row, and to the end of the run
    unique: float = 0.9,
) -> Iterator[Evidence]:
    yield from _repeats(run, least, grave)
    spread = run.series("batch/input_std").finite()
    if len(spread) >= 5 and np.all(spread.values == 0) and _one_plain_forward(run):
        yield Evidence({"count": len(spread)}, (), (int(spread.steps[0]), int(spread.steps[-1])), "constant", Severity.CRITICAL)
    targets = facts.counts(run.fact("data.class_counts"))
    if facts.number(facts.table(run, "data.seen").get("train")) == 1 and sum(targets.values()) >= 100 and len(targets) > 1:
        yield Evidence(
            {"count": f"{sum(targets.values()):.0f}", "classes": len(targets)}, say="alike", severity=Severity.CRITICAL
        )
    share = facts.number(run.fact("data.unique_share"), 1.0)
    loader = facts.table(run, "data.loader")
    sampler = str(loader.get("sampler") or "")
    ordered = sampler in ("SequentialSampler", "RandomSampler", "DistributedSampler") and not loader.get("replacement")
    explained = facts.number(run.fact("data.duplicate_share"), 0.0) >= 1 - share  # equal content, not the same sample: DATA010
    if share < unique and ordered and not explained:
        yield Evidence({"share": share}, (), None, "subset", Severity.INFO)
    yield from _few(run, loader, share)
    yield from _dry(run)
    for event in run.events_of("batch_size_one"):
        count = int(facts.number(event.data.get("count"), 1.0))
        yield Evidence({"count": count}, (), (event.step, event.step), "single")
        break


def _few(run: Run, loader: Mapping[str, Any], share: float, least: float = 0.05, grave: float = 0.01) -> Iterator[Evidence]:
    """Draws with replacement leave some samples out; hardly any sample drawn at all is a sampler that has the wrong weights."""
    samples, seen = facts.number(loader.get("samples"), 0.0), facts.number(facts.table(run, "data.seen").get("train"))
    if run.fact("data.unique_share") is None and (drawn := facts.number(run.fact("data.drawn"), 0.0)) >= 200:
        share = seen / drawn  # not the whole of an epoch was looked at
    if loader.get("replacement") and share < least and seen < least * samples and _many_inputs(run):
        severity = Severity.CRITICAL if share < grave else Severity.WARNING
        yield Evidence({"share": share, "distinct": seen, "samples": samples}, (), None, "few", severity)


def _many_inputs(run: Run) -> bool:
    """Whether samples differ by nature: most of those validated on do, or they are measured finely."""
    distinct, sizes = facts.number(facts.table(run, "data.seen").get("val"), 0.0), run.series("eval/samples").finite().values
    told = len(sizes) > 0 and distinct > 0.5 * float(np.median(sizes))
    return told or run.fact("data.continuous") is True


def _dry(run: Run, least: int = 2) -> Iterator[Evidence]:
    """One iterator for all epochs: it ran dry in the first, and whoever asks again is given nothing."""
    events = run.events_of("loader_dry")
    count = max((int(facts.number(e.data.get("count"), 1.0)) for e in events), default=0)  # completed when the run ends
    if count >= least:
        yield Evidence({"count": count}, (), (events[0].step, events[0].step), "dry")


def _one_plain_forward(run: Run) -> bool:
    """Whether a step is one forward of several samples: one on a fixed point is constant by nature."""
    forwards, size = run.series("loop/forwards").finite().values, run.series("batch/size").finite().values
    return (not len(forwards) or float(np.median(forwards)) <= 1) and (not len(size) or float(np.median(size)) > 1)


def _repeats(run: Run, least: int, grave: int) -> Iterator[Evidence]:
    same = _same_as_before(run)
    first, count = _longest(same.values)
    length = facts.number(facts.table(run, "data.loader").get("length"))
    # Full-batch training repeats by nature; an iterator made anew at every step looks like an epoch of one step and is not.
    told = run.fact("data.steps_per_epoch") == 1
    full = length <= 1 or told or (math.isnan(length) and regime.steps_per_epoch(run) == 1)
    if count + 1 >= grave and _other_labels(run, same, first, count):
        span = (_before(same, first), int(same.steps[first + count - 1]))
        yield Evidence({"count": count + 1}, (), span, "refilled", Severity.CRITICAL)
        return
    if full or count + 1 < least or (math.isnan(length) and _in_pieces(run)):
        return
    begin, end = _before(same, first), int(same.steps[first + count - 1])
    fetched = facts.number(facts.table(run, "data.fetched").get("batches"))
    values = {"count": count + 1, "length": "several" if math.isnan(length) else f"{length:.0f}"}
    phase = _phase_of(run, same, first)
    whole = count >= len(phase) - 1
    if fetched <= 2 or (whole and math.isnan(length)):
        # One batch for the whole run, held by the script: a test on one batch, or a full-batch loop over plain tensors.
        if not math.isnan(length):
            judged = len(run.series("loss/val")) > 0 and not run.fact("data.same_set")  # no mere test
            yield Evidence(values, (), (begin, end), "kept", Severity.WARNING if judged else Severity.INFO)
        return
    to_the_end = end == int(same.steps[-1]) and count >= grave
    where = (str(facts.table(run, "data.loader").get("dataset") or "training loader"),)
    yield Evidence(values, where, (begin, end), "repeat", Severity.CRITICAL if to_the_end else Severity.WARNING)


def _phase_of(run: Run, same: Series, at: int) -> Series:
    """What is known of the training that a record belongs to: of several in one program each has its own way."""
    marks = [-math.inf, *regime.phase_starts(run), math.inf]
    began = max(m for m in marks if m <= same.steps[at])
    return same.between(began, min(m for m in marks if m > same.steps[at]) - 1)


def _before(same: Series, first: int) -> int:
    """The step of the batch that the others repeat: the first of a run is compared with nothing and has no record."""
    return int(same.steps[first - 1]) if first else max(0, int(same.steps[0]) - 1)


def _other_labels(run: Run, same: Series, first: int, count: int) -> bool:
    """Whether the classes asked for change while the inputs do not."""
    table = run.matrix("batch/labels/class")
    held = table.values[np.isin(table.steps, same.steps[first : first + count])] if len(table) else table.values
    changes = (np.diff(np.nan_to_num(held), axis=0) != 0).any(1) if len(held) >= 5 else np.zeros(1)
    return float(changes.mean()) > 0.5


def _in_pieces(run: Run, many: float = 4.0) -> bool:
    """Whether an update is made of many forwards (a rollout, an unrolled walk): one of them is not the batch."""
    forwards, backwards = run.series("loop/forwards").finite().values, run.series("loop/backwards").finite().values
    if not len(forwards) or not len(backwards):
        return False
    return float(np.median(forwards)) > many * max(float(np.median(backwards)), 1.0)


def _same_as_before(run: Run) -> Series:
    same = run.series("batch/repeat").finite()
    if len(same):
        return same
    prints = run.series("batch/fingerprint").finite()
    next_to = (np.diff(prints.values) == 0) & (np.diff(prints.steps) == 1)  # batches between others may have been served
    return Series(prints.steps, np.concatenate([[0.0], next_to]) if len(prints) else prints.values)


def _longest(flags: np.ndarray) -> tuple[int, int]:
    """Where the longest row of ones begins, and its length."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (flags == 1).astype(np.int8), [0]])))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return 0, 0
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best] - starts[best])
