"""Many runs, one answer: how their settings differ, which is best, and what the sick ones have in common.

What they have in common is one condition on a setting ("lr ≥ 1") or two together ("lr ≥ 1 and optimizer = adam"). Each that
the settings allow is tried with Fisher's exact test and corrected for the number tried. Where none stands out, nothing is
said. Seeds are never a cause: runs that differ in nothing else are a band. Where no log holds settings, the names of the
runs are read for them: `adam-lr0.1-seed3`.

What to try next comes from sound runs alone: from the settings with which their metric changes, by a permutation test that is
corrected in the same way. It names only values that were tried, and never together with a sick run.
"""

from __future__ import annotations

import importlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.diagnosis import gates
from traindx.diagnosis.row import Row, number
from traindx.errors import UsageError
from traindx.stats.tails import at_least_each

ALPHA = 0.01  # after the correction: at most one sweep in a hundred is told a cause that is none
LEAST = 3  # sick runs that a condition must hold for
SHARE = 0.7  # of the runs it holds for must be sick: "half of them" is no cause
SIMPLER = 10.0  # two settings must be so much clearer than one
MOST = 3  # causes named
MOST_CUTS = 64  # through one setting
MOST_SHUFFLED = 5e9  # additions; beyond it, conditions count in full
MOST_LEVELS = 12  # values of a setting that are compared with each other
SHUFFLES = 2000
SICK = ("restart", "fix-and-resume")
_SEED = re.compile(r"(^|[._-])(random_?|manual_?|rng_?)?seed$", re.I)
_PARTS = re.compile(r"[_,/ ]+|(?<!\de)-+", re.I)
_NAMED = re.compile(r"([a-z][a-z.]*)[=:]?([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)", re.I)
_COUNTED = {"run", "exp", "experiment", "trial", "version", "job", "slurm", "v", "id", "try", "model"}
_METRICS = ("accuracy/val", "metric/val/*", "accuracy/test", "metric/test/*", "loss/val", "loss/train")

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Cause:
    """A condition under which runs are sick."""

    text: str
    sick: int
    of: int  # runs it holds for
    elsewhere: tuple[int, int]  # sick runs and all runs it does not hold for
    p: float  # corrected


@dataclass(frozen=True)
class Sweep:
    """Runs side by side."""

    rows: tuple[Row, ...]
    names: tuple[str, ...]
    settings: tuple[Mapping[str, Any], ...]  # what differs among them, without seeds
    metric: str  # the name of what they are ranked by; empty where they share nothing
    best: tuple[float, ...]
    last: tuple[float, ...]
    rises: bool
    causes: tuple[Cause, ...]
    bands: tuple[tuple[int, ...], ...]  # runs of one setting that differ by their seed
    advice: str = ""  # which settings to try next; empty where the sound runs do not tell

    @property
    def winner(self) -> tuple[int, ...]:
        """The best run by the metric that is not sick; of settings with several seeds, those with the best median."""
        sound = {i for i, r in enumerate(self.rows) if r.verdict not in SICK and math.isfinite(self.best[i])}
        whole = [band for band in self.bands if sound.issuperset(band)]
        alone = sound.difference(*self.bands) or (set() if whole else sound)
        middle = {band: float(np.median([self.best[i] for i in band])) for band in [*whole, *((i,) for i in sorted(alone))]}
        return (max if self.rises else min)(middle, key=lambda band: middle[band]) if middle else ()

    def __str__(self) -> str:
        return str(importlib.import_module("traindx.report.sweep").plain_text(self))

    def _repr_html_(self) -> str:
        return str(importlib.import_module("traindx.report.notebook").pre(str(self)))

    def sentences(self) -> list[str]:
        """What can be said of all of them together."""
        said = []
        for c in self.causes:
            said.append(
                f"{c.text}: {c.sick} of {c.of} are sick, {c.elsewhere[0]} of {c.elsewhere[1]} elsewhere (p = {c.p:.1g})."
            )
        if (best := self.winner) and self.metric:
            told = self.names[best[0]] if len(best) == 1 else f"{len(best)} seeds"
            how = self._settings_of(best[0])
            said.append(f"Best: {told}" + (f" ({how})" if how else "") + f", {self.metric} {self._span(best)}.")
            said += [self.advice] if self.advice else []
        said += self._of_bands()
        return said + [f"{name}: {note}." for name, r in zip(self.names, self.rows) for note in r.unread][:5]

    def _settings_of(self, i: int) -> str:
        return ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.settings[i].items())

    def _span(self, band: Sequence[int]) -> str:
        values = sorted(self.best[i] for i in band if math.isfinite(self.best[i]))
        return " to ".join(dict.fromkeys(f"{v:.4g}" for v in values[:1] + values[-1:]))

    def _of_bands(self) -> Iterator[str]:
        """Settings with several seeds: how many there are, and in which the seed decides."""
        if not self.bands:
            return
        sick = [sum(self.rows[i].verdict in SICK for i in band) for band in self.bands]
        parted = [(band, n) for band, n in zip(self.bands, sick) if 0 < n < len(band)]
        if len(self.bands) == 1:
            band, how = self.bands[0], self._settings_of(self.bands[0][0])
            told = f", {self.metric} {self._span(band)}" if self.metric and self._span(band) else ""
            yield f"{len(band)} seeds of {how or 'one setting'}{told}: {sick[0]} sick."
            return
        agree = "in all of them the seeds agree" if not parted else f"in {len(parted)} only some of the seeds are sick"
        yield f"{len(self.bands)} settings were run with several seeds; {agree}."
        for band, n in parted[:MOST]:
            yield f"{self._settings_of(band[0])}: {n} of {len(band)} seeds sick."


