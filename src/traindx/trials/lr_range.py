"""Learning-rate range test: where on the scale of rates does the loss fall fastest, and where does it turn?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.errors import UsageError
from traindx.run import Run
from traindx.stats import theil_sen
from traindx.trial import Progress, Result, silent, trial
from traindx.trials import paste
from traindx.trials.task import Batch, Task, size_of, take

Floats = NDArray[np.float64]
Sweep = Callable[[Floats], tuple[Floats, Floats, Floats | None]]  # from rates to rates, losses, and losses of held batches
PLAIN_SNR = 10.0  # from here on one sweep is enough
SLOWER, BELOW = 2, 1000.0  # the second sweep has that many times the steps, from this far below the end of the first one on
BEYOND = 100.0  # … or to this far beyond it
LEAST_SNR = 5.0  # fall of the loss over its noise that needs no witness: shuffled labels reach 3.1
DOUBTFUL = 2.0  # below this there is nothing; between, batches that were not trained on must have fallen too
LEAST_FALL, SURE = 0.05, 4.0  # … by this share of their loss, and this many standard errors
EVERY, PROBES = 8, 4  # steps between looks at those batches, and how many they are
BOTTOM = 0.05  # share of the fall that counts as the bottom: a task that is learned stays there until the rate is too high
ONSET = 0.1  # share of the fall at which it has begun
FIRST = 10  # losses at the smallest rates: where the sweep starts, and how much batches differ
MOST_SPREAD = 30.0  # rates that the rules suggest may differ by this factor, no more
RACE = 3.0  # factor between rates that run against each other
LAPS = 2  # a racer makes that many times the steps of the sweep: the shorter the race, the hotter the rate that leads it
MOST_RACERS = 5
LEVEL, SURELY = 0.01, 2.0  # equally well: within this share of what the best has learned, or within so many standard errors
LONGER = 4.0  # a run is at least that many times as long as the race; its best constant rate falls with the root of its length
ADAPTIVE = ("Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Lion", "Adafactor", "SparseAdam", "Muon")


@trial("lr-range", steps=120, most=lambda t: (1 + SLOWER + LAPS * (MOST_RACERS + 1)) * t.steps)
@dataclass(frozen=True)
class LrRange:
    """Which learning rate to start with: a sweep of rates on real batches, read by three rules that must agree.

    It starts from the weights as they are, so it answers for this moment: blind to limits that come later in training and to
    schedules. A task that answers slowly is swept once more, slower, below the rate at which the first sweep ended. It refuses
    when the loss does not fall clearly more than it shakes. A sweep sees each rate for a moment only, so rates around
    its answer then race each other on the same batches. Of those that do equally well the lowest is halved, because a
    short race favours large steps. The best constant rate of a run falls with the root of its length, and yours is at
    least four times as long.
    """

    lo: float = 1e-7
    hi: float | None = None  # None: 1 for adaptive optimizers, 10 otherwise
    steps: int = 120

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Sweep, then read the curve."""
        if task.optimizer is None:
            raise UsageError("the range test sweeps the task's own optimizer; give Task(…, optimizer=…)")
        hi = self.hi or (1.0 if any(n in type(task.optimizer).__name__ for n in ADAPTIVE) else 10.0)
        if not 0 < self.lo < hi or self.steps < 30:
            raise UsageError(f"a range test needs 0 < lo < hi and at least 30 steps; got {self.lo:g}, {hi:g}, {self.steps}")
        now = max(float(g["lr"]) for g in task.optimizer.param_groups)
        return swept(lambda rates: self._sweep(task, rates, progress), self.lo, hi, self.steps, now)

    def _sweep(self, task: Task, rates: Floats, progress: Progress) -> tuple[Floats, Floats, Floats | None]:
        """Rates, losses, and the losses of batches that are not trained on, a row per look."""
        losses: list[float] = []
        probe = task.batches(PROBES, "val") or task.held[:PROBES]
        pool = task.batches(min(len(rates), 512))
        if not probe and len(pool) > 4 * PROBES:
            probe, pool = pool[-PROBES:], pool[:-PROBES]
        probe = _parts(probe)
        looks: list[list[float]] = []
        with task.twin() as twin:
            assert twin.optimizer is not None
            twin.model.train()
            base = [g["lr"] for g in twin.optimizer.param_groups]
            scale = [float(b) / max(float(x) for x in base) if max(map(float, base)) > 0 else 1.0 for b in base]
            for i, (rate, batch) in enumerate(zip(rates.tolist(), itertools.cycle(pool), strict=False)):
                if i % EVERY == 0:
                    looks.append([twin.probe([b]) for b in probe])
                for group, share in zip(twin.optimizer.param_groups, scale, strict=True):
                    group["lr"] = rate * share
                losses.append(twin.step(batch))
                progress(i + 1, len(rates), f"learning rate {rate:.1e}")
                if lost(losses):
                    break
        return rates[: len(losses)], np.array(losses), np.array(looks)


