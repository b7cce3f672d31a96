"""The first steps were large enough to destroy the network: the learning rate is too high.

## What it sees

The largest update ratio |Δw|/|w| of a weight matrix in the first ten steps (and the first ten after warm-up). It fires
above 0.3 with Adam, or above 0.1 with a loss that then diverged, never got below its start, or fell back to chance. The
first steps destroyed such a run, even if it looks calm now. So it is, as a warning, after a step of more than the
weights' own size when the loss has hardly fallen since. A large early update that the run survived well is a remark.
Without recorded updates it hints: the loss shot far above its start within the first tenth and then stayed at or above
it.

## Why it matters

Too large a rate does not always end in NaN. As often it kills the units and leaves a run that is flat at ln C with tiny
updates, which looks exactly like a rate that is too *low*.

## What else looks like this

- OPTM001: tiny updates from the first step on.
- Fresh heads and zero-initialised tensors: their ratio is large because they are near zero; tensors below 1e-3 are not
  counted.
- A learning-rate finder, which does this on purpose.
- Reinforcement learning, whose loss is no measure of success: there only a loss that ends non-finite counts as harm.
- LOSS001 later in the run, at a rate that was fine before.

## What to do

A tenth of the learning rate, with warm-up. Restart: units that died do not come back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.regime import params
from traindx.regime.curves import Progress, noise_of, progress
from traindx.rule import rule
from traindx.run import Run, Series
from traindx.stats import Direction
from traindx.stats.breaks import last_good

HELD = 200  # steps of falling loss after which the first ones are not to blame for what follows


@rule(
    "OPTM002",
    needs={"loss/train": 3},
    says={
        "": "a step moved {where} by {early:.0%} of its size at step {at}; {harm}",
        "survived": "a step moved {where} by {early:.0%} of its size at step {at}; the run came through",
        "curve": "the loss shot up to {peak:.4g} within the first {within} steps ({start:.4g} before) and then stayed at "
        "{now:.4g}",
    },
    fix={
        "": "Restart with a tenth of the learning rate and a warm-up.",
        "survived": "Nothing, if you like the result; a warm-up over the first 1–5 % of the steps would spare the start.",
    },
    explains=(
        "LOSS001",
        "LOSS002",
        "LOSS005",
        "LOSS006",
        "LOSS009",
        "LOSS011",
        "ACTV001",
        "ACTV005",
        "WGHT001",
        "OPTM001",
        "GRAD002",
        "GRAD003",
        "GRAD004",
        "NUMR001",
        "NUMR002",
        "NUMR003",
    ),
    unless=("adversarial",),
    at="optimizer",
)
def updates_too_large(
    run: Run,
    *,
    adam: float = 0.3,  # CATALOGUE OPTM002, measured: .14 best, .41 slightly worse, ≥ 1 dead
    harmful: float = 0.1,
    certain: float = 1.0,
) -> Iterator[Evidence]:
    first = regime.phase_start(run) or (run.steps[0] if run.steps else 0)
    begins = {first, max(first, regime.start(run))}  # of what the loss is judged by: an earlier phase is another story
    early, where, at = max((params.early_update(run, s) for s in begins), key=_known)
    if _decays(run, where, at):
        return  # the weights shrink: OPTM009 and WGHT002 look at that
    measured = not regime.reinforcement(run)  # there the loss is no measure: the data change with the policy
    harm = _harm(run) if measured or not math.isfinite(run.series(regime.TRAIN).last) else ""
    if math.isnan(early):
        hint = _by_curve(run) if measured else None
        if hint is None:
            raise Blind("how far the first steps moved the weights was not recorded", "update_ratio/param")
        yield hint
        return
    if not harm and early >= certain and measured:
        harm = _worse_than_untrained(run)
    normalised = regime.adam_like(run) is not False
    if not harm and early >= certain and measured and normalised and not _learned(run):
        harm = _hardly_learned(run)
    numbers = {"early": early, "at": at, "harm": harm or "the loss kept falling"}
    names = where or ("the weights",)
    if harm and early > (adam if not normalised else harmful):
        hardly = harm.startswith("the loss has hardly")
        dead = not hardly and (early >= certain or harm.startswith(("it never", "it fell back", "it ended")))
        yield Evidence(numbers, names, (at, at), severity=Severity.CRITICAL if dead else Severity.WARNING)
    elif harm and early > harmful:
        yield Evidence(numbers, names, (at, at))
    elif early > adam and normalised:
        severity = Severity.WARNING if measured and early >= certain and not _learned(run) else Severity.INFO
        yield Evidence(numbers, names, (at, at), "survived", severity)


def _decays(run: Run, where: tuple[str, ...], at: int) -> bool:
    """Whether weight decay moves these weights more than gradients do, in a step before momentum mixes the two."""
    table = run.matrix("decay_share/param").between(hi=at)
    rows = params.columns(table, [n for n in where if n in table.names]) if len(table) else np.empty((0, 0))
    return bool(rows.size) and float(np.max(np.where(np.isfinite(rows), rows, 0.0))) > 1


def _known(found: tuple[float, tuple[str, ...], int]) -> float:
    return -1.0 if math.isnan(found[0]) else found[0]


def _learned(run: Run) -> bool:
    done = progress(regime.curve(run))
    return done is not None and done.trend.direction is Direction.FALLING and done.gain > 4 and done.relative > 0.3


def _hardly_learned(run: Run) -> str:
    """The same for a run that is little better than at its start, or than guessing: that is no coming through."""
    done = progress(regime.curve(run))
    if done is None or done.points < 50 or not _near(done, regime.chance_level(run)):
        return ""
    return f"the loss has hardly fallen since ({done.first:.4g} → {done.now:.4g})"


def _worse_than_untrained(run: Run, times: float = 3.0) -> str:
    """The same for validation that ends far above what the untrained weights cost on training data."""
    train, val = run.series(regime.TRAIN).finite(), run.series("loss/val").finite()
    if len(train) < 10 or len(val) < 3 or train.values[0] <= 0:
        return ""
    start, now = float(train.values[0]), float(np.median(val.values[-max(3, len(val) // 5) :]))
    return f"validation ends at {now:.4g}, untrained weights cost {start:.4g}" if now > times * start else ""


def _harm(run: Run) -> str:
    """What became of the loss, in words that follow "…;"; empty when nothing bad did."""
    raw = run.series(regime.TRAIN)
    if (last := last_good(raw.values)) is not None and last >= HELD:
        return ""  # it fell for long and broke then: not the doing of the first steps
    if len(raw) and not math.isfinite(raw.last):
        return "it ended in a non-finite loss" if _rose_before(raw.finite()) else ""
    series = regime.curve(run)
    done = progress(series)
    if done is None or done.points < 10:
        return ""
    chance = regime.chance_level(run)
    reached = done.first - done.best
    if chance is not None and done.best > 0.97 * chance:
        return f"it never got below chance ({done.now:.4g})"
    untrained = float(series.values[0])  # before the first update; what "first" averages over may hold the blow-up already
    if float(np.quantile(series.values[1:], 0.02)) > untrained + max(0.5 * abs(untrained), 2 * done.sigma):
        return f"it never got back to its start ({untrained:.4g} → {done.now:.4g})"
    still = reached < 2 * max(done.sigma, 1e-12) and done.now > untrained - 2 * done.sigma and done.relative < 0.2
    knows = chance is not None and done.below(chance)
    if still and not knows and done.points >= 30:  # a dozen batches of a loss with noise do not show it
        return f"it never got below its start ({done.first:.4g} → {done.now:.4g})"
    if chance is not None and done.now > 0.97 * chance and done.now > done.best + 3 * done.sigma:
        return f"it fell back to chance ({done.now:.4g})"
    if done.now > done.first + 3 * done.sigma and done.now - done.best > 0.5 * reached:
        return f"the loss rose to {done.now:.4g}"
    accuracy = facts.accuracy(run).values
    if len(accuracy) >= 5 and np.ptp(accuracy) < 1e-6 and accuracy[-1] < 0.95 and _near(done, chance):
        told = f"accuracy {accuracy[-1]:.3g} at each of {len(accuracy)} evaluations"
        return f"it never learned to tell samples apart ({told})"
    return ""


def _near(done: Progress, chance: float | None) -> bool:
    """Hardly better than at the start, or than a model that knows nothing."""
    return done.relative < 0.1 or (chance is not None and done.now > 0.9 * chance)


def _rose_before(seen: Series) -> bool:
    """The last finite losses were on their way up, or there were hardly any: it was not one bad operation out of the blue."""
    return len(seen) < 10 or float(np.max(seen.values[-5:])) > float(np.max(seen.values[:3]))


def _by_curve(run: Run) -> Evidence | None:
    """A blow-up right at the start, and a calm level at or above the start ever after."""
    series = regime.curve(run)
    y = series.values
    if len(y) < 20:
        return None
    head = max(5, min(len(y) // 10, 200))
    start, now = float(y[0]), float(np.median(y[-max(5, len(y) // 5) :]))
    peak = float(np.max(y[1:head]))
    late = noise_of(y[len(y) // 2 :])
    high = peak > start + 10 * max(late, 1e-12) and peak - start > max(abs(start), abs(now)) * 2
    if not high or now < start - 3 * late - 0.05 * abs(start) or _moves(series):
        return None
    numbers = {"peak": peak, "start": start, "now": now, "within": int(series.steps[head - 1] - series.steps[0])}
    span = (int(series.steps[0]), int(series.steps[head - 1]))
    return Evidence(numbers, steps=span, say="curve", confidence=Confidence.SUGGESTIVE)


def _moves(series: Series) -> bool:
    late = progress(series.where(np.arange(len(series)) >= len(series) // 2))
    return late is not None and late.trend.direction is Direction.FALLING and late.gain > 2