def sweep(rows: Sequence[Row], by: str | None = None) -> Sweep:
    """The runs side by side, ranked by `by`, else by the first metric that most of them have."""
    called = names(rows)
    own: Sequence[Mapping[str, Any]] = [r.settings for r in rows]
    if not any(_varied(own)):
        own = _in_names(called)
    varied = _varied(own)
    seeds = {k for k in varied if _SEED.search(k)}
    settings = [{k: v for k, v in one.items() if k in varied - seeds} for one in own]
    metric = _metric(rows, by)
    meant = [gates.meant(list(r.metrics), r.columns, by or metric) if metric else None for r in rows]
    numbers = [r.metrics[m] if m else (math.nan, math.nan, None) for r, m in zip(rows, meant)]
    bands: dict[str, list[int]] = defaultdict(list)
    for i, s in enumerate(settings):
        if any(k in own[i] for k in seeds):
            bands[_told(sorted(s.items(), key=str))].append(i)
    sick = np.array([r.verdict in SICK for r in rows], bool)
    found = Sweep(
        tuple(rows),
        tuple(called),
        tuple(settings),
        by or _own_name(rows, metric),
        tuple(n[0] for n in numbers),
        tuple(n[1] for n in numbers),
        any(n[2] for n in numbers),
        tuple(_causes(settings, sick, np.array([r.verdict != "cannot-tell" and not r.unread for r in rows], bool))),
        tuple(tuple(b) for b in bands.values() if len(b) > 1),
    )
    return replace(found, advice=_advice(found)) if any(n[2] is not None for n in numbers) else found


def _varied(settings: Sequence[Mapping[str, Any]]) -> set[str]:
    """Settings that differ. A word of its own for each run is no setting: a commit, a date, a folder."""
    found = set()
    for k in {k for s in settings for k in s}:
        values = [s.get(k) for s in settings]
        kinds = len({_told(v) for v in values})
        if kinds > 1 and (kinds < max(len(values), LEAST) or all(number(v) is not None for v in values)):
            found.add(k)
    return found


def _own_name(rows: Sequence[Row], metric: str) -> str:
    """What most logs call the metric themselves."""
    own = Counter(
        column
        for r in rows
        for column, signal in r.columns.items()
        if r.metrics.get(signal, metric)[:2] == r.metrics.get(metric, ())[:2]
    )
    return own.most_common(1)[0][0] if own else metric


