"""Many runs, one answer: how their settings differ, which is best, and what the sick ones have in common.

What they have in common is one condition on a setting ("lr ≥ 1") or two together ("lr ≥ 1 and optimizer = adam"). Each that
the settings allow is tried with Fisher's exact test and corrected for the number tried (Bonferroni). Where none stands
out, nothing is said. Seeds are never a cause: runs that differ in nothing else are a band.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom

from traindx.diagnosis import Diagnosis, gates
from traindx.errors import UsageError
from traindx.run import Run

ALPHA = 0.01  # after the correction: at most one sweep in a hundred is told a cause that is none
LEAST = 3  # sick runs that a condition must hold for
SHARE = 0.7  # of the runs it holds for must be sick: "half of them" is no cause
SIMPLER = 10.0  # two settings must be so much clearer than one
MOST = 3  # causes named
MOST_CONDITIONS = 400  # on single settings; those with the clearest effect are combined in pairs
SICK = ("restart", "fix-and-resume")
_SEED = re.compile(r"(^|[._-])(random_?|manual_?|rng_?)?seed$", re.I)
_NOT_A_SETTING = re.compile(
    r"(^|[._-])(name|run_?name|run_?id|id|dir|path|out|output|output_dir|logdir|log_?dir|tags?|notes?|time|date|host)$", re.I
)
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

    diagnoses: tuple[Diagnosis, ...]
    names: tuple[str, ...]
    settings: tuple[Mapping[str, Any], ...]  # what differs among them, without seeds
    metric: str  # the signal they are ranked by; empty where they share none
    best: tuple[float, ...]
    last: tuple[float, ...]
    rises: bool
    causes: tuple[Cause, ...]
    bands: tuple[tuple[int, ...], ...]  # runs of one setting that differ by their seed

    @property
    def winner(self) -> int | None:
        """The best run by the metric that is not sick."""
        well = [i for i, d in enumerate(self.diagnoses) if d.verdict not in SICK and math.isfinite(self.best[i])]
        return (max if self.rises else min)(well, key=lambda i: self.best[i]) if well else None

    def sentences(self) -> list[str]:
        """What can be said of all of them together."""
        said = []
        for c in self.causes:
            said.append(
                f"{c.text}: {c.sick} of {c.of} are sick, {c.elsewhere[0]} of {c.elsewhere[1]} elsewhere (p = {c.p:.1g})."
            )
        if (i := self.winner) is not None and self.metric:
            how = ", ".join(f"{k} {v}" for k, v in self.settings[i].items())
            said.append(f"Best: {self.names[i]}" + (f" ({how})" if how else "") + f", {self.metric} {self.best[i]:.4g}.")
        for band in self.bands[:5]:
            values = [self.best[i] for i in band if math.isfinite(self.best[i])]
            sick = sum(self.diagnoses[i].verdict in SICK for i in band)
            span = f"{self.metric} {min(values):.4g} to {max(values):.4g}, " if self.metric and values else ""
            how = ", ".join(f"{k} {v}" for k, v in self.settings[band[0]].items()) or "one setting"
            said.append(f"{len(band)} seeds of {how}: {span}{sick} sick.")
        return said


def sweep(diagnoses: Sequence[Diagnosis], by: str | None = None) -> Sweep:
    """The runs side by side, ranked by `by`, else by the first metric that most of them have."""
    runs = [d.run for d in diagnoses]
    every = [settings_of(run) for run in runs]
    varied = {k for k in {k for s in every for k in s} if len({_told(s.get(k)) for s in every}) > 1}
    seeds = {k for k in varied if _SEED.search(k)}
    settings = [{k: s[k] for k in s if k in varied - seeds} for s in every]
    metric = _metric(runs, by)
    numbers = [gates.measured(r, m) if (m := _own(r, metric, by)) else (math.nan, "") for r in runs]
    lasts = [r.series(m).last if (m := _own(r, metric, by)) else math.nan for r in runs]
    bands: dict[str, list[int]] = defaultdict(list)
    for i, s in enumerate(settings):
        if any(k in every[i] for k in seeds):
            bands[_told(sorted(s.items()))].append(i)
    return Sweep(
        tuple(diagnoses),
        tuple(names(runs)),
        tuple(settings),
        metric,
        tuple(n for n, _ in numbers),
        tuple(lasts),
        bool(gates.rises(runs[0], metric)) if metric else False,
        tuple(_causes(settings, np.array([d.verdict in SICK for d in diagnoses]), _known(diagnoses))),
        tuple(tuple(b) for b in bands.values() if len(b) > 1),
    )


def _known(diagnoses: Sequence[Diagnosis]) -> Mask:
    return np.array([d.verdict != "cannot-tell" for d in diagnoses])


def settings_of(run: Run) -> dict[str, Any]:
    """The hyper-parameters of a run: those its log holds, the options of its command, its optimizer and first rate."""
    found: dict[str, Any] = {}
    given = run.fact("hparams")
    found.update(given if isinstance(given, Mapping) else {})
    argv = run.fact("argv")
    found.update(_options(argv if isinstance(argv, Sequence) and not isinstance(argv, str) else ()))
    if isinstance(name := run.fact("optimizer.name"), str) and not any("opt" in k for k in found):
        found["optimizer"] = name
    return {k: v for k, v in found.items() if not _NOT_A_SETTING.search(k) and not isinstance(v, list | dict)}


def _options(argv: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """`--lr 0.1`, `--lr=0.1`, `lr=0.1` and flags of a command line."""
    words = [str(w) for w in argv]
    for i, word in enumerate(words):
        key, eq, value = word.lstrip("-").partition("=")
        if (
            not key.replace(".", "").replace("-", "").replace("_", "").isalnum()
            or (not eq and not word.startswith("-"))
            or key[0].isdigit()
        ):
            continue
        if not eq:
            after = words[i + 1] if i + 1 < len(words) else "-"
            value = "true" if after.startswith("-") and _number(after) is None else after
        yield key.replace("-", "_"), value if (n := _number(value)) is None else n


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _told(value: Any) -> str:
    return repr(value)


def names(runs: Sequence[Run]) -> list[str]:
    """Short names that tell the runs apart: the part of the path in which they differ."""
    paths = [PurePath(run.source or f"run {i + 1}").parts for i, run in enumerate(runs)]
    head = 0
    while all(len(p) > head + 1 for p in paths) and len({p[head] for p in paths}) == 1:
        head += 1
    tail = 0
    while all(len(p) > head + tail + 1 for p in paths) and len({p[-1 - tail] for p in paths}) == 1:
        tail += 1
    short = ["/".join(p[head : len(p) - tail]) for p in paths]
    return short if len(set(short)) == len(short) else [f"{name} #{i}" for i, name in enumerate(short, 1)]


def _metric(runs: Sequence[Run], by: str | None) -> str:
    if by is not None:
        found = next((f for r in runs if (f := gates.find(r, by))), None)
        if found is None:
            there = sorted({n for r in runs for n in r.signals if n.startswith(("loss/", "accuracy/", "metric/"))})
            raise UsageError(f"no run has a metric '{by}'; there are {', '.join(there[:12]) or 'none'}")
        return found
    for pattern in _METRICS:
        have = [n for r in runs for n in r.matching(pattern) if len(r.series(n).finite()) and gates.rises(r, n) is not None]
        if have and max(map(have.count, have)) > len(runs) / 2:
            return max(have, key=have.count)
    return ""


def _own(run: Run, metric: str, by: str | None) -> str | None:
    return gates.find(run, by or metric) if metric else None


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
    ill, n = int((sick & among).sum()), int(among.sum())
    if ill < LEAST or ill == n:
        return None
    singles = _distinct(((key,), text, mask & among) for key, text, mask in _conditions(settings, among))
    if not singles:
        return None
    one = _best(singles, sick, n, ill)
    ranked = sorted(singles, key=lambda c: _p(c[2], sick, n, ill))[:MOST_CONDITIONS]
    pairs = _distinct(
        ((a[0][0], b[0][0]), f"{a[1]} and {b[1]}", a[2] & b[2]) for a, b in combinations(ranked, 2) if a[0] != b[0]
    )
    two = _best(pairs, sick, n, ill)
    best = min((c for c in (one, two and (two[0] * SIMPLER, *two[1:])) if c), key=lambda c: c[0], default=None)
    if best is None or best[0] > ALPHA:
        return None
    p, (_, text, mask) = best
    inside, of = int((sick & mask).sum()), int(mask.sum())
    return Cause(text, inside, of, (ill - inside, n - of), p), mask


Condition = tuple[tuple[str, ...], str, Mask]


def _conditions(settings: Sequence[Mapping[str, Any]], among: Mask) -> Iterator[tuple[str, str, Mask]]:
    """Every cut through a number and every value of a word, on the settings that differ."""
    for key in dict.fromkeys(k for s in settings for k in s):
        values = [s.get(key) for s in settings]
        numbers = [_number(v) for v in values]
        if all(x is not None for x, there in zip(numbers, among) if there) and any(x is not None for x in numbers):
            line = np.array([math.nan if x is None else x for x in numbers])
            levels = np.unique(line[among & np.isfinite(line)])
            for low, high in pairwise(levels):
                yield key, f"{key} ≥ {high:g}", line >= high
                yield key, f"{key} ≤ {low:g}", line <= low
            for level in levels[1:-1] if len(levels) <= 12 else ():
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


def _p(mask: Mask, sick: Mask, n: int, ill: int) -> float:
    """Fisher's exact test, one-sided: so many sick runs or more under this condition by chance."""
    return float(hypergeom.sf(int((mask & sick).sum()) - 1, n, ill, int(mask.sum())))


def _best(conditions: Sequence[Condition], sick: Mask, n: int, ill: int) -> tuple[float, Condition] | None:
    fit = []
    for c in conditions:
        inside, of = int((c[2] & sick).sum()), int(c[2].sum())
        if inside >= LEAST and inside >= SHARE * of:
            fit.append((_p(c[2], sick, n, ill) * len(conditions), c))
    return min(fit, key=lambda f: f[0], default=None)
