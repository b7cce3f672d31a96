"""Two runs side by side: what differs in their making, and from which step on, and in which signal first, beyond noise."""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from traindx import facts
from traindx.diagnosis import effects as effects_
from traindx.diagnosis.effects import Effect
from traindx.run import Floats, Ints, Matrix, Run, Series

CONFIGURATION = (
    "optimizer.",
    "schedule.",
    "loss.kind",
    "loss.classes",
    "loss.smoothing",
    "data.loader",
    "model.params",
    "model.class",
    "hparams",
    "amp.",
    "argv",
)
ENVIRONMENT = ("versions", "device", "world_size", "git.commit", "seeds", "deterministic")
DATA = ("data.samples_per_epoch", "data.input_stats", "data.channel_stats", "data.token", "data.class_counts")
ALIKE = 0.02  # fingerprints of the data are taken from samples: numbers within 2 % are the same
MOST_LINES = 40  # of what changed in a file
EXTREMES = 0.25  # of the range: smallest and largest of a part of the data move with the part
SIGMAS = 3.0  # a block of differences beyond three standard errors …
BLOCKS = 3  # … in three blocks running is a separation (CATALOGUE REPR004)


@dataclass(frozen=True)
class Separation:
    """Where one signal of two runs parts: exactly, and beyond noise."""

    signal: str
    where: str  # parameter or module of a per-layer signal
    first_difference: int | None  # first step whose values are not equal to the bit
    beyond_noise: int | None  # first step from which the difference stands out of the noise
    change: float  # (B - A) / |A| over the last tenth of the common steps
    z: float | None  # that change in standard errors; too few steps have none


@dataclass(frozen=True)
class Comparison:
    """What differs between the baselines (A) and run B."""

    configuration: Mapping[str, tuple[Any, Any]]
    environment: Mapping[str, tuple[Any, Any]]
    same_start: bool | None  # the first losses are equal to the bit: same init and data
    separations: tuple[Separation, ...]  # earliest first
    outcome: str  # same, different, better, worse, cannot-tell
    judged_by: str  # the signal the outcome rests on
    warnings: tuple[str, ...]
    data: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)  # fingerprints of what was trained on
    last_steps: tuple[int | None, int | None] = (None, None)
    effects: tuple[Effect, ...] = ()  # measures, time and memory at the end, each with its interval and its own outcome
    worse_by: float | None = None  # the judged change in the direction that is worse
    summary: str = ""  # the outcome in a sentence
    code: Mapping[str, str] = field(default_factory=dict)  # file → what changed: its lines, or that it differs

    @property
    def first(self) -> Separation | None:
        return next((s for s in self.separations if s.beyond_noise is not None), None)

    def __str__(self) -> str:
        return str(importlib.import_module("traindx.report.comparison").plain(self))

    def _repr_html_(self) -> str:
        return str(importlib.import_module("traindx.report.notebook").pre(str(self)))


def changed(a: Run, b: Run) -> dict[str, str]:
    """The project files that differ: the lines where they were kept, else only that they do."""
    one, two = facts.table(a, "code.files"), facts.table(b, "code.files")
    if not one or not two:
        return {}
    lines = [facts.table(r, "code.text") for r in (a, b)]
    out = {}
    for name in sorted(one.keys() | two.keys()):
        if one.get(name) == two.get(name):
            continue
        if name not in one or name not in two:
            out[name] = f"only in {'B' if name in two else 'A'}"
        elif name in lines[0] and name in lines[1]:
            before, after = (str(t[name]).splitlines() for t in lines)
            told = list(difflib.unified_diff(before, after, n=1, lineterm=""))[2:]
            out[name] = "\n".join(told[:MOST_LINES]) or "differs in hidden or long lines"
        else:
            out[name] = "differs (--keep-source keeps the lines)"
    return out