def _in_names(called: Sequence[str]) -> list[dict[str, Any]]:
    """The settings that names hold, `adam-lr0.1-bs_64`; a word is one by its place, if all names have as many parts.

    >>> _in_names(["adam_lr1e-3", "sgd_lr0.1"])
    [{'name part 1': 'adam', 'lr': 0.001}, {'name part 1': 'sgd', 'lr': 0.1}]
    """
    found, parts = [], [[p for p in _PARTS.split(name) if p] for name in called]
    even = len({len(p) for p in parts}) == 1
    for words in parts:
        own: dict[str, Any] = {}
        for i, word in enumerate(words):
            pair = _NAMED.fullmatch(word) or (_NAMED.fullmatch(f"{words[i - 1]}={word}") if i else None)
            if pair is None and even and number(word) is None:
                own[f"name part {i + 1}"] = word
            elif pair is not None and pair[1].lower() not in _COUNTED:
                own["seed" if pair[1].lower() == "s" else pair[1]] = number(pair[2])
        found.append(own)
    return found


def _told(value: Any) -> str:
    return repr(value)


def names(rows: Sequence[Row]) -> list[str]:
    """Short names that tell the runs apart: what people call them, else the part of the path in which they differ."""
    if all(r.label for r in rows) and len({r.label for r in rows}) == len(rows):
        return [r.label for r in rows]
    paths = [PurePath(r.source or f"run {i + 1}").parts for i, r in enumerate(rows)]
    head = 0
    while all(len(p) > head + 1 for p in paths) and len({p[head] for p in paths}) == 1:
        head += 1
    tail = 0
    while all(len(p) > head + tail + 1 for p in paths) and len({p[-1 - tail] for p in paths}) == 1:
        tail += 1
    short = [r.label or "/".join(p[head : len(p) - tail]) for p, r in zip(paths, rows)]
    twice = {name for name, count in Counter(short).items() if count > 1}
    told = [f"{s} ({'/'.join(p[head:])})" if s in twice else s for s, p in zip(short, paths)]
    return told if len(set(told)) == len(told) else [f"{name} #{i}" for i, name in enumerate(told, 1)]


def _metric(rows: Sequence[Row], by: str | None) -> str:
    if by is not None:
        found = next((f for r in rows if (f := gates.meant(list(r.metrics), r.columns, by))), None)
        if found is None:
            there = sorted({n for r in rows for n in r.metrics})
            raise UsageError(f"no run has a metric '{by}'; there are {', '.join(there[:12]) or 'none'}")
        return found
    for pattern in _METRICS:
        have = Counter(n for r in rows for n, (_, _, up) in r.metrics.items() if up is not None and fnmatchcase(n, pattern))
        if have and (most := have.most_common(1)[0])[1] > len(rows) / 2:
            return most[0]
    return ""


# -- what the sick ones have in common


def _causes(settings: Sequence[Mapping[str, Any]], sick: Mask, known: Mask) -> Iterator[Cause]:
    """The clearest condition, then the clearest among the runs it does not explain, and so on."""
    left = known.copy()
    for _ in range(MOST):
        found = _clearest(settings, sick, left)
        if found is None:
            return
        cause, held = found
        yield cause
        left &= ~held


