"""What speaks against a run, whatever its scale: it broke, blew up, never moved, shakes. Each as a clause, empty if not so."""

from __future__ import annotations

import math

import numpy as np

from traindx import regime, stats
from traindx.course import chance, metrics, side_by_side
from traindx.course.curves import far_from_its_end, fell, level, noise, stands
from traindx.run import Floats, Run, Series

FEW_EVALUATIONS, FEW_RECORDS = 8, 100  # fewer do not show that nothing is being learned
LEAST_EVALUATIONS, LEAST_RECORDS = 5, 30  # fewer show nothing at all
CLEAN_EVALUATIONS = 12  # of a loss alone, without a metric
LONG_STILL = 1000  # updates without any movement; a few hundred are a slow start
ABSURD = math.log(300_000)  # a cross-entropy above this is worse than guessing, whatever the vocabulary
BURST, BLOWN = 5.0, 1e4  # times the usual loss: a mean over many samples does not scatter so; a start that blew up


def idle(run: Run) -> str:
    """No curve moved, neither loss nor metric, over the whole run: whatever it knows, it knew before."""
    found = {n: c.values for n in (regime.TRAIN, regime.VAL) if len(c := regime.curve(run, n)) >= LEAST_EVALUATIONS}
    if regime.finetune(run) or regime.in_warmup(run) or not enough(run, FEW_EVALUATIONS, LONG_STILL):
        return ""
    if not found or metrics.improved(run, ("val", "test", "train")):
        return ""
    if by_heart(run):
        return ""
    first, last = (next(reversed(found.values()))[i] for i in (0, -1))
    moved = [v for v in found.values() if fell(v)]
    if not moved:
        return f"nothing moved, the loss was {first:.4g} and is {last:.4g}"
    means = moved if regime.logged_by_epoch(run) else [v for name, v in found.items() if name == regime.VAL and fell(v)]
    clean = means and all(len(v) >= CLEAN_EVALUATIONS and far_from_its_end(v) for v in means)
    if clean and not regime.may_be_negative(run):
        return f"the loss fell from {first:.4g} to {last:.4g}, as slowly at the end as at the start"
    count = round(math.exp(min(last, 3.5)))
    near = count >= 2 and all(abs(level(v)[0] - math.log(count)) < 0.01 and v[0] - v[-1] < 0.05 * v[-1] for v in found.values())
    return f"the loss was {first:.4g} and is {last:.4g}, near ln {count}, that of guessing among {count}" if near else ""


def by_heart(run: Run) -> bool:
    """Whether validation costs clearly more than training: a constant answer costs nearly the same on both."""
    train, val = (regime.curve(run, name).values for name in (regime.TRAIN, regime.VAL))
    return len(train) >= 3 and len(val) >= 3 and level(val)[0] > 1.25 * level(train)[0] > 0


def unstable(run: Run) -> str:
    """What speaks against a run of which nobody knows how much it learned: means that burst, or two losses that say nothing."""
    for name in (regime.VAL, regime.TRAIN):
        values, part = regime.curve(run, name).values, words(name.removeprefix("loss/"))
        if len(values) < FEW_EVALUATIONS or np.min(values) <= 0:
            continue
        usual, after = stats.running_median(values, 5), len(values) // 4
        high = after + int(np.argmax(values[after:] / usual[after:]))
        means = name == regime.VAL or regime.logged_by_epoch(run)  # a single batch may be a hard one
        lasting = level(values)[0] > 0.5 * usual[high]  # else it lost nothing: the run came to twice as good a place
        if means and lasting and values[high] > max(BURST * usual[high], 0.5 * values[0]):  # most of what was gained is gone
            return f"the {part} loss burst to {values[high]:.4g} after {usual[high]:.4g}"
        blown = values[0] > BLOWN * usual[-1] and not fell(values[values < math.sqrt(BLOWN) * usual[-1]])
        if blown and len(regime.curve(run, regime.VAL)) < FEW_EVALUATIONS:
            return f"the {part} loss was {values[0]:.4g} at first and is {usual[-1]:.4g}"
    return "" if regime.finetune(run) else side_by_side.doubt(run) or still(run)