def compare(a: Run | Sequence[Run], b: Run, *, tolerance: float = 0.0) -> Comparison:
    """Compare run `b` with a baseline, or with several as a band; a change within `tolerance` (relative) counts as none."""
    baselines = [a] if isinstance(a, Run) else list(a)
    configuration = _in_all([dict(_differences(r, b, CONFIGURATION)) for r in baselines])
    environment = _in_all([dict(_differences(r, b, ENVIRONMENT)) for r in baselines])
    data = _in_all([dict(_data_differences(r, b)) for r in baselines])
    separations = _parted(baselines, b)
    measures, costs = effects_.quality(baselines, b, tolerance), effects_.resources(baselines, b, tolerance)
    outcome, rests_on = effects_.last_word(measures, costs)
    named = {e.signal for e in rests_on}
    if outcome == "same" and any(s.signal in named and s.beyond_noise is not None for s in separations):
        outcome = "different"  # they part on the way and end alike
    judged_by, summary = (rests_on[0].signal if rests_on else ""), _summary(outcome, rests_on, len(baselines))
    alone = [list(_alone(r, b)) for r in baselines]
    warnings = [*_warnings(configuration, environment, data), *(said for said, _ in alone[0])]
    if outcome != "worse" and all(any(worse for _, worse in of) for of in alone):
        end = min(r.steps[1] for r in (*baselines, b) if r.steps)
        judged_by, outcome = f"the loss after step {end}, where the other run ends", "worse"
        summary = f"B is worse by {judged_by}."
    if outcome in ("same", "better", "different") and (cut := _cut_short(baselines, b)):
        outcome, summary = "cannot-tell", f"Cannot tell: {cut}. Up to there: {summary}"
    starts = [effects_.same_start(r, b) for r in baselines]
    if len(baselines) == 1 and starts != [True] and outcome != "same" and measures:
        warnings.append("one baseline does not show what another seed would do; several do (--baseline A1 --baseline A2)")
    return Comparison(
        configuration,
        environment,
        True if True in starts else starts[0],
        separations,
        outcome,
        judged_by,
        tuple(warnings),
        data,
        (baselines[0].steps[1] if baselines[0].steps else None, b.steps[1] if b.steps else None),
        (*measures, *costs),
        effects_.at_worst(rests_on),
        summary,
        changed(baselines[-1], b),
    )


def _summary(outcome: str, rests_on: Sequence[Effect], baselines: int) -> str:
    if not rests_on:
        return "Cannot tell: the runs have no loss or measure in common."
    told = "; ".join(effects_.in_words(e) for e in rests_on[:3])
    against = f" against {baselines} baselines" if baselines > 1 else ""
    if outcome == "cannot-tell":
        first = rests_on[0]
        why = "too few evaluations" if first.points < effects_.ENOUGH else "too noisy"
        if first.low > 0 or first.high < 0:
            why = "beyond the noise of one run, not beyond what another seed may do"
        return f"Cannot tell{against}: {told}; {why}."
    word = {"same": "the same by", "different": "different:"}.get(outcome, f"{outcome} by")
    return f"B is {word} {told}{against}."


def _cut_short(baselines: Sequence[Run], run: Run) -> str:
    """Run B broke off before the baselines' end: what it would have become is not known."""
    ended = run.fact("ended")
    if ended not in ("killed", "exception") or not run.steps or not all(r.steps for r in baselines):
        return ""
    if run.steps[1] >= min(r.steps[1] for r in baselines if r.steps):
        return ""
    return f"B broke off at step {run.steps[1]} ({ended})"


def _in_all(each: Sequence[dict[str, tuple[Any, Any]]]) -> dict[str, tuple[Any, Any]]:
    """What differs from every baseline."""
    return {k: v for k, v in each[0].items() if all(k in other for other in each[1:])}


def _parted(baselines: Sequence[Run], run: Run) -> tuple[Separation, ...]:
    """Where run B parts from all baselines, earliest first."""
    each = [{(s.signal, s.where): s for s in _separations(r, run)} for r in baselines]
    found = []
    for key, s in each[0].items():
        of_all = [other[key] for other in each if key in other]
        onsets, firsts = [o.beyond_noise for o in of_all], [o.first_difference for o in of_all]
        s = replace(s, beyond_noise=_latest(onsets), first_difference=_latest(firsts))
        if len(of_all) == len(each):
            found.append(s)
    return tuple(sorted(found, key=lambda s: (s.beyond_noise is None, s.beyond_noise or 0, s.where != "", s.signal)))


def _latest(steps: Sequence[int | None]) -> int | None:
    known = [s for s in steps if s is not None]
    return max(known) if len(known) == len(steps) else None