def _parts(probe: list[Batch]) -> list[Batch]:
    """Few large batches in parts: it takes several to tell how sure a fall is."""
    if not 0 < len(probe) < PROBES:
        return probe
    each = -(-PROBES // len(probe))
    sizes = [max(1, size_of(b) // each) for b in probe]
    return [take(b, n, i * n) for b, n in zip(probe, sizes, strict=True) for i in range(min(each, size_of(b)))]


def swept(sweep: Sweep, lo: float, hi: float, steps: int, now: float = 0.0) -> Result:
    """A sweep, and a slower one where the first says nothing or little, read as the result of a trial.

    The second lies below the end of the first, or beyond it where the loss still fell there. The task's own rate, `now`, races too.
    """
    rates, losses, held = sweep(np.geomspace(lo, hi, steps))
    reading, taken = read(rates, losses, held), len(rates)
    if reading.refused or reading.answer["snr"] < PLAIN_SNR:
        end = float(rates[-1])
        bounds = (end / 10, end * BEYOND) if reading.beyond else (max(lo, end / BELOW), end)
        slow = sweep(np.geomspace(*bounds, SLOWER * steps))
        again, taken = read(*slow, slow=not reading.beyond), taken + len(slow[0])
        if not again.refused or reading.refused:
            rates, losses, reading = slow[0], slow[1], again
    if not reading.refused:
        reading, raced = _race(sweep, reading, LAPS * steps, now)
        taken += raced
    return _result(rates, losses, reading, taken)


def _race(sweep: Sweep, reading: Reading, steps: int, now: float) -> tuple[Reading, int]:
    """Let constant rates around the answer run against each other and put the winner in its place; also the steps it took.

    The winner is the lowest of those that do as well as the best. The rate to start with lies below it (`LONGER`); a peak that is
    left again soon may be as high as the winner.
    """
    answer = reading.answer
    raced: dict[float, Floats] = {}  # the loss at the end, batch by batch; infinite where it broke on the way
    learned: dict[float, float] = {}

    def heat(rate: float) -> None:
        _, losses, held = sweep(np.full(steps, rate))
        seen = losses if held is None or held.ndim != 2 or held.shape[1] < 2 else held  # what was not trained on knows better
        last = seen[-max(len(seen) // 3, 1) :]
        raced[rate] = last if seen is losses else last.mean(axis=0)
        if lost(losses.tolist()) or not np.isfinite(raced[rate]).all():
            raced[rate] = np.full_like(raced[rate], np.inf)
        learned[rate] = float(np.median(seen[:3]) if seen is losses else seen[0].mean()) - float(raced[rate].mean())

    def run(rate: float) -> bool:
        """Whether it does better than those before it, or all of them broke; never beyond the rate at which the sweep turned."""
        if len(raced) >= MOST_RACERS or rate > answer["min_lr"]:
            return False
        best = min((float(y.mean()) for y in raced.values()), default=math.inf)
        heat(rate)
        return float(raced[rate].mean()) < best or math.isinf(best)

    rate = start = answer["start_lr"]
    if run(rate) and learned[start] > -math.inf:
        while run(rate * RACE):
            rate *= RACE
    if rate == start:
        while run(rate / RACE):
            rate /= RACE
    taken = len(raced) * steps
    answer["raced"] = {f"{r:.3g}": float(y.mean()) for r, y in sorted(raced.items())}
    ended = {r: y for r, y in raced.items() if learned[r] > 0}
    if not ended:
        told = f"{min(raced):.2g} to {max(raced):.2g}"
        return Reading(answer, f"rates that look right for a moment ({told}) have learned nothing after {steps} updates"), taken
    best = min(ended, key=lambda r: float(ended[r].mean()))
    won = min(r for r, y in ended.items() if _level(y, ended[best], learned[best]))
    over = min((r for r in raced if r > best and r not in ended), default=math.inf)
    top = (
        math.inf if math.isinf(over) else max(r for r in ended if r < over)
    )  # nothing hotter is recommended, not even in passing
    low, high = answer["interval"]
    answer["won"], answer["start_lr"] = won, won / math.sqrt(LONGER)
    answer["fastest"] = best  # for a run as short as the race
    answer["max_lr"] = min(max(answer["max_lr"], won), top)
    answer["interval"] = [min(low, answer["start_lr"]), min(max(high, won), top)]
    if now > 0:  # last, so that it cannot change what is recommended
        heat(now)
        taken += steps
        answer |= {"now": now, "now_learned": max(learned[now], 0.0) / learned[best]}
    return Reading(answer), taken


def _level(losses: Floats, best: Floats, learned: float) -> bool:
    """Whether a run does as well as the best one: both were asked for the same batches, so each is compared with itself."""
    if len(losses) != len(best):
        return False
    apart = losses - best
    error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
    return float(apart.mean()) <= max(LEVEL * max(learned, 0.0), SURELY * error)


def _result(rates: Floats, losses: Floats, reading: Reading, taken: int) -> Result:
    curves = {"trial/lr": rates, "trial/loss": losses}
    if len(losses) > 5 and np.isfinite(losses).all():
        curves["trial/smoothed"] = smooth(losses)
    run = Run.of(curves, kind="trial")
    if reading.refused:
        return Result("lr-range", "refused", reading.answer, reading.refused, run, taken)
    a = reading.answer
    low, high = a["interval"]
    a["code"] = paste.schedules(a["start_lr"], a["max_lr"])
    said = f"start with {a['start_lr']:.2g} (between {low:.2g} and {high:.2g})"
    if len(a.get("raced", ())) > 1:
        said += f"; of {len(a['raced'])} rates that ran on the same batches {a['won']:.2g} was the lowest that no other beats, "
        said += f"and a longer run wants less; for a run of only a few hundred updates take {a['fastest']:.2g}"
    if "now" in a:
        said += (
            f"; yours, {a['now']:.2g}, learns {a['now_learned']:.0%} of what the best does"
            if a["now_learned"]
            else (f"; yours, {a['now']:.2g}, learns nothing")
        )
    return Result("lr-range", "done", a, said, run, taken)


def lost(losses: list[float]) -> bool:
    """The sweep is over when the loss is gone for good; differences only, so losses below zero are fine."""
    now, best = losses[-1], min(losses)
    if not math.isfinite(now):
        return True
    if len(losses) < FIRST + 3:
        return False
    # one batch may be the easiest of all: the start is the middle of the first losses, their spread is what batches differ by
    first, top = float(np.median(losses[:FIRST])), max(losses[:FIRST])
    spread = top - min(losses[:FIRST])
    recent = float(np.median(losses[-3:]))
    return recent > top + 3 * max(first - best, spread, 0.05 * abs(first), 1e-12)


@dataclass(frozen=True)
class Reading:
    """What a sweep says: the answer, or why there is none."""

    answer: dict[str, Any]
    refused: str = ""
    beyond: bool = False  # the loss still fell at the largest rate


def read(rates: Floats, losses: Floats, held: Floats | None = None, slow: bool = False) -> Reading:
    """Read a sweep: `steep`, `min/10` and `valley` must agree.

    The start lies between their lowest and their middle, because a rate that is too high costs more than one that is too low.
    A loss that only a `slow` sweep brings down answers late, so `steep` and `valley` lie too high: there the lowest
    counts. A slow sweep has time to memorise, so batches that were not trained on must have fallen too, where there are
    any.
    """
    keep = np.isfinite(losses)
    rates, losses = rates[keep], losses[keep]
    if len(losses) < 20:
        return Reading({}, f"only {len(losses)} losses before the model broke: start the sweep at smaller rates")
    x, y = np.log10(rates), smooth(losses)
    noise = 1.4826 * float(np.median(np.abs(np.diff(losses[: max(12, len(losses) // 4)])))) / math.sqrt(2) + 1e-12
    fall = float(np.median(y[: max(3, len(y) // 10)]) - y.min())
    low = int(np.flatnonzero(y <= y.min() + BOTTOM * max(fall, 0.0))[-1])  # a flat bottom ends where the loss turns
    snr = fall / noise
    answer: dict[str, Any] = {"snr": snr, "min_lr": float(rates[low])}
    if snr < LEAST_SNR and not (snr > DOUBTFUL and held is not None and _witnessed(held)):
        return Reading(
            answer, f"the loss falls by {snr:.1f} times its noise only (needs {LEAST_SNR:g}): no learning signal to read"
        )
    if slow and held is not None and held.size and not _witnessed(held):
        return Reading(answer, "only the batches that were trained on are learned, others are not: no learning signal to read")
    if low <= 5:
        return Reading(answer, "the loss only rises: start the sweep at smaller rates")
    if low >= len(y) - 3 and len(losses) == len(keep):
        return Reading(answer, "the loss still falls at the largest rate: the minimum is beyond the sweep", beyond=True)
    found = {
        "steep": 10 ** steepest(x[: low + 1], y[: low + 1]),
        "min_tenth": rates[low] / 10,
        "valley": 10 ** valley(x[: low + 1], y[: low + 1], fall),
    }
    half = np.flatnonzero(y[low:] > y[low] + fall / 2)
    if len(half):
        found["div_tenth"] = rates[low + int(half[0])] / 10
    used = np.array([found[k] for k in ("steep", "min_tenth", "valley")])
    spread = float(used.max() / used.min())
    answer |= {k: float(v) for k, v in found.items()}
    if spread > MOST_SPREAD:
        return Reading(answer, f"the rules disagree by a factor of {spread:.0f}; repeat with more steps or a larger batch")
    lowest, middle = np.log(used.min()), np.median(np.log(used))
    answer |= {
        "start_lr": float(np.exp(lowest if slow else (lowest + middle) / 2)),
        "max_lr": float(found["steep"]),
        "interval": [float(used.min()), float(used.max())],
    }
    return Reading(answer)


def _witnessed(held: Floats) -> bool:
    """Whether batches that were not trained on fell clearly, each compared with itself: noise between batches plays no part."""
    if held.ndim != 2 or len(held) < 2 or held.shape[1] < 2:
        return False
    means = np.where(np.isfinite(held).all(axis=1), held.mean(axis=1), np.inf)
    fell = held[0] - held[int(np.argmin(means))]
    error = float(fell.std(ddof=1)) / math.sqrt(len(fell)) + 1e-12
    return bool(fell.mean() > LEAST_FALL * abs(float(held[0].mean())) and fell.mean() > SURE * error)


def smooth(losses: Floats, keep: float = 0.8) -> Floats:
    """Median of five, then a running mean from both sides: one from the left alone moves everything to larger rates.

    What lies far above the start is cut off, or a loss that blew up at the end would reach back over the way down.
    """
    padded = np.pad(losses, 2, mode="edge")
    medians = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    start = float(np.median(medians[: max(3, len(medians) // 10)]))
    medians = np.minimum(medians, start + max(start - float(medians.min()), abs(start)))
    found: Floats = (_running(medians, keep) + _running(medians[::-1], keep)[::-1]) / 2
    return found


def _running(values: Floats, keep: float) -> Floats:
    """A running mean without the bias of its start."""
    out, level = np.empty_like(values), 0.0
    for i, value in enumerate(values):
        level = keep * level + (1 - keep) * value
        out[i] = level / (1 - keep ** (i + 1))
    return out


def steepest(x: Floats, y: Floats, decades: float = 0.6) -> float:
    """The middle of the window of `decades` in which a robust line falls fastest."""
    best, where = 0.0, float(x[-1])
    for start in range(len(x)):
        window = (x >= x[start]) & (x <= x[start] + decades)
        if window.sum() < 4 or x[start] + decades > x[-1] + 1e-9:
            continue
        slope = theil_sen(y[window], x[window]).value
        if slope < best:
            best, where = slope, float(x[start]) + decades / 2
    return where


def valley(x: Floats, y: Floats, fall: float) -> float:
    """The middle of the way down: from where the fall has begun to the lowest point, wherever the sweep started."""
    first = float(np.median(y[: max(3, len(y) // 10)]))
    above = np.flatnonzero(y >= first - ONSET * fall)
    return float((x[above[-1] if len(above) else 0] + x[-1]) / 2)
