"""Two runs side by side: what differs in their making, and from which step on, and in which signal first, beyond noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

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
    z: float  # that change in standard errors


@dataclass(frozen=True)
class Comparison:
    """What differs between run A (the baseline) and run B."""

    configuration: Mapping[str, tuple[Any, Any]]
    environment: Mapping[str, tuple[Any, Any]]
    same_start: bool | None  # the first losses are equal to the bit: same init and data
    separations: tuple[Separation, ...]  # earliest first
    outcome: str  # same, different, better, worse, cannot-tell
    judged_by: str  # the signal the outcome rests on
    warnings: tuple[str, ...]

    @property
    def first(self) -> Separation | None:
        return next((s for s in self.separations if s.beyond_noise is not None), None)


def compare(a: Run, b: Run, *, tolerance: float = 0.0) -> Comparison:
    """Compare run `b` with the baseline `a`; a change within `tolerance` (relative) or noise counts as none."""
    configuration = dict(_differences(a, b, CONFIGURATION))
    environment = dict(_differences(a, b, ENVIRONMENT))
    separations = sorted(
        _separations(a, b), key=lambda s: (s.beyond_noise is None, s.beyond_noise or 0, s.where != "", s.signal)
    )
    judged_by, outcome = _outcome(separations, tolerance)
    return Comparison(
        configuration,
        environment,
        _same_start(a, b),
        tuple(separations),
        outcome,
        judged_by,
        tuple(_warnings(configuration, environment)),
    )


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


def _same_start(a: Run, b: Run) -> bool | None:
    one, two = a.series("loss/train"), b.series("loss/train")
    if not len(one) or not len(two) or one.steps[0] != two.steps[0]:
        return None
    return bool(one.values[0] == two.values[0])


def _separations(a: Run, b: Run) -> Iterator[Separation]:
    for name in sorted(a.signals.keys() & b.signals.keys()):
        if name.startswith(("time/", "mem/", "throughput", "rank/")) or name == "epoch":
            continue  # clocks and memory differ between any two runs
        one, two = a.signals[name], b.signals[name]
        if isinstance(one, Series) and isinstance(two, Series):
            found = _separate(name, "", one.steps, one.values, two.steps, two.values)
            if found:
                yield found
        elif isinstance(one, Matrix) and isinstance(two, Matrix):
            yield from _first_layer(name, one, two)


def _first_layer(name: str, one: Matrix, two: Matrix) -> Iterator[Separation]:
    parts = [
        found
        for layer in one.names
        if layer in two.names
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


def _beyond_noise(steps: Ints, x: Floats, y: Floats) -> tuple[int | None, float, float]:
    n = len(steps)
    if n < 8:
        return None, _relative(x, y), 0.0
    width = max(4, n // 40)
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


def _outcome(separations: list[Separation], tolerance: float) -> tuple[str, str]:
    """Lower loss is better; validation is believed before training."""
    by_name = {s.signal: s for s in separations if not s.where}
    for name in ("loss/val", "loss/train"):
        s = by_name.get(name)
        if s is None:
            continue
        if s.first_difference is None or (s.beyond_noise is None and abs(s.z) < SIGMAS):
            return name, "same"
        if abs(s.z) < SIGMAS or abs(s.change) <= tolerance:
            return name, "different"
        return name, "worse" if s.change > 0 else "better"
    return "", "cannot-tell"


def _warnings(configuration: Mapping[str, Any], environment: Mapping[str, Any]) -> Iterator[str]:
    changed = {key.split("[")[0] for key in (*configuration, *environment)}
    if len(changed) > 1:
        named = ", ".join(sorted(changed)[:4])
        yield f"{len(changed)} things changed at once ({named} …): no difference can be put down to one of them"