def _alone(a: Run, b: Run) -> Iterator[tuple[str, bool]]:
    """What a run does beyond the other's last step: a sentence, and whether run B gets worse there."""
    for name in ("loss/train", "loss/val"):
        one, two = a.series(name), b.series(name)
        if len(one) < 8 or len(two) < 8 or one.steps[-1] == two.steps[-1]:
            continue
        b_goes_on = two.steps[-1] > one.steps[-1]
        end = int(min(one.steps[-1], two.steps[-1]))
        longer, shorter = (two, one) if b_goes_on else (one, two)
        tail = longer.between(lo=end + 1)
        if len(tail) < max(3, 0.05 * len(longer)):
            continue
        reference = shorter.finite().values[-max(4, len(shorter) // 10) :]
        final = tail.values[-max(3, len(tail) // 10) :]
        which = "B" if b_goes_on else "A"
        said = f"{which} continues to step {int(tail.steps[-1])}, {name} beyond step {end} has nothing to be compared with"
        if not len(reference) or (b_goes_on and not np.isfinite(final).all()):
            yield f"{said}; it ends not finite", b_goes_on and bool(len(reference))
            continue
        level, spread = float(np.median(reference)), 1.4826 * float(np.median(np.abs(reference - np.median(reference))))
        rise = float(np.median(final)) - level
        worse = rise > max(effects_.MARGIN * abs(level), SIGMAS * spread)
        yield f"{said}; it ends at {float(np.median(final)):.4g}, the other at {level:.4g}", b_goes_on and worse


def _data_differences(a: Run, b: Run) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """What was trained on, as far as samples of it tell: how much of it was looked at differs between any two runs."""
    for key, (x, y) in _differences(a, b, DATA):
        if key.endswith(".n") or key.startswith("data.class_counts"):
            continue
        name, _, which = key.rpartition(".")
        error = _errors(a, b, name) if which in ("mean", "std") else 0.0
        if which in ("min", "max"):
            error = EXTREMES * max(_reach(a, name), _reach(b, name))
        if not _about_equal(x, y, error):
            yield key, (x, y)
    yield from _shares(a, b)


def _shares(a: Run, b: Run) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Classes whose share of the targets differs beyond what drawing explains."""
    one, two = (r.fact("data.class_counts") for r in (a, b))
    if not isinstance(one, Mapping) or not isinstance(two, Mapping):
        return
    n, m = sum(one.values()), sum(two.values())
    for label in sorted({*one, *two}, key=str) if n and m else ():
        p, q = one.get(label, 0) / n, two.get(label, 0) / m
        both = (one.get(label, 0) + two.get(label, 0)) / (n + m)
        if abs(p - q) > max(ALIKE, 4 * math.sqrt(both * (1 - both) * (1 / n + 1 / m))):
            yield f"data.class_share.{label}", (round(p, 3), round(q, 3))


def _errors(a: Run, b: Run, name: str) -> float:
    """Four standard errors of the difference of two means or spreads, each over the samples that were looked at."""
    both = [r.fact("data.input_stats") for r in (a, b)]
    if not all(isinstance(s, Mapping) and s.get("n") for s in both):
        return 0.0
    spread = [r.fact(name).get("std") for r in (a, b)]
    widest = max(
        (float(v) for s in spread for v in (s if isinstance(s, list) else [s]) if isinstance(v, int | float)), default=0.0
    )
    return 4 * widest * math.sqrt(sum(1 / float(s["n"]) for s in both))


def _reach(run: Run, name: str) -> float:
    told = run.fact(name)
    low, high = told.get("min"), told.get("max")
    return float(high - low) if isinstance(low, int | float) and isinstance(high, int | float) else 0.0


def _about_equal(x: Any, y: Any, error: float = 0.0) -> bool:
    if isinstance(x, list) and isinstance(y, list) and len(x) == len(y):
        return all(_about_equal(p, q, error) for p, q in zip(x, y, strict=True))
    if isinstance(x, int | float) and isinstance(y, int | float):
        return abs(x - y) <= max(ALIKE * max(abs(x), abs(y), 1.0), error)
    return bool(x == y)


def _flat(facts: Mapping[str, Any], prefixes: tuple[str, ...]) -> dict[str, Any]:
    out: dict[str, Any] = {}

    def put(key: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for k, v in value.items():
                put(f"{key}.{k}", v)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for i, v in enumerate(value):
                put(f"{key}[{i}]", v)
        else:
            out[key] = value

    for key, value in facts.items():
        if key.startswith(prefixes):
            put(key, value)
    return out


def _differences(a: Run, b: Run, prefixes: tuple[str, ...]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    one, two = _flat(a.facts, prefixes), _flat(b.facts, prefixes)
    for key in sorted(one.keys() & two.keys()):  # a fact that only one run recorded says nothing about the other
        if one[key] != two[key]:
            yield key, (one[key], two[key])


def _separations(a: Run, b: Run) -> Iterator[Separation]:
    told: list[tuple[Floats, Floats]] = []
    for name in sorted(a.signals.keys() & b.signals.keys()):
        if name.startswith(("time/", "mem/", "throughput", "rank/")) or name == "epoch":
            continue  # clocks and memory differ between any two runs
        one, two = a.signals[name], b.signals[name]
        if isinstance(one, Series) and isinstance(two, Series):
            if any(_same(one.values, x) and _same(two.values, y) for x, y in told):
                continue  # a logged accuracy is kept by its own name, too
            told.append((one.values, two.values))
            found = _separate(name, "", one.steps, one.values, two.steps, two.values)
            if found:
                yield found
        elif isinstance(one, Matrix) and isinstance(two, Matrix):
            yield from _first_layer(name, one, two)


def _same(one: Floats, two: Floats) -> bool:
    return np.array_equal(one, two, equal_nan=True)


def _first_layer(name: str, one: Matrix, two: Matrix) -> Iterator[Separation]:
    parts = [
        found
        for layer in one.names
        if layer in two.place
        and (found := _separate(name, layer, one.steps, one.column(layer).values, two.steps, two.column(layer).values))
        and found.beyond_noise is not None
    ]
    if parts:
        yield min(parts, key=lambda s: s.beyond_noise or 0)


def _separate(name: str, where: str, steps_a: Ints, a: Floats, steps_b: Ints, b: Floats) -> Separation | None:
    common, ia, ib = np.intersect1d(steps_a, steps_b, return_indices=True)
    if len(common) < 2:
        return None
    x, y = a[ia], b[ib]
    unequal = ~((x == y) | (np.isnan(x) & np.isnan(y)))
    if not unequal.any():
        return Separation(name, where, None, None, 0.0, 0.0)
    finite = np.isfinite(x) & np.isfinite(y)
    onset, change, z = _beyond_noise(common[finite], x[finite], y[finite])
    broken = common[np.isfinite(x) != np.isfinite(y)]
    if len(broken):  # one of them is no longer a number: that is beyond any noise
        onset = int(broken[0]) if onset is None else min(onset, int(broken[0]))
    return Separation(name, where, int(common[np.argmax(unequal)]), onset, change, z)


def _beyond_noise(steps: Ints, x: Floats, y: Floats) -> tuple[int | None, float, float | None]:
    n = len(steps)
    if n < 8:
        return None, _relative(x, y), None
    width = max(min(4, n // 4), n // 40)
    blocks = n // width
    d = (y - x)[: blocks * width].reshape(blocks, width)
    # noise of one point from second differences of both curves, blind to trends; blocks are averages of `width` of them
    sigma = np.hypot(*(1.4826 * np.median(np.abs(np.diff(v, 2))) / np.sqrt(6) for v in (x, y)))
    floor = 1e-7 * max(float(np.median(np.abs(x))), 1e-30)
    error = max(float(sigma), floor) / np.sqrt(width)
    scores = np.abs(d.mean(axis=1)) / error
    over = scores > SIGMAS
    run_of = np.convolve(over, np.ones(BLOCKS), mode="valid") == BLOCKS if blocks >= BLOCKS else np.zeros(0, bool)
    onset = int(steps[int(np.argmax(run_of)) * width]) if run_of.any() else None
    tail = max(1, blocks // 10)
    z = float(d[-tail:].mean() / (error / np.sqrt(tail)))
    return onset, _relative(x[-tail * width :], y[-tail * width :]), z


def _relative(x: Floats, y: Floats) -> float:
    base = abs(float(np.mean(x))) if len(x) else 0.0
    return float((np.mean(y) - np.mean(x)) / base) if base > 0 else 0.0


def _warnings(configuration: Mapping[str, Any], environment: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    changed = things_changed(configuration, environment, data)
    if len(changed) > 1:
        named = ", ".join(changed[:4]) + (" …" if len(changed) > 4 else "")
        yield f"{len(changed)} things changed at once ({named}): no difference can be put down to one of them"


def things_changed(configuration: Mapping[str, Any], environment: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """What was changed, each thing once: a learning rate shows in the arguments, the settings and every group."""
    named = {key.rpartition(".")[2] if key.startswith(("hparams", "optimizer.groups")) else key for key in configuration}
    rest = named - {"argv", "script"}
    things = {t.partition("[")[0] for t in rest} or ({"argv"} & named)
    things |= {key.partition("[")[0] if not key.startswith("versions") else "versions" for key in environment}
    if data:
        things.add("data")
    return sorted(things)