def still(run: Run) -> str:
    """The means of training loss did nothing for two thirds of the run, as those of a constant answer."""
    values = regime.curve(run).values
    if regime.finetune(run) or by_heart(run) or not regime.logged_by_epoch(run):
        return ""
    if len(values) < CLEAN_EVALUATIONS or not stands(values):
        return ""
    return f"the training loss is {level(values)[0]:.4g} and was so for two thirds of the run"


def absurd(run: Run) -> str:
    """The loss of a classifier that costs more than any guess, whatever the number of answers."""
    losses = {n: v for n in (regime.VAL, regime.TRAIN) if len(v := regime.curve(run, n).values) >= LEAST_EVALUATIONS}
    found = {n: level(v)[0] for n, v in losses.items()}
    name = min(found, key=lambda n: found[n]) if found else ""
    above = bool(found) and found[name] > ABSURD and regime.plain_loss(run)
    return f"the {words(name.removeprefix('loss/'))} loss is {found[name]:.4g}, more than any guess costs" if above else ""


def exploded(run: Run) -> str:
    """The training loss ends far above where it began, and above what a constant answer costs."""
    values = regime.curve(run).values
    if len(values) < 3 or regime.curriculum(run):
        return ""
    first, (now, tail) = start(run), level(values)
    known = chance.chance(run)
    limit = max(first + 0.5 * abs(first), known.loss if known is not None else -math.inf)
    above = max(now - 3 * noise(values) / math.sqrt(tail), float(np.min(values[-max(3, len(values) // 3) :]))) > limit
    return f"the training loss rose from {first:.4g} to {now:.4g}" if above else ""


def lost_again(run: Run) -> str:
    """A third of what training had gained is gone, and of what validation had gained, in its loss or in every metric."""
    both = side_by_side.pair(run)
    if both is None or regime.curriculum(run):
        return ""
    train, val = (way.values for way in both)
    scores = [m.series.values for m in metrics.metrics(run) if m.part == "val" and len(m.series) >= FEW_EVALUATIONS]
    if any(_lost(v) < 1 / 3 for v in (-train, *(scores or [-val]))):
        return ""
    return f"the training loss went from {float(np.min(train)):.4g} at best to {level(train)[0]:.4g}, and validation with it"


def _lost(values: Floats) -> float:
    """Which part of its gain a rising curve has lost again, beyond its noise."""
    now, tail = level(values)
    best = float(np.max(stats.running_median(values, 3)))
    gained = best - float(values[0])
    return (best - now - noise(values) / math.sqrt(tail)) / gained if gained > 0 else 0.0


def broken(run: Run) -> str:
    """The training loss is not finite at its end, and stays so."""
    series: Series = run.series(regime.TRAIN)
    bad = ~np.isfinite(series.values[-max(1, min(5, len(series) // 20)) :])
    return "the training loss is NaN or infinite at the end" if len(bad) and bool(bad.all()) else ""


def start(run: Run) -> float:
    """Where the loss began: the higher one of training and validation, whose first record often comes after an epoch."""
    found = [c.values for name in (regime.TRAIN, regime.VAL) if len(c := regime.curve(run, name)) >= 3]
    firsts = [max(float(v[0]), float(np.median(v[: max(1, min(5, len(v) // 20))]))) for v in found]
    alike = [f for f in firsts if f < 3 * abs(firsts[0])]  # a validation loss of another make is no measure
    return max(alike or firsts)


def enough(run: Run, evaluations: int, records: int) -> bool:
    tests = max([len(m.series) for m in metrics.metrics(run) if m.part != "train"] + [len(run.series(regime.VAL).finite())])
    trained = len(run.series(regime.TRAIN).finite())
    return tests >= evaluations or trained >= (evaluations if regime.logged_by_epoch(run) else records)


def words(part: str) -> str:
    return {"val": "validation", "test": "test", "train": "training"}[part]
