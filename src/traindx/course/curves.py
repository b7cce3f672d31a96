"""What one curve did, as numbers alone: where it stands, how it scatters, whether it still rises, how it came here."""

from __future__ import annotations

import math

import numpy as np

from traindx import stats
from traindx.regime.curves import noise_of
from traindx.run import Floats


def level(values: Floats) -> tuple[float, int]:
    """The level at the end, and of how many records."""
    tail = max(1, min(30, len(values) // 8))
    return float(np.median(values[-tail:])), tail


def noise(values: Floats) -> float:
    """Of one record, in the second half: a burst at the start is no noise; and never less than what rounding hides."""
    late = values[-max(8, len(values) // 2) :]
    levels = np.unique(late)
    rounding = float(np.min(np.diff(levels))) if 1 < len(levels) < len(late) / 3 else 0.0
    return max(noise_of(late), rounding)


def rises(values: Floats) -> bool:
    """Whether the last third still goes up, by more than its noise and by a visible part of the whole way."""
    n = len(values)
    if n < 4:
        return False
    third = values[-max(4, n // 3) :]
    half = len(third) // 2
    gain = float(np.median(third[-half:]) - np.median(third[:half]))
    return gain > max(2.5 * noise(values) / math.sqrt(half), 0.02 * float(np.ptp(values)))


def second_fall(values: Floats, part: float = 0.1, slower: float = 2.0) -> float:
    """Which part of its level a curve lost at less than half of the speed it had before; 0 where it had one speed only.

    The way to a constant answer has one speed and then an end. What comes after it, more slowly, is learned from the inputs.

    >>> t = np.arange(40)
    >>> second_fall(1 + 5 * np.exp(-t / 4)), second_fall(0.2 + 0.8 * np.exp(-t / 9) + 5 * np.exp(-t)) > 0.5
    (0.0, True)
    """
    means = stats.block_means(values, 60)[1] if len(values) > 60 else values
    low, error = np.minimum.accumulate(means), noise(means)
    now = level(low)[0]
    fell, most, fastest = low - now, 0.0, math.inf
    quiet = len(values) > len(means) or error < max(0.1 * abs(now), 0.02 * float(fell[0]))  # a mean of an epoch should be
    for i in range(len(fell) - 2 if quiet else 0):
        if fell[i] <= max(part * abs(low[i]), 4 * error):
            break
        time = max(_time(fell[i:]), 1.0)
        if time > slower * fastest:
            most = max(most, float(fell[i] / abs(low[i])))
        fastest = min(fastest, time)
    return most


def _time(fell: Floats, share: float = 0.4) -> float:
    """After how many records this share of a fall is done."""
    left = (1 - share) * float(fell[0])
    at = int(np.argmax(fell <= left))
    return at - 1 + (float(fell[at - 1]) - left) / (float(fell[at - 1]) - float(fell[at])) if at else 0.0


def stands(values: Floats, little: float = 0.02, quiet: float = 0.02) -> bool:
    """Whether a curve of positive means did nothing in its last two thirds, not even scatter.

    Whatever is learned from the inputs continues for longer, and scatters with every update.
    """
    late = values[len(values) // 3 :]
    if len(late) < 6 or np.min(late) <= 0:
        return False
    logs = np.log(late)
    if abs(float(logs[-1] - logs[0])) >= little or float(np.std(np.diff(logs))) >= quiet:
        return False
    fell = abs(float(values[0] - late[-1]))  # a loss with a large constant in it is still to its last digits, and learns
    return abs(float(late[-1] - late[0])) <= little * fell and float(np.std(np.diff(late))) <= quiet * fell


def rose(values: Floats, part: float = 0.03) -> bool:
    """Whether a curve ends above where it began, beyond its noise and by a visible part of its size."""
    gain, error = _gain(values, max(1, len(values) // 8))
    return gain > max(3 * error, part * abs(float(values[0])))


def fell(values: Floats) -> bool:
    """The same downwards. On top of a large constant no fall is a visible part: there it must be far beyond the noise."""
    gain, error = _gain(-values, max(1, min(5, len(values) // 8)))  # most may be learned within a few records
    return rose(-values) or gain > min(3.0 * noise(values), 4 * error)


def _gain(values: Floats, head: int) -> tuple[float, float]:
    """From the start to the level at the end, and the error of that level."""
    now, tail = level(values)
    return now - float(np.median(values[:head])), noise(values) / math.sqrt(tail)


def far_from_its_end(values: Floats, part: float = 0.3) -> bool:
    """Whether a curve fell by a third at most, and in its second half as much as in its first: no end is in sight."""
    first, middle, now = (float(v) for v in (values[0], values[len(values) // 2], level(values)[0]))
    fell = first - now
    return 0 < fell < part * abs(first) and middle - now > 0.4 * fell and noise(values) < 0.2 * fell
