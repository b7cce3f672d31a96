"""Levels with a meaning: the values at which a loss sits when a model ignores its input, and the gradient noise scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from traindx.stats.robust import as_floats


@dataclass(frozen=True)
class FloorMatch:
    """A level that agrees with a known constant; `chance` is how likely a level in the range would by accident."""

    name: str
    value: float
    gap: float
    tolerance: float
    chance: float


def known_floors(
    classes: int | None = None,
    prior: Sequence[float] | None = None,
    smoothing: float = 0.0,
    batch: int | None = None,
    target_var: float | None = None,
    target_mad: float | None = None,
    binary: bool = False,
    margin: float | None = None,
) -> dict[str, float]:
    """The levels with a meaning for what is known of the loss (CATALOGUE 2.9).

    >>> round(known_floors(classes=10)["softmax-twice"], 4)
    1.4612
    """
    out: dict[str, float] = {}
    if classes is not None and classes >= 2:
        out["uniform"] = math.log(classes)
        out["softmax-twice"] = math.log(math.e + classes - 1) - 1
        if smoothing > 0:
            out["smoothing"] = smoothing_entropy(smoothing, classes)
    if prior is not None:
        p = as_floats(prior)
        p = p[p > 0] / p.sum() if p.sum() > 0 else p[:0]
        if len(p) > 1:
            out["prior"] = float(-(p * np.log(p)).sum())
    if binary:
        out["undecided"] = math.log(2)
    if batch is not None and batch >= 2:
        out["contrastive-uniform"] = math.log(batch)
        out["contrastive-uniform-pairs"] = math.log(2 * batch - 1)
    for name, value in (("target-variance", target_var), ("target-deviation", target_mad), ("margin", margin)):
        if value is not None and value > 0:
            out[name] = float(value)
    return out


def smoothing_entropy(smoothing: float, classes: int) -> float:
    """Entropy of a smoothed one-hot target: the lowest cross-entropy there is.

    >>> round(smoothing_entropy(0.1, 10), 4)
    0.5003
    """
    rest = smoothing / classes
    top = 1 - smoothing + rest
    return -(top * math.log(top) + (classes - 1) * rest * math.log(rest)) if 0 < smoothing < 1 else 0.0


def floor_match(level: float, se: float, floors: Mapping[str, float], loose: float = 0.005) -> list[FloorMatch]:
    """The floors within max(3·SE, .5 %) of a level, nearest first; never further than 5 %, however noisy the curve is.

    >>> floor_match(3.266, 1.0, {"uniform": 2.485})
    []
    """
    found: list[FloorMatch] = []
    top = max([abs(level), *map(abs, floors.values()), 1e-12])
    for name, value in floors.items():
        tolerance = max(_error(se, value), loose * abs(value))
        gap = level - value
        if abs(gap) <= tolerance:
            found.append(FloorMatch(name, value, gap, tolerance, min(1.0, 2 * tolerance * len(floors) / top)))
    return sorted(found, key=lambda m: abs(m.gap) / max(m.tolerance, 1e-300))


COMMON_SIZES = (100, 1000, 10_000, 21_841, 30_522, 32_000, 32_128, 49_152, 50_257, 50_304, 65_536, 100_277, 128_256, 151_936)


def _error(se: float, level: float, most: float = 0.05) -> float:
    """Three standard errors, up to a share of the level: what is further away is not the same number."""
    return min(3 * se, most * abs(level)) if math.isfinite(se) else 0.0


def integer_chance(level: float, se: float, most: int = 12) -> tuple[int, float] | None:
    """The number of classes whose ln this level equals, and how likely a level would match some such number by accident.

    Up to `most` every number counts, beyond only the usual sizes of data sets and vocabularies.

    >>> integer_chance(2.3025, 0.0)[0]
    10
    """
    if not 0.5 < level < 13:
        return None
    tolerance = max(_error(se, level), 0.002 * level)
    sizes = [*range(2, most + 1), *COMMON_SIZES]
    nearest = min(sizes, key=lambda k: abs(level - math.log(k)))
    gap = abs(level - math.log(nearest))
    if gap > tolerance:
        return None
    density = nearest if nearest <= most else 1.0  # matches per unit of level near here: ln K are 1/K apart
    return nearest, min(1.0, 2 * density * max(gap, 2 * se if math.isfinite(se) else 0.0, 5e-4 * level))


@dataclass(frozen=True)
class NoiseScale:
    """B_noise with its jackknife interval; `value` is None when |G|² came out negative and only a bound is honest."""

    value: float | None
    lo: float
    hi: float
    gradient_sq: float
    noise: float
    draws: int


def gns(small_sq: ArrayLike, big_sq: ArrayLike, b: float, big: float) -> NoiseScale:
    """Gradient noise scale from squared norms at batch b and B, averaged apart (CATALOGUE 2.14)."""
    s, g = as_floats(small_sq), as_floats(big_sq)
    n = len(s)
    if n == 0 or big <= b:
        return NoiseScale(None, 0.0, math.inf, math.nan, math.nan, n)

    def parts(mean_small: float, mean_big: float) -> tuple[float, float]:
        return (big * mean_big - b * mean_small) / (big - b), (mean_small - mean_big) / (1 / b - 1 / big)

    signal, noise = parts(float(s.mean()), float(g.mean()))
    if n < 3:
        return NoiseScale(noise / signal if signal > 0 else None, 0.0, math.inf, signal, noise, n)
    left = [parts((s.sum() - x) / (n - 1), (g.sum() - y) / (n - 1)) for x, y in zip(s, g, strict=True)]
    se_signal = math.sqrt((n - 1) / n * sum((a - np.mean([p[0] for p in left])) ** 2 for a, _ in left))
    reach = 1.645 + 1.52 / (n - 1)  # Student's 95 % point, to first order
    top = signal + reach * se_signal
    if signal <= 0 or signal < se_signal:
        return NoiseScale(None, max(0.0, noise / top) if top > 0 else 0.0, math.inf, signal, noise, n)
    ratios = np.log([max(q, 1e-300) / p if p > 0 else np.inf for p, q in left])
    value = noise / signal
    if not np.isfinite(ratios).all() or value <= 0:
        return NoiseScale(value if value > 0 else None, max(0.0, noise / top), math.inf, signal, noise, n)
    se = math.sqrt((n - 1) / n * float(((ratios - ratios.mean()) ** 2).sum()))
    return NoiseScale(value, value * math.exp(-reach * se), value * math.exp(reach * se), signal, noise, n)
