"""Where a curve that had fallen was lost for good."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from traindx.stats.robust import as_floats, median, noise_sigma, trailing_median

_LEAST = 20  # points
_LOST = 0.5  # of what had been gained: ending above this is no noise and no excursion
_SIGMAS = 6.0


def last_good(y: ArrayLike) -> int | None:
    """The index of the last point before a curve that had fallen rose for good; None where it never fell, or did not rise.

    A point counts as good while it stays within the noise above the best level so far. What is not finite is above all.

    >>> last_good([4.0, 3.0, 2.5, 2.2] + [2.0] * 20 + [9.0, 50.0, float("nan")])
    23
    >>> last_good([4.0, 3.0, 2.5, 2.2] + [2.0] * 30) is None
    True
    """
    values = as_floats(y)
    if len(values) < _LEAST:
        return None
    seen = np.where(np.isfinite(values), values, np.inf)
    few = max(3, len(seen) // 100)
    start, end = median(seen[:few]), median(seen[-few:]) if np.isfinite(seen[-1]) else np.inf
    level = trailing_median(np.minimum(seen, 1e300), max(5, few))
    best = float(level.min())
    sound = seen[: int(np.argmin(level)) + 1]
    noise = noise_sigma(sound[np.isfinite(sound)])
    noise = noise if np.isfinite(noise) else 0.0
    if not np.isfinite(start) or start - best <= _SIGMAS * noise or end <= best + _LOST * (start - best):
        return None
    floor = np.minimum.accumulate(level)
    allowed = floor + np.maximum(_SIGMAS * noise, 0.1 * (start - floor))
    good = np.flatnonzero(seen <= allowed)
    return int(good[-1]) if len(good) else None
