"""Did a condition last? Exact facts fire at once, everything else on K of the last M looks (CATALOGUE 1.5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from traindx.stats.robust import block_means, kendall
from traindx.stats.trend import block_theil


def k_of_m(flags: ArrayLike, k: int = 3, m: int = 5) -> bool:
    """Whether at least k of the last m looks (fewer looks: of all of them) hit, the last one among them.

    >>> k_of_m([True, False, True, True]), k_of_m([True, True, True, False])
    (True, False)
    """
    hits = np.asarray(flags, dtype=bool)
    return bool(len(hits) and hits[-1] and np.count_nonzero(hits[-m:]) >= k)


def longest(flags: ArrayLike) -> tuple[int, int]:
    """First and last index of the longest unbroken stretch of hits; (0, -1) when there is none.

    >>> longest([False, True, True, False, True])
    (1, 2)
    """
    hits = np.asarray(flags, dtype=bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], hits, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, -1
    starts, ends = edges[::2], edges[1::2] - 1
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best])


def last_stretch(flags: ArrayLike) -> int:
    """How many hits in a row the series ends with.

    >>> last_stretch([True, False, True, True])
    2
    """
    hits = np.asarray(flags, dtype=bool)
    misses = np.flatnonzero(~hits)
    return len(hits) - 1 - int(misses[-1]) if len(misses) else len(hits)


def rising(values: ArrayLike, alpha: float = 0.02) -> bool:
    """Whether the finite values go up: a slope that may be claimed (CATALOGUE 2.3), or nearly every step upwards.

    The second way is for curves that bend: their residuals around a line hang together, which widens its interval.

    >>> rising([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), rising([1.0, 2.0, 1.0, 2.0, 1.0, 2.0])
    (True, False)
    """
    found = np.asarray(values, dtype=np.float64)
    found = found[np.isfinite(found)]
    if len(found) < 4:
        return False
    means = block_means(found, 12)[1]
    # ranks of 12 blocks agree by .8 with time once in thousands of pure noise; for fewer points all must agree
    return bool(block_theil(found, alpha=alpha).lo > 0) or kendall(means) >= (0.8 if len(means) >= 8 else 1.0)


def finite_median(values: ArrayLike) -> float:
    """Median of the finite values; NaN for nothing.

    >>> finite_median([1.0, float("nan"), 3.0])
    2.0
    """
    found = np.asarray(values, dtype=np.float64)
    found = found[np.isfinite(found)]
    return float(np.median(found)) if len(found) else float("nan")
