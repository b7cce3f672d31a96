"""How far a run ends from its baselines in one signal: the change, its interval, and one word for both.

The page, the rows and the exit code of a comparison all come from here, so they cannot disagree.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from traindx.run import Floats, Run, Series
from traindx.stats import autocorrelation
from traindx.stats.tails import student_quantile

ONE_SIDED = 0.99  # an interval is wrong in one case of a hundred on either side
MARGIN = 0.1  # "same" needs an interval inside it; a collapse beyond it fails a build even where nobody can tell
RESOLUTION = 0.001  # of the level: evaluations that repeat to the digit are still no finer than a sample in a thousand
BLOCKS = 40  # a long curve is cut into so many
ENOUGH = 8  # blocks from which on their own correlation can be measured
SLOWER = 0.5  # other load of the same machine explains steps that take up to half as long again
LARGER = 0.25  # other allocation of the same program explains up to a quarter more memory
RESOURCES = {"time/step": SLOWER, "mem/peak": LARGER, "mem/allocated": LARGER, "mem/rss": LARGER}


@dataclass(frozen=True)
class Effect:
    """Where run B ends in one signal, seen from its baselines."""

    signal: str
    outcome: str  # same, better, worse, cannot-tell
    change: float  # (B - A) / |A| over the last part of the steps both have
    low: float  # the interval of that change
    high: float
    a: float
    b: float
    points: int  # evaluations or blocks of steps it rests on
    higher_is_better: bool = False

    @property
    def told(self) -> bool:
        """Whether the runs were told apart in it."""
        return self.outcome in ("better", "worse")

    @property
    def worse_by(self) -> float:
        """The change in the direction that is worse."""
        return -self.change if self.higher_is_better else self.change


@dataclass(frozen=True)
class _Part:
    """The last part of one baseline next to run B."""

    change: float
    error: float  # half the width of its interval
    a: float
    b: float
    points: int


def quality(baselines: Sequence[Run], run: Run, tolerance: float) -> list[Effect]:
    """Every validation measure that all have, else the training loss.

    A single baseline from another start does not show what a seed does. Unless a tolerance says which change counts, one
    within MARGIN is then not told from it.
    """
    higher = {"accuracy/val": True}
    for told in [r.fact("metrics.direction") for r in (*baselines, run)]:
        higher |= {k: v == "up" for k, v in (told if isinstance(told, dict) else {}).items() if k.startswith("metric/val/")}
    for names in (("loss/val", *sorted(higher)), ("loss/train",)):
        pairs = [(n, [r.series(n) for r in baselines], run.series(n)) for n in names]
        found = [_judged(n, a, b, higher.get(n, False), tolerance) for n, a, b in _once(pairs) if len(b) and all(map(len, a))]
        if not all(_same_losses(r, run) for r in baselines):  # then one evaluation that agrees may be a coincidence
            found = [replace(e, outcome="cannot-tell", low=-math.inf, high=math.inf) if e.points == 1 else e for e in found]
        if found and (tolerance or len(baselines) > 1 or same_start(baselines[0], run)):
            return found
        if found:
            return [replace(e, outcome="cannot-tell") if e.told and abs(e.change) <= MARGIN else e for e in found]
    return []


def _once(pairs: Iterable[tuple[str, list[Series], Series]]) -> Iterator[tuple[str, list[Series], Series]]:
    """Without the measures that another one repeats: a logged accuracy is kept by its own name, too."""
    seen: list[Series] = []
    for name, baselines, run in pairs:
        if not any(np.array_equal(run.steps, s.steps) and np.array_equal(run.values, s.values, equal_nan=True) for s in seen):
            yield name, baselines, run
        seen.append(run)


def same_start(a: Run, b: Run) -> bool | None:
    """Whether the first training losses are equal to the bit; None where there are none to compare."""
    one, two = a.series("loss/train"), b.series("loss/train")
    if not len(one) or not len(two) or one.steps[0] != two.steps[0]:
        return None
    return bool(one.values[0] == two.values[0])


def _same_losses(a: Run, b: Run) -> bool:
    one, two = a.series("loss/train"), b.series("loss/train")
    return len(one) > 0 and np.array_equal(one.values, two.values, equal_nan=True)


def resources(baselines: Sequence[Run], run: Run, tolerance: float) -> list[Effect]:
    """Time and memory of a step, where the same kind of machine did the work."""
    if any(r.fact("device") != run.fact("device") for r in baselines):
        return []
    return [e for n, margin in RESOURCES.items() if (e := _cost(n, baselines, run, max(tolerance, margin)))]


def _paired(a: Series, b: Series) -> tuple[Floats, Floats]:
    """Both values where both have them; between the points of the denser one where they share too few steps."""
    common, ia, ib = np.intersect1d(a.steps, b.steps, return_indices=True)
    if 2 * len(common) >= min(len(a), len(b)):
        return a.values[ia], b.values[ib]
    sparse, dense = (a, b) if len(a) <= len(b) else (b, a)
    inside = (sparse.steps >= dense.steps[0]) & (sparse.steps <= dense.steps[-1])
    steps, own = sparse.steps[inside], sparse.values[inside]
    between = np.interp(steps, dense.steps, dense.values)
    return (own, between) if sparse is a else (between, own)


def _judged(name: str, baselines: Sequence[Series], run: Series, higher: bool, tolerance: float) -> Effect:
    parts = [_ends(a, run) for a in baselines]
    changes = [p.change for p in parts]
    change = float(np.mean(changes))
    error = math.sqrt(np.mean([p.error**2 for p in parts])) + _band(changes)
    if any(math.isnan(c) for c in changes):
        change, error = math.nan, math.inf
    a, b = (float(np.mean([getattr(p, which) for p in parts])) for which in "ab")
    low, high = change - error, change + error
    outcome = _word(low, high, higher, tolerance)
    if outcome == "cannot-tell" and len(parts) > 1 and min(changes) <= 0 <= max(changes):
        outcome = "same"  # between the baselines themselves
    if math.isfinite(a) != math.isfinite(b):  # one of them is no longer a number: worse than any
        outcome = "worse" if math.isfinite(a) else "better"
        change = math.inf if (outcome == "worse") is not higher else -math.inf
    return Effect(name, outcome, change, low, high, a, b, min(p.points for p in parts), higher)


def _word(low: float, high: float, higher: bool, tolerance: float) -> str:
    margin = max(tolerance, MARGIN)
    if low > tolerance or high < -tolerance:
        return "better" if higher is (low > tolerance) else "worse"
    return "same" if -margin <= low and high <= margin else "cannot-tell"


def _band(changes: Sequence[float]) -> float:
    """How far one more baseline could lie from these: a prediction interval. One baseline alone does not show it."""
    k = len(changes)
    return student_quantile(ONE_SIDED, k - 1) * float(np.std(changes, ddof=1)) * math.sqrt(1 + 1 / k) if k > 1 else 0.0


def _ends(a: Series, b: Series) -> _Part:
    """The last part of two curves, pair by pair."""
    if not len(a) or not len(b):
        return _Part(math.nan, math.inf, math.nan, math.nan, 0)
    x, y = _paired(a, b)
    if not len(x):  # no step in common: the last values, and no interval
        x, y = a.values[-1:], b.values[-1:]
    if not np.isfinite(x[-1]) or not np.isfinite(y[-1]):
        return _Part(math.nan, math.inf, float(x[-1]), float(y[-1]), 0)
    if np.array_equal(x, y, equal_nan=True):
        return _Part(0.0, 0.0, float(x[-1]), float(y[-1]), len(x))
    finite = np.isfinite(x) & np.isfinite(y)
    one, two = _last_blocks(x[finite]), _last_blocks(y[finite])
    level = abs(float(one.mean())) or abs(float(two.mean())) or 1.0
    error = _error(two - one, level, _grain(np.concatenate([x, y])))
    return _Part(float((two - one).mean()) / level, error, float(one.mean()), float(two.mean()), len(one))


def _grain(values: Floats) -> float:
    """What rounding hides: the deviation inside the smallest difference that the values show."""
    gaps = np.diff(np.unique(values[np.isfinite(values)]))
    return float(gaps.min()) / math.sqrt(12) if len(gaps) else 0.0


def _last_blocks(values: Floats) -> Floats:
    """Means of the blocks of the last part: a quarter of a long curve, the later half of a short one, at most four of it."""
    width = max(1, len(values) // BLOCKS)
    count = len(values) // width
    means: Floats = values[len(values) - count * width :].reshape(count, width).mean(axis=1)
    return means[-max(min(4, math.ceil(count / 2)), count // 4, min(2, count)) :]


def _error(d: Floats, level: float, grain: float = 0.0) -> float:
    """Half the interval of the mean of these differences, as a share of the level.

    Evaluations of one fixed set are no independent samples: their differences wander together, so a few of them are
    believed no more than one; of many the correlation is measured.
    """
    n = len(d)
    if n < 2:
        return math.inf
    free = 1.0
    if n >= ENOUGH:
        rho = min(max(autocorrelation(d), 0.0), 0.9)
        free = max(1.0, n * (1 - rho) / (1 + rho))
    spread = max(float(np.std(d, ddof=1)), RESOLUTION * level, grain)
    return student_quantile(ONE_SIDED, n - 1) * spread / math.sqrt(free) / level


def _cost(name: str, baselines: Sequence[Run], run: Run, margin: float) -> Effect | None:
    """Seconds or bytes of a step; the start of a run, where caches fill, is left out."""
    curves = [_settled(r.series(name)) for r in (*baselines, run)]
    if not all(len(c) for c in curves):
        return None
    few = any(len(c) < 4 for c in curves)  # too few for an interval, not for a number
    *levels, b = (float(np.median(c)) for c in curves)
    a = float(np.median(levels))
    if not all(c.min() > 0 for c in curves):
        return None
    errors = [math.inf if few else _error(np.log(c / np.median(c)), 1.0) for c in curves]
    factor = math.exp(math.hypot(max(errors[:-1]), errors[-1]) + _band([math.log(x) for x in levels]))  # load multiplies
    change, low, high = b / a - 1, b / a / factor - 1, b / a * factor - 1
    outcome = "cannot-tell"
    if low > margin or high < -margin:
        outcome = "worse" if change > 0 else "better"
    elif -margin <= change <= margin:
        outcome = "same"  # within what load and allocation explain
    return Effect(name, outcome, change, low, high, a, b, len(curves[-1]))


def _settled(series: Series) -> Floats:
    """Medians of ten blocks of what follows the first quarter."""
    values = series.finite().values
    rest = values[len(values) // 4 :]
    return np.array([np.median(part) for part in np.array_split(rest, max(1, min(10, len(rest)))) if len(part)])


def last_word(effects: Sequence[Effect], costs: Sequence[Effect]) -> tuple[str, tuple[Effect, ...]]:
    """One outcome for all, and the effects it rests on: a worse measure makes it worse, what cannot be told keeps it open."""

    def which(word: str, among: Sequence[Effect]) -> tuple[Effect, ...]:
        return tuple(sorted((e for e in among if e.outcome == word), key=lambda e: -abs(e.change)))

    if worse := which("worse", effects):
        return "worse", worse
    dearer = which("worse", costs)
    if better := which("better", effects):
        return ("different", (*better, *dearer)) if dearer else ("better", better)
    if dearer:
        return "worse", dearer
    dearer = tuple(e for e in which("cannot-tell", costs) if e.change > RESOURCES[e.signal])
    if open_ := (*which("cannot-tell", effects), *dearer):
        return "cannot-tell", tuple(sorted(open_, key=lambda e: -e.worse_by if e.worse_by == e.worse_by else 0.0))
    return ("same", tuple(effects)) if effects else ("cannot-tell", ())


def at_worst(effects: Sequence[Effect]) -> float | None:
    """The judged change in the direction that is worse. Time and memory whose interval holds no change at all have none."""
    return next((e.worse_by for e in effects if e.signal not in RESOURCES or e.low > 0 or math.isinf(e.high)), None)


def in_words(effect: Effect) -> str:
    """An effect in words: its change and the interval, or why there is none."""
    if math.isnan(effect.change):
        return f"{effect.signal} is not a number in either"
    if math.isinf(effect.change):
        return f"{effect.signal} is no longer a number in {'B' if effect.outcome == 'worse' else 'A'}"
    if effect.change == 0 == effect.high:
        return f"{effect.signal} is equal to the bit"
    change = f"{effect.signal} {effect.change:+.1%}"
    if math.isinf(effect.high):
        return f"{change} from {'one evaluation' if effect.points <= 1 else 'too few values'}, which has no interval"
    return f"{change} ({effect.low:+.1%} to {effect.high:+.1%})"