def _clearest(settings: Sequence[Mapping[str, Any]], sick: Mask, among: Mask) -> tuple[Cause, Mask] | None:
    where = sick[among]
    ill, n = int(where.sum()), len(where)
    tried = _distinct((key, text, mask[among]) for key, text, mask in _conditions(settings, among))
    if ill < LEAST or ill == n or not tried:
        return None
    masks = np.array([mask for _, _, mask in tried], np.float32)
    sizes, inside = masks @ masks.T, (masks * where) @ masks.T  # of every pair; on the diagonal of every single condition
    keys = np.array([key for key, _, _ in tried])
    pairs = np.triu(keys[:, None] != keys, 1)
    fit = (pairs | np.eye(len(tried), dtype=bool)) & (inside >= LEAST) & (inside >= SHARE * sizes)
    chance = np.full(sizes.shape, math.inf)
    for size in np.unique(sizes[fit]):
        same = fit & (sizes == size)
        chance[same] = at_least_each(n, ill, int(size))[inside[same].astype(int)]
    chance[pairs] *= SIMPLER
    i, j = (int(x) for x in np.unravel_index(chance.argmin(), chance.shape))
    p = least = float(chance[i, j])
    if least <= ALPHA:
        marks = np.random.default_rng(0).integers(1, 2**40, n) * masks.astype(float)
        p *= len(tried) + len(np.unique((marks @ masks.T.astype(float))[pairs])) / SIMPLER  # equal for the same runs
        if p > ALPHA and SHUFFLES * n * len(tried) ** 2 < MOST_SHUFFLED:
            p = _by_shuffling(least, masks, sizes, pairs, where)
    if p > ALPHA:
        return None
    held = np.zeros(len(sick), bool)
    held[among] = masks[i] * masks[j] > 0
    text = " and ".join(dict.fromkeys((tried[i][1], tried[j][1])))
    hits, of = int(inside[i, j]), int(sizes[i, j])
    return Cause(text, hits, of, (ill - hits, n - of), p), held


def _by_shuffling(least: float, masks: Any, sizes: Any, pairs: Mask, where: Mask) -> float:
    """How often a condition as clear as this is found when as many runs are sick at random.

    Conditions that hold for nearly the same runs count as one here, while the number of them counts each in full.
    """
    ill, n = int(where.sum()), len(where)
    shuffled = np.random.default_rng(0).permuted(np.tile(where, (SHUFFLES, 1)), axis=1).T.astype(np.float32)
    enough = np.full(sizes.shape, n + 1)
    for wanted, worth in ((pairs, SIMPLER), (np.eye(len(sizes), dtype=bool), 1.0)):
        for size in np.unique(sizes[wanted]):
            clear = at_least_each(n, ill, int(size)) * worth <= least
            clear[: max(LEAST, math.ceil(SHARE * size))] = False
            if clear.any():
                enough[wanted & (sizes == size)] = int(clear.argmax())
    hit = np.zeros(SHUFFLES, bool)
    for mask, needed in zip(masks, enough):
        own = needed <= n
        hit |= ((masks[own] * mask) @ shuffled >= needed[own, None]).any(0)
    return float(1 + hit.sum()) / (1 + SHUFFLES)


Condition = tuple[str, str, Mask]


