"""Training and validation loss side by side: what they show where no metric and no constant answer is known.

Whatever is learned from the inputs sooner or later fits the trained samples better than others, and it is never learned at one
speed. A constant answer costs the same on both, and once it is found both stand. On sweeps of small trainings (bench/sweeps.py)
these signs name seven of eight runs at chance by their losses alone, and 2 % of those that learned.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from traindx import regime
from traindx.course.curves import second_fall
from traindx.run import Floats, Run, Series

EVALUATIONS = 12  # fewer do not show one speed from two
LITTLE, STANDING, EVEN = 0.12, 0.05, 0.02  # parts of a level: no visible fall, nothing at all in two thirds of a run, alike
JUMPS, LEAPS, CLEAR_GAP = 0.25, 0.54, 0.15  # scatter of one evaluation, in parts of its level; of what validation costs more
HARDLY = 0.03  # a fall of an error metric that does not count
ERRORS = {"mae", "mse", "rmse", "absolute", "squared", "deviance"}  # words in the names of errors that have a unit
SMOOTH, SHAKY = 0.01, 0.15  # scatter of a curve that has none; one that shows no speeds
BURST, BLOWN, BLOWN_SURELY = 0.5, 7.0, 11.5  # e-folds of the training loss: a fall worth the name; a thousand times; 100,000
BURST_AGAIN = 5.0  # times the first mean: no training that gets on comes by there


@dataclass(frozen=True)
class Way:
    """How a curve of means came to its end: in parts of its level, or of its whole fall where the scale has no zero."""

    values: Floats
    scaled: Floats
    whole: float  # from the first record to the end
    late: float  # in the last two thirds
    scatter: float  # of one record, in the last two thirds

    @property
    def third(self) -> float:
        return self.late + self.end

    @property
    def end(self) -> float:
        return float(np.median(self.scaled[-3:]))

    @property
    def rise(self) -> float:
        """From the lowest of the first quarter to the end, less what its scatter explains."""
        return self.end - float(np.min(self.scaled[: len(self.scaled) // 4])) - 2 * self.scatter / math.sqrt(3)

    def nothing(self, fell: float, most: float) -> bool:
        """Whether a fall is small, and no more than its own scatter."""
        return fell <= most and fell <= max(0.1 * most, 3 * self.scatter)

    @property
    def ends(self) -> tuple[float, float]:
        return float(self.values[0]), float(np.median(self.values[-3:]))


def way(values: Floats, scaled: Floats) -> Way:
    """What a curve did.

    >>> falls = np.arange(12) / 10
    >>> round(way(np.exp(-falls), -falls).late, 2)
    0.6
    """
    third = len(scaled) // 3
    end, then = float(np.median(scaled[-3:])), float(np.median(scaled[third - 1 : third + 2]))
    scatter = float(np.std(np.diff(scaled[third:]))) / math.sqrt(2)
    return Way(values, scaled, float(scaled[0]) - end, then - end, scatter)


def pair(run: Run) -> tuple[Way, Way] | None:
    """Training, as its mean since the evaluation before, and validation; None where there are too few."""
    train, val = regime.curve(run), regime.curve(run, regime.VAL)
    until = np.searchsorted(train.steps, val.steps, side="right")
    since = np.concatenate([[0], until[:-1]])
    there = until > since
    if int(there.sum()) < EVALUATIONS:
        return None
    sums = np.concatenate([[0.0], np.cumsum(train.values)])
    means = (sums[until] - sums[since])[there] / (until - since)[there]
    both = means, val.values[there]
    if regime.may_be_negative(run) or min(float(v.min()) for v in both) <= 0:
        fall = max(abs(float(v[0] - np.median(v[-3:]))) for v in both) or 1.0
        return way(both[0], both[0] / fall), way(both[1], both[1] / fall)
    return way(both[0], np.log(both[0])), way(both[1], np.log(both[1]))


def doubt(run: Run) -> str:
    """Why the two losses rather speak of a constant answer, or of a run out of hand; empty if they do not."""
    found = pair(run)
    if found is None:
        return ""
    train, val = found
    above, wider = val.end - train.end, (val.end - train.end) - (val.third - train.third)
    (first, now), (began, stands) = val.ends, train.ends
    unscaled = regime.may_be_negative(run)
    jumps = val.whole < 4 * val.scatter and (val.scatter > LEAPS or (val.scatter > JUMPS and above < CLEAR_GAP))
    if jumps or min(train.scatter, val.scatter) > LEAPS:
        return f"the validation loss jumps between {np.min(val.values[-6:]):.4g} and {np.max(val.values[-6:]):.4g}"
    at_once = train.whole > BLOWN and train.scaled[0] - train.scaled[1] > BLOWN / 2 and val.late < 2.0  # and no further
    if at_once or (not unscaled and train.whole > BLOWN_SURELY and stands > 1):
        return f"the training loss was {began:.4g} at first and is {stands:.4g}: it had blown up"
    if (high := float(np.max(train.values))) > BURST_AGAIN * began > 0:
        return f"the training loss was {began:.4g} at first and rose to {high:.4g} before it fell to {stands:.4g}"
    if min(train.rise, val.rise) > LITTLE:
        return f"training and validation loss ended at {stands:.4g} and {now:.4g}, clearly above where they were early on"
    little = above <= EVEN if train.whole > BURST else above <= CLEAR_GAP and train.whole <= LITTLE
    if little and val.whole <= LITTLE and not _two_speeds(val.values) and not _on_a_constant(val):
        return f"the validation loss was {first:.4g} at first and is {now:.4g}, hardly less"
    if train.whole > BURST and train.nothing(float(train.scaled[1]) - train.end, STANDING):
        return f"the training loss was {train.values[1]:.4g} after the first epoch and is {stands:.4g}"
    even = above <= EVEN or abs(wider) <= SMOOTH >= val.scatter
    most = STANDING / 3 if unscaled else STANDING
    if even and train.whole > BURST and train.nothing(train.late, most) and val.nothing(val.late, most):
        return f"training and validation loss were {stands:.4g} and {now:.4g} for two thirds of the run"
    ongoing = _fell_last(val) > LITTLE  # far from any end
    # a loss that may be negative has no scale on which a speed could be told
    if not unscaled and (ongoing or max(wider, above) <= EVEN) and _at_one_speed(train, val):
        return f"the loss fell evenly to {now:.4g}, as it does when only a constant answer is learned"
    return _error_stands(run)


def shaky(run: Run) -> bool:
    """Whether validation scatters too much, or rose too much, to show two speeds."""
    found = pair(run)
    return found is not None and (found[1].scatter > SHAKY or found[1].whole < 0)


def _fell_last(found: Way) -> float:
    """In the last third."""
    at = 2 * len(found.scaled) // 3
    return float(np.median(found.scaled[at - 1 : at + 2])) - found.end


def _at_one_speed(train: Way, val: Way) -> bool:
    """A smooth fall that neither goes on more slowly nor gets faster again."""
    return val.late > STANDING and val.scatter <= SMOOTH and not second_fall(val.values) and not _sets_in(train)


def _error_stands(run: Run) -> str:
    """An error of validation that was never lower than at first, by more than a few percent."""
    for name, values in errors(run, "val").items():
        if len(values) >= EVALUATIONS and 0 < values[0] < np.min(values) * (1 + HARDLY):
            return f"the validation {name} was {values[0]:.4g} at first and never lower than {np.min(values):.4g}"
    return ""


def errors(run: Run, part: str) -> dict[str, Floats]:
    """The metrics that count errors in a unit of their own: the lower the better, and nobody knows what is low."""
    found = {name.rsplit("/", 1)[-1]: s for name, s in run.matching(f"metric/{part}/*").items() if isinstance(s, Series)}
    return {name: s.finite().values for name, s in found.items() if ERRORS & set(re.findall(r"[a-z]+", name.lower()))}


def _two_speeds(values: Floats) -> bool:
    """Whether the fall has two speeds when it is measured by itself, as on top of a large constant."""
    fell = float(values[0] - values.min())
    return fell > 0 and second_fall(values - float(values.min()) + 0.5 * fell) > 0


def _on_a_constant(found: Way, share: float = 0.01) -> bool:
    """Whether it is a clear fall that slows down, on top of a constant that hides its size: it may be all there was."""
    fell, third = found.whole, len(found.scaled) // 3
    first = float(found.scaled[0] - found.scaled[third])
    return 8 * found.scatter < fell <= share and first > 3 * _fell_last(found)


def _sets_in(found: Way) -> bool:
    """Whether the fall gets clearly faster after it had been slower: something else is learned now."""
    speed = -np.diff(np.convolve(found.scaled, np.ones(3) / 3, "valid"))
    faster = max(float(speed[i:].max() - speed[:i].min()) for i in range(2, len(speed) - 1))
    return faster > 4 * found.scatter + 4e-4
