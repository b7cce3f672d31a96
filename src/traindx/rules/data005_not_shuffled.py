"""Samples come in an order that has a pattern: sorted by class or source, or the same sequence every epoch.

## What it sees

From the batches it takes three things. How much more the class counts of batches differ than after a shuffle (χ²/dof: 1
when shuffled, about the batch size when each batch holds one class). Whether numeric targets of every batch begin where
those of the batch before end, ten times in a row. Whether the second epoch repeated the first. From a loss curve alone:
whether consecutive epochs have the same inner shape (rank correlation above .3 at z > 5, over at least three epochs of
20 records). A smooth shared shape means blocks of alike samples; a jagged one means a fixed order of well-mixed
batches, which is only a remark.

## Why it matters

A network that sees one class after the other learns the last one and forgets the first. Its loss looks good inside every
block, jumps at every change, and BatchNorm statistics describe the last block only.

## What else looks like this

- LOSS005: oscillation without a period of one epoch.
- A learning rate that restarts every epoch: the same shape every epoch too. The rule is silent then.
- Stratified batches (χ²/dof below 1), batches grouped by length, time series and reinforcement learning. A custom
  sampler lowers the finding to a remark, unless it serves one class after the other.

## What to do

Set `shuffle=True` on the training loader. Call `sampler.set_epoch(epoch)` on a distributed sampler. Give a stream a
shuffle buffer at least ten times as long as the longest run of one class."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from traindx import facts, regime, stats
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "DATA005",
    needs={"fact:data.label_dispersion | fact:data.order_repeats | batch/label_min | loss/train": 11},
    says={
        "sorted": "batches are sorted by class: their class counts vary {dispersion:.1f} times as much as if shuffled, and "
        "consecutive batches are alike",
        "grouped": "the class counts of batches vary {dispersion:.1f} times as much as if shuffled",
        "target": "batches are sorted by the target: {pairs} times in a row, all targets of a batch are {way} those of the "
        "batch before",
        "profile": "the loss has the same shape in every epoch (rank correlation {m:.2f}, z {z:.0f}): blocks of alike "
        "samples in a fixed order",
        "fixed": "every epoch serves the same batches in the same order",
    },
    fix={
        "": "Set shuffle=True on the training loader (set_epoch under a distributed sampler; a longer buffer for streams).",
        "fixed": "Reshuffle every epoch. No action needed if the data were mixed well once.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.STRONG,
    explains=(
        "LOSS005",
        "LOSS006",
        "LOSS012",
        "LOSS003",
        "EVAL002",
        "ACTV008",
        "GRAD003",
        "GRAD007",
        "ACTV005",
        "EVAL004",
        "OPTM002",
    ),
    unless=("rl", "curriculum", "adversarial"),
    at="loader",
)
def not_shuffled(
    run: Run,
    *,
    dispersion: float = 2.0,  # CATALOGUE DATA005: shuffled .99, short shuffle buffer 9.4, sorted 28
    p: float = 1e-6,
    correlation: float = 0.3,  # CATALOGUE 2.7: shuffled |m| ≤ .12, z ≤ 1.8
    z: float = 5.0,
) -> Iterator[Evidence]:
    seen = facts.number(run.fact("data.label_dispersion"))
    by_class = (
        seen > dispersion and facts.number(run.fact("data.label_dispersion_p"), 1.0) < p and _in_every_part(run, dispersion)
    )
    if by_class and run.fact("loss.kind") not in ("contrastive", "margin"):
        yield _by_class(run, seen)
        return
    if sorted_ := _by_target(run):
        yield sorted_
        return
    try:
        # batches that were seen to come in another order in the next epoch share no course: the loss only moves alike
        found = [] if run.fact("data.order_repeats") is False else list(_profile(run, correlation, z))
    except Unsure:
        if not math.isfinite(seen) and "data.order_repeats" not in run.facts:
            raise
        found = []
    if found:
        yield from found
    elif run.fact("data.order_repeats") and (regime.steps_per_epoch(run) or 2) >= 2:
        yield Evidence({}, _loader(run), None, "fixed", Severity.INFO, Confidence.EXACT)


def _by_class(run: Run, dispersion: float) -> Evidence:
    sampler = str(facts.table(run, "data.loader").get("sampler") or "")
    usual = ("", "None", "SequentialSampler", "DistributedSampler", "BatchSampler")
    alike = _neighbours_alike(run)
    blocks = alike and _pure(run, dispersion)
    if sampler == "RandomSampler":
        severity = Severity.INFO
    elif sampler in usual:
        severity = Severity.CRITICAL if blocks else Severity.WARNING
    else:  # a stream, or written on purpose: few classes to a batch may be meant, one class after the other is not
        severity = Severity.WARNING if blocks else Severity.INFO
    values = {"dispersion": dispersion, "p": facts.number(run.fact("data.label_dispersion_p"), 0.0)}
    return Evidence(values, _loader(run), None, "sorted" if alike else "grouped", severity)


def _by_target(run: Run, least: int = 10, learned: float = 0.1) -> Evidence | None:
    """Targets that are numbers and never step back from one batch to the next: a sorted table. No series in time does that."""
    low, high = (run.series(f"batch/label_{end}").finite() for end in ("min", "max"))
    if len(low) <= least or not np.array_equal(low.steps, high.steps) or "batch/label_mean" not in run.signals:
        return None
    next_to, wide = np.diff(low.steps) == 1, high.values > low.values
    wide = wide[1:] & wide[:-1]
    for way, follows in (("above", high.values[:-1] <= low.values[1:]), ("below", low.values[:-1] >= high.values[1:])):
        pairs = _longest(next_to & wide & follows)
        if pairs >= least:
            spread, now = regime.target_variance(run), regime.curve(run).finite().values
            fits = spread is not None and len(now) > 0 and float(np.max(now[-len(now) // 4 :])) < learned * spread[0]
            meant = (fits and run.fact("loss.kind") == "mse") or _in_time(run)
            severity = Severity.INFO if meant else Severity.WARNING
            return Evidence({"pairs": pairs, "way": way}, _loader(run), None, "target", severity, Confidence.EXACT)
    return None


def _in_time(run: Run) -> bool:
    """Whether samples follow one another in time: windows of a series, or numbers to be told from sequences."""
    numbers = run.fact("loss.kind") in ("mse", "l1", "huber") or bool(run.fact("loss.by_hand"))
    return bool(run.fact("data.series")) or (numbers and facts.has_layer(run, "LSTM", "GRU", "RNN"))


def _longest(flags: NDArray[np.bool_]) -> int:
    """The longest row of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _in_every_part(run: Run, dispersion: float, parts: int = 3, least: int = 8) -> bool:
    """Whether each third of the run is sorted in itself: a run in two stages has two class mixes, each perhaps shuffled."""
    table = run.matrix("batch/labels/class")
    counts = np.nan_to_num(table.values, nan=0.0, posinf=0.0, neginf=0.0)
    counts = counts[counts.sum(axis=1) > 0] if len(counts) else counts
    if len(counts) < parts * least:
        return True
    return all(_dispersion(part) > dispersion for part in np.array_split(counts, parts))


