"""The loss bounces more than the sampling of batches explains.

## What it sees

The excess-variance ratio: the variance of the loss around its running median, divided by the variance that drawing this
batch would give. The latter comes from the spread of the per-sample losses. It is about 1 for pure mini-batch noise,
however wild the curve looks. It fires at 3 or more in three of the last five windows, the newest among them, after nine
tenths of the drop. It is a warning when a second sign agrees: successive gradients that turn back, or training and
validation that bounce together. Without the per-sample spread it compares training and validation. They are different
samples, so losses that bounce together over at least eight evaluations show that the weights swing. Otherwise it only
hints. The band is at least twice as wide as the run's own quietest stretch at the same learning rate, and the loss does
not fall. Or records alternate up and down, or swing in regular waves, which sampling noise never does.

## Why it matters

The weights are thrown back and forth across a valley: the learning rate is too high for this curvature, and part of every
step is wasted.

## What else looks like this

- A small batch: the ratio is about 1. A larger batch or more smoothing helps the eye; the learning rate is fine.
- Data in a fixed or sorted order (DATA005): the pattern repeats every epoch. A cyclical learning rate makes waves too.
- Batches of mixed difficulty or sources, sums over sequences of different length.
- Dropout adds its own variance (about as much as its rate).
- Two players (GAN) and policies: muted.

## What to do

Learning rate ÷3, then ÷10; momentum .9 → .8; a warm-up; clip at the 95 % quantile of the norms. Resuming from here is fine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import regime, stats
from traindx.finding import Blind, Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import sampling_noise, settled
from traindx.rule import rule
from traindx.run import Floats, Run, Series
from traindx.stats import Direction


@rule(
    "LOSS005",
    needs={"loss/train": 10},
    says={
        "": "the training loss swings {ratio:,.0f} times more than random batches explain (in {windows} of {of} "
        "stretches of the run)",
        "mild": "the training loss swings {ratio:,.0f} times more than random batches explain",
        "wider": "at the same learning rate, the training loss now swings {ratio:,.0f} times as widely as in its calmest part",
        "together": "training and validation loss rise and fall together (correlation {rho:.2f} over {records} evaluations), "
        "so the weights swing and not only the samples differ",
        "bounces": "the {what} bounces: over {records} records its rises add up to {up:.3g}, and it fell by only {gained:.3g}",
        "waves": "the training loss swings up and down by {swing:.3g} in waves of about {period} records ({records} records)",
        "zigzag": "the training loss alternates up and down by {swing:.3g} (correlation of neighbours {rho:.2f}, {records} "
        "records)",
    },
    fix="Divide the learning rate by 3 and resume; if the loss still swings, by 10.",
    unless=("rl", "adversarial"),
)
def oscillation(
    run: Run,
    *,
    fire: float = 3.0,  # CATALOGUE 2.5: healthy runs .84–1.43
    hint: float = 2.0,
    window: int = 400,
    wider: float = 2.0,
) -> Iterator[Evidence]:
    series = regime.curve(run)
    measured = _excess(run, series, window)
    if len(measured) >= 3:
        last = measured[-5:]
        high = int(np.count_nonzero(last >= fire))
        span = (int(series.steps[-min(len(series), len(last) * _size(series, window))]), int(series.steps[-1]))
        numbers = {
            "ratio": float(np.median(last[last >= hint])) if np.any(last >= hint) else float(last[-1]),
            "windows": high,
            "of": len(last),
        }
        if high >= 3 and last[-1] >= fire:
            yield Evidence(numbers, steps=span, severity=Severity.WARNING if _swings(run) else Severity.INFO)
        elif np.count_nonzero(last >= hint) >= 3 and last[-1] >= hint:
            yield Evidence(numbers, steps=span, say="mild", severity=Severity.INFO)
        return
    hints = list(_together(run)) or list(_by_eye(run, series, wider)) or list(_bounces(run, series))
    yield from hints
    if not hints and not len(run.series("loss/sample_var")):
        raise Blind("the loss alone does not show whether the weights swing or the samples differ", "loss/sample_var")
    if not hints:
        raise Unsure("too few records with the spread of the samples", needs_steps=window)


def _swings(run: Run) -> bool:
    """A second witness that the weights swing: gradients that turn back, or two losses that bounce together.

    Mixed sources, mixup and auxiliary terms add variance that the samples of one loss call do not explain.
    """
    turn = run.series("grad_cosine").finite().values
    back = len(turn) >= 10 and float(np.mean(turn[-len(turn) // 2 :] < 0)) > 0.3
    return back or any(True for _ in _together(run))


def _size(series: Series, window: int) -> int:
    return int(max(100, min(window, len(series) // 5)))


def _excess(run: Run, series: Series, window: int) -> Floats:
    """EVR in consecutive windows after warm-up, newest last; empty when the spread of the samples was not recorded."""
    muted = regime.muted_after_jumps(run)
    calm = series.steps >= regime.start(run)
    for lo, hi in muted:
        calm &= (series.steps < lo) | (series.steps > hi)
    kept = settled(series.where(calm), 0.9)
    if len(kept) < 100 or not regime.plain_loss(run):
        return np.empty(0)
    return stats.evr_windows(kept.values, sampling_noise(run, kept), _size(kept, window))


def _by_eye(run: Run, series: Series, wider: float) -> Iterator[Evidence]:
    """Without the samples' spread: hints only."""
    y = series.values
    alternating = _alternates(series)
    if alternating is not None:
        yield alternating
        return
    if len(y) < 400:
        return
    same = settled(_same_rate(run, series), 0.9)
    size = max(40, len(same) // 10)
    widths = stats.spread_windows(same.values, size)
    trend = stats.trend_verdict(y)
    if len(widths) < 4 or trend.direction is Direction.FALLING:
        return
    calm, now = float(np.min(widths[:-1])), float(np.median(widths[-2:]))
    if calm > 0 and now >= wider * calm:
        span = (int(same.steps[-2 * size]), int(same.steps[-1]))
        yield Evidence({"ratio": now / calm}, steps=span, say="wider", confidence=Confidence.SUGGESTIVE)


def _same_rate(run: Run, series: Series) -> Series:
    rate = regime.lr(run)
    if not len(rate) or rate.last <= 0:
        return series
    then = rate.at(series.steps)
    return series.where(np.abs(np.log(np.maximum(then, 1e-300) / rate.last)) < 0.4)


def _together(run: Run) -> Iterator[Evidence]:
    """Training batches and the validation set are different samples: if both losses bounce alike, the weights do."""
    val = regime.curve(run, regime.VAL)
    if len(val) < 8 or _of_the_batch(run, val):
        return
    train = regime.losses_at(run, val.steps, half=0.05)
    a, b = np.diff(val.values, 2), np.diff(train, 2)
    if not np.isfinite(b).all() or a.std() == 0 or b.std() == 0:
        return
    rho = float(np.corrcoef(a, b)[0, 1])
    moves = np.diff(val.values)
    half = val.values[len(val) // 2 :]
    gained = float(val.values[0] - np.median(half))
    up = float(np.sum(moves[moves > 0]))
    turns = float(np.mean(np.diff(np.sign(moves)) != 0))
    sure = math.atanh(min(rho, 0.999)) * math.sqrt(max(1, len(a) - 3)) if rho > 0 else 0.0
    if sure < 2.3 or rho < 0.5 or turns < 0.4 or up < 0.5 * gained or gained < 2 * stats.noise_sigma(half):
        return  # without a gain there is nothing that the swing throws back
    rate = regime.lr(run).values
    steady = len(rate) > 2 and float(np.min(rate)) > 0.6 * float(np.max(rate))
    strong = steady and len(val) >= 20 and stats.trend_verdict(val.values).direction is not Direction.FALLING
    span = (int(val.steps[0]), int(val.steps[-1]))
    numbers = {"rho": rho, "records": len(val), "up": up, "gained": gained}
    yield Evidence(numbers, steps=span, say="together", confidence=Confidence.STRONG if strong else Confidence.SUGGESTIVE)


def _of_the_batch(run: Run, val: Series) -> bool:
    """Whether what looks like validation is a second loss of the batch that is trained on: as often, and of as few samples."""
    seen, size = (run.series(n).finite().values for n in ("eval/samples", "batch/size"))
    often = len(val) > 0.3 * len(regime.curve(run))
    return often and len(seen) > 0 and len(size) > 0 and float(np.median(seen)) <= 1.5 * float(np.median(size))


def _bounces(run: Run, series: Series) -> Iterator[Evidence]:
    """Means over an epoch and losses of a fixed validation set hold little sampling noise: a wide zig-zag is a hint."""
    curves = [("validation loss", regime.curve(run, regime.VAL))]
    if regime.logged_by_epoch(run):
        curves.append(("training loss", series))
    for what, part in curves:
        if not 10 <= len(part) <= 100:
            continue
        moves = np.diff(part.values)
        up, turns = float(np.sum(moves[moves > 0])), float(np.mean(np.diff(np.sign(moves)) != 0))
        gained = float(np.max(part.values[:3]) - np.median(part.values[len(part) // 2 :]))
        wide = 3 * gained > stats.noise_sigma(part.values) > 0.15 * gained  # some gain, and a band that is wide next to it
        if up > 1.5 * gained and turns > 0.5 and wide:
            numbers = {"what": what, "up": up, "gained": gained, "records": len(part)}
            span = (int(part.steps[0]), int(part.steps[-1]))
            yield Evidence(numbers, steps=span, say="bounces", confidence=Confidence.SUGGESTIVE)
            return


def _alternates(series: Series) -> Evidence | None:
    """Independent batches give no correlation between neighbours; a zig-zag across a valley gives a strongly negative one."""
    y = series.values[-400:]
    if len(y) < 10:
        return None
    centre, means = stats.block_means(y, max(2, len(y) // 10))
    flat = y - np.interp(np.arange(len(y)), centre, means)
    rho = stats.autocorrelation(flat)
    own = -2.0 / 10  # what removing block means alone does to white noise
    span = (int(series.steps[-len(y)]), int(series.steps[-1]))
    if (rho - own) * math.sqrt(len(y)) > -3.0 or rho > -0.5:
        period = _period(y) if len(y) >= 60 else 0
        numbers = {"period": period, "records": len(y), "swing": float(2 * np.std(flat))}
        return Evidence(numbers, steps=span, say="waves", confidence=Confidence.SUGGESTIVE) if period else None
    numbers = {"rho": rho, "records": len(y), "swing": float(2 * np.std(flat))}
    return Evidence(numbers, steps=span, say="zigzag", confidence=Confidence.SUGGESTIVE)


def _period(y: Floats, least: int = 8) -> int:
    """The length of regular waves, of which there are at least `least`; 0 without them.

    Half a wave later the curve stands opposite, a whole wave later alike: batches of independent samples do neither.

    >>> noise = np.random.default_rng(0).normal(0, 0.3, 200)
    >>> _period(np.sin(np.arange(200) / 2) + noise), _period(noise)
    (13, 0)
    """
    rest = y - stats.running_median(y, min(51, len(y) // 4))
    power = float(rest @ rest)
    longest = len(y) // least
    rho = np.array([float(rest[k:] @ rest[: len(rest) - k]) for k in range(longest + 1)]) / max(power, 1e-300)
    turns = np.flatnonzero(np.diff(np.sign(rho)) != 0) + 1  # where it changes sides: down, up again, down again
    if len(turns) < 2:
        return 0
    half = int(turns[0] + np.argmin(rho[turns[0] : turns[1]]))
    whole = int(turns[1] + np.argmax(rho[turns[1] : turns[2] if len(turns) > 2 else None]))
    return whole if rho[half] < -0.4 and rho[whole] > 0.4 else 0
