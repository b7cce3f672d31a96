"""Trials on a script whose loss cannot be called: read off records of its own loop, driven along a course (`wheel.py`).

The weights are the script's at its start, the loss is the training loss as it reports it, and the same seed gives two arms the
same batches. What needs a loss that can be called (gradients by sample, curvature, validation batches) stays blind.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from traindx.errors import UsageError
from traindx.run import Matrix, Run, Series
from traindx.trial import Progress, Result, catalogue, silent
from traindx.trials import paste
from traindx.trials.cached_batch import timed
from traindx.trials.determinism import parted
from traindx.trials.floors import Floor
from traindx.trials.fork import CONFIRM, LEVEL, Comparison, judge
from traindx.trials.forks import compared
from traindx.trials.lr_range import ADAPTIVE, LAPS, MOST_RACERS, SLOWER, Floats, lost, swept
from traindx.trials.overfit import MOVED, PASS
from traindx.trials.precision import EXPECTED_LOSS
from traindx.trials.prescription import change_of, described, slower_than_now

LADDER = (1.0, 0.1, 10.0)  # times the script's own rates
TAIL = 0.25  # share of the steps, at the end, whose mean loss is compared
LEAST = 10  # updates below which nothing can be read
Drive = Callable[[dict[str, Any]], "Ride"]


@dataclasses.dataclass(frozen=True)
class Ride:
    """One course that the script was driven along."""

    run: Run
    steps: int
    record: str = ""
    failed: str = ""  # the error that ended it
    seconds: tuple[float, ...] = ()
    optimizer: str = ""
    loader: bool = False
    held: bool = False
    levels: tuple[Floor, ...] = ()
    rows: tuple[Any, ...] = ()

    @property
    def losses(self) -> np.ndarray:
        series = self.run.signals.get("loss/train")
        return series.values[: self.steps] if isinstance(series, Series) else np.array([])

    @property
    def norms(self) -> np.ndarray:
        series = self.run.signals.get("grad_norm")
        return series.values[np.isfinite(series.values)] if isinstance(series, Series) else np.array([])


class Trip:
    """The rides of one trial or one check: the same course is driven once."""

    def __init__(self, drive: Drive, progress: Progress = silent) -> None:
        self._drive, self.progress = drive, progress
        self._rides: dict[str, Ride] = {}

    def ride(self, **course: Any) -> Ride:
        """Drive the script along a course."""
        key = repr(sorted(course.items()))
        if key not in self._rides:
            self._rides[key] = self._drive(course)
        ride = self._rides[key]
        if len(ride.losses) < LEAST and not course.get("ledger"):
            why = f": {ride.failed}" if ride.failed else "; give it more to do with arguments after `--`"
            raise UsageError(
                f"the script made {len(ride.losses)} updates with a loss that could be read, {LEAST} are needed{why}"
            )
        return ride


def trial(name: str, trip: Trip, limits: Mapping[str, Any]) -> Result:
    """One of the trials that can drive a script."""
    t = catalogue()[name].make(**limits)
    rides: list[Ride] = []

    def ride(**course: Any) -> Ride:
        rides.append(trip.ride(**course))
        return rides[-1]

    found: Result = DRIVABLE[name](t, ride, limits)
    records = list(dict.fromkeys(r.record for r in rides if r.record))
    place = str(Path(records[0]).parent) if len(records) > 1 else records[0] if records else ""
    steps = sum(r.steps for r in {id(r): r for r in rides}.values())
    return dataclasses.replace(found, trial=name, answer={**found.answer, "driven": True}, record=place, steps=steps)


def cost(name: str, limits: Mapping[str, Any]) -> tuple[int, int]:
    """How often a trial runs the script at most, and how many updates it makes in all."""
    t = catalogue()[name].make(**limits)
    if name in ("lr-tenth", "clip", "fix"):
        return 2 * t.orders, 2 * t.orders * max(t.horizons)
    if name == "lr-range":
        return 4 + MOST_RACERS, LEAST + (1 + SLOWER + LAPS * (MOST_RACERS + 1)) * int(t.steps)
    if name == "overfit":
        rides = len(limits.get("rates", LADDER))
        return rides, rides * int(t.steps)
    rides, least = {"precision": (2, LOOK_STEPS), "cached-batch": (2, 12), "determinism": (4, LEAST)}[name]
    return rides, rides * max(least, int(getattr(t, "steps", 0)))


LOOK_STEPS = 30
Go = Callable[..., Ride]


def _overfit(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    best: tuple[float, Ride, str] | None = None
    curves: dict[str, list[float]] = {}
    asked: tuple[float, ...] = tuple(limits.get("rates", ())) or LADDER
    for rate in asked:
        own = "rates" not in limits
        course: dict[str, Any] = {"factor": rate} if own else {"rates": (rate,)}
        it = ride(steps=t.steps, fixed=True, **course)
        word = f"{rate:g} × its own rate" if own else f"lr {rate:g}"
        if not it.held:
            why = "blind: no batch can be held: they come from no loader, nor do they visibly repeat with the random numbers"
            return Result("overfit", "refused", {"blind": True}, why)
        losses = it.losses[0 if it.loader else 2 :]
        curves[word] = losses.tolist()
        chance = max((f.level for f in it.levels), default=math.nan)  # what is said without a look at the inputs
        left = _last(losses) / chance
        if best is None or _last(losses) < best[0]:
            best = (_last(losses), it, word)
        if 0 <= left < PASS:
            break
    assert best is not None
    last, it, word = best
    losses = np.array(curves[word])
    first = float(losses[0])
    stuck = next((f for f in it.levels if abs(last - f.level) <= max(0.01 * f.level, 0.005)), None)
    answer = {
        "initial": first,
        "final": last,
        "floor": 0.0,
        "floor_name": "zero, if the loss has no other",
        "left": left,
        "lr": word,
    }
    run = _curves("trial/overfit", curves)
    way = f"loss {first:.4g} → {last:.4g} at {word}"
    if 0 <= left < PASS:
        return Result("overfit", "pass", answer, f"learned the batch: {way}", run)
    if stuck is not None:
        answer |= {"floor_name": stuck.name, "stuck_at": stuck.level}
        said = f"cannot learn one batch: {way}; it cannot fall below {stuck.name} ({stuck.level:.4g}): {stuck.meaning}"
        return Result("overfit", "fail", answer, said, run)
    if not math.isfinite(last) or first - last < MOVED * abs(first):
        tried = f"{len(curves)} rates" if len(curves) > 1 else "this rate"
        return Result("overfit", "fail", answer, f"cannot learn one batch: the loss does not fall at {tried} ({way})", run)
    said = f"the loss falls on one batch ({way}); where a loss of the script's own must end is not known from outside"
    return Result("overfit", "undecided", answer, said, run)


def _last(losses: np.ndarray) -> float:
    tail = losses[-10:]
    return float(np.median(tail)) if len(tail) and math.isfinite(losses[-1]) else math.inf


def _lr_range(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    first = ride(steps=LEAST, seed=0)
    if not first.optimizer:
        why = "blind: the script changes its weights by hand, so there is no optimizer whose learning rate could be set"
        return Result("lr-range", "refused", {"blind": True}, why)
    hi = t.hi or (1.0 if any(n in first.optimizer for n in ADAPTIVE) else 10.0)

    def sweep(rates: Floats) -> tuple[Floats, Floats, None]:
        losses = ride(steps=len(rates), rates=tuple(rates.tolist())).losses
        stop = next((i for i in range(len(losses)) if lost(losses[: i + 1].tolist())), len(losses) - 1)
        return rates[: stop + 1], losses[: stop + 1], None

    return swept(sweep, t.lo, hi, t.steps, _now(first).get("lr", 0.0))


def _now(ride: Ride) -> dict[str, float]:
    """The learning rate that the script began with, where it was seen."""
    own = ride.run.signals.get("lr")
    return {"lr": float(own.values[0])} if isinstance(own, Series) and len(own.values) else {}


def _forked(change: Mapping[str, Any], what: str, t: Any, ride: Go, short: bool) -> Result:
    """Two arms under the same batches: the script as it is, and with the change."""
    longest = max(t.horizons)
    arms: tuple[list[Ride], list[Ride]] = ([], [])
    for r in range(t.orders):
        for course, rides in (({}, arms[0]), (change, arms[1])):
            rides.append(ride(steps=longest, seed=r, **course))
    if not arms[0][0].optimizer:
        return Result(
            "", "refused", {"blind": True}, "blind: the script changes its weights by hand: there is no optimizer to act on"
        )
    reach = (
        min(len(i.losses) for rides in arms for i in rides if not i.failed and np.isfinite(i.losses).all())
        if any(not i.failed and np.isfinite(i.losses).all() for rides in arms for i in rides)
        else longest
    )
    found: Comparison | None = None
    looks = sorted({min(h, reach) for h in t.horizons})
    for steps in looks:
        a, b = (np.array([_tail(i, steps) for i in rides]) for rides in arms)
        found = judge(a, b, steps, LEVEL / len(looks))
        if found.verdict != "undecided":
            break
    assert found is not None
    same = len({tuple(i.losses[:LEAST].tolist()) for i in arms[0]}) == 1 and t.orders > 1
    if found.verdict != "undecided" and not found.broke_a and not found.broke_b and (same or abs(found.effect) < CONFIRM):
        found = dataclasses.replace(found, verdict="undecided")  # no other order, or no second look, has confirmed a small lead
    result = compared("", what, found, short)
    note = "; the script fixes its own data order, so all pairs saw the same" if same else ""
    reason = f"{result.reason.replace('probe loss', 'training loss')}{note}"
    return dataclasses.replace(result, reason=reason, answer={**result.answer, "orders_differ": not same})


def _tail(ride: Ride, steps: int) -> float:
    losses = ride.losses[:steps]
    broken = not np.isfinite(losses).all() or (bool(ride.failed) and len(ride.losses) < steps)
    return math.inf if broken else float(losses[-max(5, int(TAIL * steps)) :].mean())


def _lr_tenth(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    now = _now(ride(steps=max(t.horizons), seed=0))
    return _forked({"factor": t.factor}, described({"lr": t.factor}, now), t, ride, t.factor < 1)


def _usual_norm(t: Any, ride: Go) -> float:
    norms = ride(steps=max(t.horizons), seed=0).norms
    if not len(norms):
        raise UsageError("no finite gradient norm was seen in the script's own steps")
    return float(np.quantile(norms, 0.95))


def _clip(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    limit = t.limit if t.limit is not None else _usual_norm(t, ride)
    return _forked({"clip": limit}, f"gradients clipped at {limit:.3g}", t, ride, False)


def _fix(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    change = change_of(t.cause or t.change)
    course: dict[str, Any] = {}
    for key, value in change.items():
        if key == "lr" and isinstance(value, int | float):
            course["factor"] = float(value)
        elif key == "clip":
            course["clip"] = _usual_norm(t, ride) if value == "p95" else float(value)
        elif key == "precision":
            course["precision"] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}.get(str(value), str(value))
        else:
            why = f"blind: '{key}' cannot be set while the script's own loop runs; a factor for lr, clip and precision can"
            return Result("fix", "refused", {"blind": True}, why)
    return _forked(course, described(change, _now(ride(steps=max(t.horizons), seed=0))), t, ride, slower_than_now(change))


def _precision(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    full = ride(steps=LOOK_STEPS, precision="float32")
    half = ride(steps=LOOK_STEPS, precision=t.dtype)
    a, b = float(full.losses[0]), float(half.losses[0])
    module = _departing(full.run, half.run, 3 * EXPECTED_LOSS[t.dtype])
    off = abs(b - a) / max(abs(a), 1e-12)
    answer: dict[str, Any] = {"loss_fp32": a, f"loss_{t.dtype}": b, "first_module": module}
    ends = [float(r.losses[-5:].mean()) for r in (full, half)]
    steps = min(full.steps, half.steps)
    answer["after"] = {"steps": steps, "fp32": ends[0], t.dtype: ends[1]}
    run = Run.of({"trial/fp32": full.losses, f"trial/{t.dtype}": half.losses}, kind="trial")
    where = f"; {module} departs first" if module else ""
    if not np.isfinite(full.losses).all() or full.failed:
        return Result("precision", "undecided", answer, "the loss is not finite in fp32 either: precision is not to blame", run)
    if half.failed or not np.isfinite(half.losses).all():
        broke = (
            half.failed
            or f"the loss is {half.losses[~np.isfinite(half.losses)][0]} at step {int(np.argmin(np.isfinite(half.losses)))}"
        )
        return Result("precision", "fail", answer, f"finite in fp32; in {t.dtype} {broke}{where}", run)
    if off > 3 * EXPECTED_LOSS[t.dtype]:
        return Result("precision", "fail", answer, f"{t.dtype} changes the first loss by {off:.1%}{where}", run)
    answer["code"] = paste.mixed_precision(t.dtype)
    later = f"after {steps} updates it is {ends[1]:.4g}, in fp32 {ends[0]:.4g}"
    said = f"{t.dtype} changes the first loss by {off:.2%}; {later}"
    return Result("precision", "pass", answer, said, run)


def _departing(full: Run, half: Run, limit: float) -> str:
    """The first module, in forward order, whose output has another size."""
    a, b = full.signals.get("act_rms/module"), half.signals.get("act_rms/module")
    if not isinstance(a, Matrix) or not isinstance(b, Matrix) or not len(a.values) or not len(b.values):
        return ""
    there = dict(zip(b.names, b.values[0], strict=True))
    for name, value in zip(a.names, a.values[0], strict=True):
        other = there.get(name, value)
        if not math.isfinite(other) or abs(other - value) > limit * max(abs(value), 1e-12):
            return str(name)
    return ""


def _cached(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    steps = max(t.steps, 12)
    fixed = ride(steps=steps, fixed=True)
    if not fixed.loader:
        why = "blind: the script takes its batches from no DataLoader, so waiting for them cannot be taken away"
        return Result("cached-batch", "refused", {"blind": True}, why)
    usual = ride(steps=steps)
    return timed(list(usual.seconds[2:]), list(fixed.seconds[2:]))


def _determinism(t: Any, ride: Go, limits: Mapping[str, Any]) -> Result:
    pair = [ride(steps=max(t.steps, LEAST), ledger=t.steps, seed=None, again=i) for i in range(2)]
    losses = [r.losses for r in pair]
    count = min(map(len, losses))
    rows = [list(r.rows) for r in pair]
    found = parted(*rows)
    same = count > 0 and np.array_equal(losses[0][:count], losses[1][:count], equal_nan=True)
    answer: dict[str, Any] = {"operations": len(rows[0]), "updates": count, "seeded_from_outside": None}
    run = Run.of(
        {"trial/first": losses[0], "trial/again": losses[1]},
        facts={"trial.determinism": {"equal": same and not found}},
        kind="trial",
    )
    if same and found is None:
        said = f"two runs of the script agree to the bit: {count} losses, and {len(rows[0])} operations of {t.steps} updates"
        return Result("determinism", "pass", answer, said, run)
    seeded = [ride(steps=max(t.steps, LEAST), ledger=t.steps, seed=0, again=i) for i in range(2)]
    short = min(len(r.losses) for r in seeded)
    cured = np.array_equal(seeded[0].losses[:short], seeded[1].losses[:short], equal_nan=True)
    answer["seeded_from_outside"] = bool(cured)
    if cured:
        said = "two runs of the script differ; with its random generators seeded they agree to the bit: a seed is all it lacks"
        return Result("determinism", "fail", answer, said, run)
    found = parted(*(list(r.rows) for r in seeded))
    at = int(np.argmin(seeded[0].losses[:short] == seeded[1].losses[:short])) if short else 0
    where = ""
    if found is not None:
        index, op, module, kind = found
        answer["first"] = {"op": op, "module": module, "index": index, "kind": kind}
        where = f"; the first other {kind} is of {op.removeprefix('aten::')}" + (f" in {module}" if module else "")
    return Result("determinism", "fail", answer, f"two runs differ from update {at} on, seeded or not{where}", run)


def _curves(signal: str, curves: Mapping[str, list[float]]) -> Run:
    longest = max(map(len, curves.values()))
    return Run.of({signal: {k: np.r_[v, np.full(longest - len(v), np.nan)] for k, v in curves.items()}}, kind="trial")


DRIVABLE: dict[str, Callable[[Any, Go, Mapping[str, Any]], Result]] = {
    "overfit": _overfit,
    "lr-range": _lr_range,
    "lr-tenth": _lr_tenth,
    "clip": _clip,
    "fix": _fix,
    "precision": _precision,
    "cached-batch": _cached,
    "determinism": _determinism,
}


def ride_from(told: Mapping[str, Any], run: Run, record: Path | None) -> Ride:
    """The ride behind what the script's process answered."""
    levels = tuple(Floor(**f) for f in told["levels"])
    told = {**told, "levels": levels, "seconds": tuple(map(float, told["seconds"])), "rows": tuple(told["rows"])}
    return Ride(run=run, record=str(record or ""), **told)