def _dispersion(counts: Floats) -> float:
    """χ²/dof of class counts over batches."""
    counts = counts[:, counts.sum(axis=0) > 0]
    if counts.shape[1] < 2:
        return math.inf  # one class only: as sorted as it gets
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    return float(((counts - expected) ** 2 / expected).sum() / ((len(counts) - 1) * (counts.shape[1] - 1)))


def _pure(run: Run, dispersion: float, share: float = 0.5) -> bool:
    """Whether most batches hold hardly more than one class: the ratio then comes near the batch size."""
    size = run.series("batch/size").finite().values
    usual = float(np.median(size)) if len(size) else facts.number(facts.table(run, "data.loader").get("batch_size"))
    return dispersion > share * usual and usual >= 4


def _neighbours_alike(run: Run, least: int = 10) -> bool:
    """Whether consecutive batches have more similar class counts than batches taken at random (True when unknown)."""
    table = run.matrix("batch/labels/class")
    counts = np.nan_to_num(table.values, nan=0.0, posinf=0.0, neginf=0.0)
    total = counts.sum(axis=1) if len(counts) else np.empty(0)
    if np.count_nonzero(total > 0) < least:
        return True
    mix = counts[total > 0] / total[total > 0, None]
    near = float(np.mean(np.abs(np.diff(mix, axis=0)).sum(axis=1)))
    order = np.random.default_rng(0).permutation(len(mix))
    apart = float(np.mean(np.abs(np.diff(mix[order], axis=0)).sum(axis=1)))
    return near < 0.7 * apart


def _profile(run: Run, correlation: float, z: float, least: int = 20) -> Iterator[Evidence]:
    values, per = _per_epoch(run)
    if per < least or len(values) < 3 * per:
        more = max(1, 3 * max(per, least) - len(values))
        raise Unsure("needs three epochs of at least 20 recorded losses each", needs_steps=more)
    if _lr_repeats(run, per):
        return
    found = stats.epoch_profile_corr(values, per)
    if (
        regime.log_form(run) == "ema"
    ):  # blocks look smoothed; a smoothed loss agrees with itself by chance, in five epochs to .7
        if len(values) < 5 * per:
            return
        correlation = max(correlation, 0.75)
    if found.m > correlation and found.z > z:
        smooth = _smooth(values, per)
        say = "profile" if smooth else "fixed"
        severity = Severity.WARNING if smooth and not _in_time(run) else Severity.INFO
        yield Evidence({"m": found.m, "z": found.z, "per_epoch": per}, _loader(run), run.steps, say, severity)


def _per_epoch(run: Run) -> tuple[Floats, int]:
    """Raw losses and how many make an epoch; 0 where records are averages or do not divide an epoch evenly."""
    curve = regime.curve(run)
    per = regime.steps_per_epoch(run) or 0
    gap = regime.interval(run)
    if regime.log_form(run) not in ("raw", "running-mean", "ema") or gap < 1 or per % gap:
        return curve.values, 0
    return curve.values, int(per // gap)


def _lr_repeats(run: Run, per: int) -> bool:
    """Whether the learning rate itself restarts about once an epoch."""
    ups = [j.step for j in regime.lr_jumps(run) if j.ratio > 1]
    gaps = np.diff(ups)
    whole = per * regime.interval(run)
    return len(gaps) >= 2 and bool(np.median(np.abs(gaps / whole - np.round(gaps / whole))) < 0.1)


def _smooth(values: Floats, per: int, least: float = 0.3) -> bool:
    """Whether the shape that epochs share is smooth: neighbours within it are alike."""
    epochs = values[: len(values) // per * per].reshape(-1, per)[1:]
    ranks = np.argsort(np.argsort(epochs, axis=1), axis=1).astype(np.float64)
    shape = ranks.mean(axis=0)
    line = np.polynomial.polynomial.polyfit(np.arange(per), shape, 1)
    return stats.autocorrelation(shape - np.polynomial.polynomial.polyval(np.arange(per), line)) > least


def _loader(run: Run) -> tuple[str, ...]:
    loader = facts.table(run, "data.loader")
    if not loader:
        return ()
    return (f"{loader.get('dataset') or 'training'} loader (shuffle={loader.get('shuffle')}, sampler={loader.get('sampler')})",)
