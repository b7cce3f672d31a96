"""Experiments that train on from the task's state with one thing changed: lr/10, clipping, regularisers off, any prescription."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials import paste
from traindx.trials.fork import Comparison, compare_arms
from traindx.trials.prescription import (
    applied,
    change_of,
    clipped,
    scaled_lr,
    slower_than_now,
    usual_norm,
    without_regularisers,
)
from traindx.trials.task import Task

FASTER = "a lower rate wins any short race near a noise floor, so only a clear lead or an avoided break-down counts"
SLOWER = "a lower rate is slower at first, so a short race says little against it"
WORDS = {"better": "helps", "worse": "does worse", "undecided": "makes no clear difference"}
SMALL = 0.3  # a lead below this proves nothing for an arm that merely goes slower


def _looks(t: Any) -> int:
    """Two arms at every horizon, and every look once more where it must be confirmed."""
    return 4 * t.orders * sum(t.horizons)


def compared(name: str, what: str, c: Comparison, short: bool = False) -> Result:
    """A comparison as the result of a trial; `short`: the changed arm merely goes slower."""
    verdict = c.verdict
    if short and verdict == "better" and c.broke_a == c.broke_b and c.effect > math.log(1 - SMALL):
        verdict = "undecided"
    answer: dict[str, Any] = {
        "verdict": verdict,
        "effect": c.effect,
        "interval": [c.low, c.high],
        "horizon": c.steps,
        "pairs": c.pairs,
        "broke": {"as_is": c.broke_a, "changed": c.broke_b},
        "confirmed": c.confirmed,
        "caution": (SLOWER if verdict == "worse" else FASTER) if short else "",
    }
    run = Run.of({"trial/as_is": list(c.probes_a), "trial/changed": list(c.probes_b)}, kind="trial")
    if c.broke_a != c.broke_b:
        said = f"{what} {WORDS[verdict]}: {c.broke_a} of {c.pairs} arms broke as it is, {c.broke_b} with the change"
    else:
        said = f"{what} {WORDS[verdict]}: probe loss {math.expm1(c.effect):+.0%} ({math.expm1(c.low):+.0%} … {math.expm1(c.high):+.0%}) after {c.steps} steps"
    if verdict != c.verdict:
        said += "; a lower rate wins any short race, and a lead below 30 % proves nothing"
    elif short and verdict == "worse":
        said += f"; {SLOWER}"
    result = {"better": "pass", "worse": "fail", "undecided": "undecided"}[verdict]
    return Result(name, result, answer, said, run, c.updates)


@trial("lr-tenth", steps=500, most=_looks, wants="val")
@dataclass(frozen=True)
class LrTenth:
    """Does a tenth of the learning rate do clearly better from here? Only a clear lead or an avoided break-down counts."""

    factor: float = 0.1
    orders: int = 5
    horizons: tuple[int, ...] = (50, 100)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        c = compare_arms(task, scaled_lr(self.factor), orders=self.orders, horizons=self.horizons, progress=progress)
        return compared("lr-tenth", f"learning rate × {self.factor:g}", c, self.factor < 1)


@trial("clip", steps=500, most=lambda t: 30 + _looks(t), wants="val")
@dataclass(frozen=True)
class Clip:
    """Does clipping at the usual gradient norm help from here?"""

    limit: float | None = None  # None: the 95 % quantile of 30 batches
    orders: int = 5
    horizons: tuple[int, ...] = (50, 100)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        limit = self.limit if self.limit is not None else usual_norm(task)[0]
        c = compare_arms(task, clipped(limit), orders=self.orders, horizons=self.horizons, progress=progress)
        return compared("clip", f"gradients clipped at {limit:.3g}", c)


@trial("regularisers-off", steps=1000, most=_looks, wants="val")
@dataclass(frozen=True)
class RegularisersOff:
    """Does the loss drop clearly without dropout and weight decay? Then the model is held back, not too small."""

    orders: int = 5
    horizons: tuple[int, ...] = (100, 200)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        c = compare_arms(task, without_regularisers, orders=self.orders, horizons=self.horizons, progress=progress)
        return compared("regularisers-off", "without dropout and weight decay", c)


@trial("fix", steps=1000, most=_looks, wants="val")
@dataclass(frozen=True)
class Fix:
    """Does a prescription help? A fork with it against a fork without it, under the same batches.

    `change` is what a cause prescribes ({"lr": 0.1}, {"clip": "p95"}, {"init": "kaiming"} …; see trials/prescription.py), or
    `cause` names the cause whose prescription is tried.
    """

    change: dict[str, Any] = field(default_factory=dict)
    cause: str = ""
    orders: int = 5
    horizons: tuple[int, ...] = (50, 100, 200)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        if bool(self.change) == bool(self.cause):
            raise UsageError("`trial fix` wants a change or a cause: --set cause=lr-too-high, or --set change='{\"lr\": 0.1}'")
        change = change_of(self.cause or self.change)
        moded = "mode" in change  # then the arm as it is must keep the modes as they are
        c = compare_arms(
            task, applied(change, task), orders=self.orders, horizons=self.horizons, progress=progress, modes=not moded
        )
        said = "the change (" + ", ".join(f"{k} {v}" for k, v in change.items()) + ")"
        result = compared("fix", said, c, slower_than_now(change))
        word = {
            "pass": "prescription confirmed",
            "fail": "prescription not confirmed",
            "undecided": "undecided",
        }[result.result]
        answer = {**result.answer, "change": change, "cause": self.cause or None, "word": word}
        reason = f"{word}: {result.reason} (a short race; a longer run may differ)"
        return Result("fix", result.result, answer, reason, result.run, result.steps)


@trial("clip-threshold", steps=300, most=lambda t: t.batches)
@dataclass(frozen=True)
class ClipThreshold:
    """At which norm to clip: the 95 % quantile of gradient norms over many batches, refused when they fall in two groups."""

    batches: int = 300

    def run(self, task: Task, progress: Progress = silent) -> Result:
        count = min(self.batches, max(30, len(task.batches(self.batches))))
        _, norms = usual_norm(task, count)
        values = np.array([n for n in norms if math.isfinite(n)])
        rng = np.random.default_rng(0)
        quantiles = {q: float(np.quantile(values, q / 100)) for q in (50, 90, 95, 99)}
        draws = np.quantile(rng.choice(values, (200, len(values))), 0.95, axis=1)
        answer: dict[str, Any] = {
            **{f"p{q}": v for q, v in quantiles.items()},
            "threshold": quantiles[95],
            "interval": np.quantile(draws, [0.05, 0.95]).tolist(),
            "n": len(values),
        }
        run = Run.of({"trial/grad_norm": norms}, kind="trial")
        if _bimodal(np.log(np.maximum(values, 1e-30))):
            return Result(
                "clip-threshold",
                "refused",
                answer,
                "the norms fall in two groups (two data sources, or a broken batch): one threshold fits neither",
                run,
                count,
            )
        answer["code"] = paste.clip(quantiles[95])
        return Result(
            "clip-threshold", "done", answer, f"clip at {quantiles[95]:.3g} (p95 of {len(values)} batches)", run, count
        )


def _bimodal(x: np.ndarray) -> bool:
    """A gap in the middle: splitting at the widest interior gap leaves two tight groups far apart."""
    x = np.sort(x)
    inner = slice(len(x) // 10, len(x) - len(x) // 10)
    gaps = np.diff(x[inner])
    if len(gaps) < 10:
        return False
    i = int(np.argmax(gaps)) + len(x) // 10
    left, right = x[: i + 1], x[i + 1 :]
    spread = max(float(np.std(left)), float(np.std(right)), 1e-9)
    return bool(gaps.max() > 2 * spread and (np.median(right) - np.median(left)) > 5 * spread)
