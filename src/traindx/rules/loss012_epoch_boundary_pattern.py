"""The loss has stairs or a saw-tooth locked to the epochs.

## What it sees

*Stairs*: the loss drops at each epoch boundary by more than it does anywhere else (z below −3): the second time a
sample is seen the model remembers it. *Order*: the inner shape of an epoch repeats in the next (rank correlation above
.3, z above 5): batches come in the same order, unless they were seen not to. *Artefact*: the logged value is a running
mean that restarts each epoch; the saw-tooth is the logging. *Restart*: each epoch begins at the first loss of the run
and ends far below it, four times or more: the weights are initialised again each time. Stairs are a remark, and a
warning when validation stops improving after the first epoch.

## Why it matters

Stairs are memorisation made visible. After them the training loss no longer says how good the model is.

## What else looks like this

- A learning rate that steps once per epoch: boundaries with a jump of the rate are not counted.
- Several models trained one after the other (folds, seeds): another model is seen to begin, and only the last is
  judged. In a log of another tool this cannot be seen, and the pattern is a remark; a warning where only evaluations
  mark the epochs.
- A tiny last batch, a sampler that reshuffles.

## What to do

Fewer epochs (1–3 when fine-tuning a language model), learning rate ÷3–10, remove duplicates. For a repeated order: shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, regime, stats
from traindx.course.curves import fell
from traindx.finding import Blind, Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run, Series


@rule(
    "LOSS012",
    needs={"loss/train": 60},
    says={
        "stairs": "the training loss drops by {drop:.0%} when a new epoch begins ({boundaries} times): the model recognises "
        "samples it has seen",
        "order": "the training loss takes the same course in every epoch (correlation {m:.2f}): batches come in the same order",
        "anew": "every {per} steps the training loss jumps from {end:.4g} back to its first value ({start:.4g}), {times} "
        "times so far: the model is reset",
        "artefact": "the logged training loss is a running mean that restarts every epoch; its saw-tooth shape comes from that",
    },
    fix={
        "stairs": "Judge by validation, not by this curve; once validation stops improving, train for fewer epochs or with a "
        "third of the learning rate.",
        "order": "Shuffle the training data, and reshuffle every epoch (`set_epoch` on a distributed sampler).",
        "anew": "Find the line inside the epoch loop that creates or initialises the model, and move it before the loop.",
        "artefact": "Log the loss of each step, or compare the curve only at the ends of epochs.",
    },
    severity=Severity.INFO,
    unless=("rl", "adversarial"),
)
def epoch_boundary_pattern(
    run: Run,
    *,
    stairs: float = -3.0,  # CATALOGUE 2.8
    alike: float = 0.3,  # CATALOGUE 2.7
    sure: float = 5.0,
) -> Iterator[Evidence]:
    per = regime.records_per_epoch(run)
    series = regime.curve(run)
    if (anew := _anew(run, series, per)) is not None:
        yield anew
        return
    if per is None:
        raise Blind("how many steps make an epoch is not known", "data.steps_per_epoch")
    if per < 20 or len(series) < 3 * per:
        raise Unsure("needs 20 records an epoch over 3 epochs", needs_steps=_missing(run, series, per))
    span = (int(series.steps[0]), int(series.steps[-1]))
    ours = run.kind == "record"  # every loss as it was at its step: what looks like a mean is none
    if (
        not ours
        and regime.log_form(run) == "raw"
        and stats.log_form(run.series(regime.TRAIN).finite().values, per) == "running-mean"
    ):
        yield Evidence({}, steps=span, say="artefact")
        series = Series(series.steps, stats.undo_running_mean(series.values, per))
    y = _aligned(run, series, per)
    profile = stats.epoch_profile_corr(y, per)
    if profile.m > alike and profile.z > sure and run.fact("data.order_repeats") is not False:
        yield Evidence({"m": profile.m, "z": profile.z, "epochs": profile.pairs + 1}, steps=span, say="order")
    jump = stats.boundary_jump(y, per, skip=1 if len(y) // per >= 6 else 0)
    if jump.z < stairs and jump.boundaries >= 2 and _matters(y, jump.jump) and not _lr_steps(run, per, jump.boundaries):
        numbers = {"drop": 1 - float(np.exp(jump.jump)), "z": jump.z, "boundaries": jump.boundaries}
        val = regime.curve(run, regime.VAL).values
        stalled = len(val) >= 3 and not fell(val)
        yield Evidence(numbers, steps=span, say="stairs", severity=Severity.WARNING if stalled else None)


def _anew(run: Run, series: Series, per: int | None, back: float = 0.25, least: int = 4) -> Evidence | None:
    """Each epoch (or each stretch between evaluations, where nothing tells epochs) begins at the first loss of the run."""
    gaps = np.diff(run.series(regime.VAL).steps)
    # A log may hold folds one after the other, and stretches between evaluations may be tasks: only a loop that was watched
    # through its epochs tells them from weights that are lost.
    watched = "retrained" in (run.fact("watched") or ())
    severity = Severity.INFO if not watched else Severity.WARNING if per is None else Severity.CRITICAL
    if per is None and len(gaps) >= least and np.all(gaps == gaps[0]):
        per = round(float(gaps[0]) / regime.interval(run))
    if per is None or per < 10 or len(series) < (least + 1) * per or facts.labels_in_clumps(run):
        return None
    table = series.values[: len(series) // per * per].reshape(-1, per)
    heads, ends = table[:, 0], np.median(table[:, -max(2, per // 5) :], axis=1)
    start, end = float(heads[0]), float(np.median(ends))
    fell = start - end
    noise = max(float(np.std(ends)), stats.mad(np.diff(table[:, per // 2 :], axis=1).ravel()))
    if (
        not fell > max(4 * noise, 0.2 * abs(start))
        or np.mean((heads[1:] > start - back * fell) & (heads[1:] < start + fell)) < 0.9
    ):
        return None
    told = {"per": round(per * regime.interval(run)), "start": start, "end": end, "times": len(heads) - 1}
    return Evidence(
        told, (), (int(series.steps[per]), int(series.steps[-1])), "anew", severity, None if watched else Confidence.SUGGESTIVE
    )


def _missing(run: Run, series: Series, per: int) -> int:
    return max(1, int((3 * max(per, 20) - len(series)) * regime.interval(run)))


def _aligned(run: Run, series: Series, per: int) -> Floats:
    """The records from the start of an epoch on."""
    epoch = run.series("epoch").finite()
    if len(epoch):
        whole = np.floor(epoch.at(series.steps) + 1e-9)
        turns = np.flatnonzero(np.diff(whole) > 0)
        if len(turns):
            return series.values[(int(turns[0]) + 1) % per :]
    return series.values


def _matters(y: Floats, jump: float) -> bool:
    """The drop at a boundary is at least 1 % of all that was gained."""
    smooth = stats.running_median(y, 25)
    return jump < 0 and -jump * float(np.median(np.abs(y))) > 0.01 * float(np.ptp(smooth))


def _lr_steps(run: Run, per: int, boundaries: int) -> bool:
    """Whether the learning rate jumps at epoch boundaries too."""
    steps = regime.steps_per_epoch(run) or per
    at = [j for j in regime.lr_jumps(run) if min(j.step % steps, -j.step % steps) <= max(1, steps // 20)]
    return len(at) >= max(1, boundaries // 2)