def _conditions(settings: Sequence[Mapping[str, Any]], among: Mask) -> Iterator[Condition]:
    """Cuts through every number and every value of a word, on the settings that differ."""
    for key in dict.fromkeys(k for s in settings for k in s):
        values = [s.get(key) for s in settings]
        numbers = [number(v) for v in values]
        stated = [(x, v) for x, v, there in zip(numbers, values, among) if there and v is not None]
        if stated and all(x is not None for x, _ in stated):
            if len(stated) < among.sum():
                yield key, f"no {key}", np.array([v is None for v in values])
            line = np.array([math.nan if x is None else x for x in numbers])
            levels = np.unique(line[among & np.isfinite(line)])
            levels = (
                levels[np.unique(np.linspace(0, len(levels) - 1, MOST_CUTS).round().astype(int))] if len(levels) else levels
            )
            for low, high in pairwise(levels):
                yield key, f"{key} ≥ {high:g}", line >= high
                yield key, f"{key} ≤ {low:g}", line <= low
            for level in levels[1:-1] if len(levels) <= MOST_LEVELS else ():
                yield key, f"{key} = {level:g}", line == level
        else:
            kinds = [str(v) for v in values]
            if len(set(kinds)) <= max(2, len(kinds) // 2):  # a value for each run is a name, not a setting
                for kind in dict.fromkeys(kinds):
                    yield key, f"{key} = {kind}", np.array([k == kind for k in kinds])


def _distinct(conditions: Iterator[Condition]) -> list[Condition]:
    """The first of those that hold for the same runs: they cannot be told apart, and count once."""
    seen: dict[bytes, Condition] = {}
    for c in conditions:
        seen.setdefault(c[2].tobytes(), c)
    return list(seen.values())


# -- what to try next


def _advice(s: Sweep) -> str:
    """The values around the best that were tried and are sound, of every setting with which the metric changes."""
    if not s.winner:
        return ""
    winner = s.winner[0]
    sound = np.array([r.verdict not in SICK and math.isfinite(b) and not r.unread for r, b in zip(s.rows, s.best)])
    sick = np.array([r.verdict in SICK for r in s.rows])
    words, box = [], np.ones(len(s.rows), bool)
    for key, ranks in _telling(s, sound):
        told = [one.get(key) for one in s.settings]
        best = s.settings[winner].get(key)
        numbers = [number(v) for v in told]
        if best is None:
            continue
        if (own := number(best)) is None:
            if ranks[_told(best)] == min(ranks.values()):
                words.append(f"{key} {best}")
                box &= np.array([v == best for v in told])
            continue
        line = np.array([math.nan if x is None else x for x in numbers])
        levels = np.unique(line[sound & np.isfinite(line)])
        at = int(np.searchsorted(levels, own))
        low, high = levels[max(at - 1, 0)], levels[min(at + 1, len(levels) - 1)]
        inside = (line >= low) & (line <= high)
        if (box & inside & sick).any():
            low, high, inside = own, own, line == own
        tried = line[np.isfinite(line)]
        edge = "less" if own == tried.min() else "more" if own == tried.max() else ""
        words.append(
            (f"{key} {low:g}" if low == high else f"{key} {low:g}–{high:g}") + (f" (no run tried {edge})" if edge else "")
        )
        box &= inside
    if not words or (box & sick).any() or not (box & sound).any():
        return ""
    return f"Try {words[0]}{' with ' if len(words) > 1 else ''}{', '.join(words[1:])}."


def _telling(s: Sweep, sound: Mask) -> Iterator[tuple[str, dict[str, float]]]:
    """Settings with which the metric of sound runs changes, and the mean rank of each of their values (the best is first).

    By the test of Kruskal and Wallis, with its distribution from shuffled ranks. The clearest comes first; the others are
    tested on what it leaves over, so that a strong setting does not hide a weak one.
    """
    values = np.array(s.best)[sound] * (-1 if s.rises else 1)
    groups: dict[bytes, tuple[str, list[str], NDArray[np.float64]]] = {}
    for key in dict.fromkeys(k for one in s.settings for k in one):
        told = [_told(one.get(key)) for one, there in zip(s.settings, sound) if there]
        kinds = list(dict.fromkeys(told))
        if 1 < len(kinds) <= min(MOST_LEVELS, len(told) // 2):
            member = np.array([[t == kind for kind in kinds] for t in told], float)
            groups.setdefault(member.tobytes(), (key, kinds, member))  # settings that vary together count once
    left, tried = list(groups.values()), len(groups)
    while left:
        places = np.array([np.mean(np.flatnonzero(np.sort(values) == v)) for v in values])
        shuffled = np.random.default_rng(0).permuted(np.tile(places, (SHUFFLES, 1)), axis=1)
        p, i = min((_chance(member, places, shuffled), i) for i, (_, _, member) in enumerate(left))
        if p * tried > ALPHA:
            return
        key, kinds, member = left.pop(i)
        yield key, dict(zip(kinds, places @ member / member.sum(0)))
        values = values - member @ (values @ member / member.sum(0))  # what this setting does not explain


def _chance(member: NDArray[np.float64], places: NDArray[np.float64], shuffled: NDArray[np.float64]) -> float:
    """How often shuffled ranks differ as much between the groups."""
    count = member.sum(0)
    own = float(((places @ member) ** 2 / count).sum())
    as_far = ((shuffled @ member) ** 2 / count).sum(1) >= own * (1 - 1e-12)
    return float(1 + as_far.sum()) / (1 + len(shuffled))
