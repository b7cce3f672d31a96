"""Tails of Student's t and of counts: the few numbers of a statistics library that are needed here."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from traindx.stats.robust import as_floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)


def student_tail(t: float, freedom: float) -> float:
    """The probability that Student's t is above `t`: its density integrated, with t = √freedom · tan θ.

    >>> round(student_tail(2.228, 10), 4)
    0.025
    """
    if not freedom > 0 or math.isnan(t):
        return math.nan
    if t < 0:
        return 1 - student_tail(-t, freedom)
    low = math.atan(t / math.sqrt(freedom))
    high = math.pi / 2 if freedom < 100 else math.atan((t + 40) / math.sqrt(freedom))  # beyond it nothing is left
    theta = (high + low) / 2 + (high - low) / 2 * _NODES
    area = (high - low) / 2 * float(_WEIGHTS @ np.cos(theta) ** (freedom - 1))
    return area * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)


def student_quantile(p: float, freedom: float) -> float:
    """The t below which Student's t lies with probability `p`, by halving.

    >>> round(student_quantile(0.975, 10), 3)
    2.228
    """
    low, high = -1.0, 1.0
    while student_tail(low, freedom) < 1 - p:
        low *= 2
    while student_tail(high, freedom) > 1 - p:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > 1 - p else (low, middle)
    return (low + high) / 2


def greater(a: ArrayLike, b: ArrayLike) -> float:
    """p of Welch's t-test: is the mean of `a` above that of `b`?"""
    x, y = as_floats(a), as_floats(b)
    vx, vy = float(np.var(x, ddof=1)) / len(x), float(np.var(y, ddof=1)) / len(y)
    if not vx + vy > 0:
        return math.nan
    freedom = (vx + vy) ** 2 / (vx**2 / (len(x) - 1) + vy**2 / (len(y) - 1))
    return student_tail((float(x.mean()) - float(y.mean())) / math.sqrt(vx + vy), freedom)


def at_least_each(total: int, marked: int, drawn: int) -> NDArray[np.float64]:
    """For every k: the probability that at least k of `drawn` out of `total` are among the `marked` (Fisher's exact test).

    >>> float(at_least_each(10, 4, 3)[3].round(4))
    0.0333
    """
    ways = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    chance = np.zeros(drawn + 1)
    hits = np.arange(max(0, drawn + marked - total), min(marked, drawn) + 1)
    taken, left = ways[marked] - ways[hits] - ways[marked - hits], total - marked - drawn + hits
    rest = ways[total - marked] - ways[drawn - hits] - ways[left]
    chance[hits] = np.exp(taken + rest - (ways[total] - ways[drawn] - ways[total - drawn]))
    return np.asarray(np.minimum(chance[::-1].cumsum()[::-1], 1.0))


def most_expected(count: float, deviations: float = 1.6449) -> float:
    """The largest mean that a Poisson count allows, at 95 %: half a χ² quantile, by Wilson and Hilferty's cube.

    >>> round(most_expected(0), 1)
    3.0
    """
    freedom = 2 * count + 2
    return freedom / 2 * (1 - 2 / (9 * freedom) + deviations * math.sqrt(2 / (9 * freedom))) ** 3
