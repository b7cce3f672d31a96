"""Experiments that train on from the task's state with one thing changed: lr/10, clipping, regularisers off, any prescription."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim.lr_scheduler import LinearLR

from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials import paste
from traindx.trials.fork import Comparison, compare_arms
from traindx.trials.prescription import (
    applied,
    change_of,
    clipped,
    described,
    peak,
    scaled_lr,
    slower_than_now,
    usual_norm,
    without_regularisers,
)
from traindx.trials.task import NO_GRADIENT, Task

FASTER = "a lower rate wins any short race near a noise floor, so only a clear lead or an avoided break-down counts"
SLOWER = "a lower rate is slower at first, so a short race says little against it"
WORDS = {"better": "helps", "worse": "does worse", "undecided": "makes no clear difference"}
SMALL = 0.3  # a lead below this proves nothing for an arm that merely goes slower


def _group(task: Task) -> dict[str, Any]:
    return task.optimizer.param_groups[0] if task.optimizer is not None else {}


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
        return compared("lr-tenth", described({"lr": self.factor}, _group(task)), c, self.factor < 1)


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
        said = f"the change ({described(change, _group(task))})"
        result = compared("fix", said, c, slower_than_now(change))
        word = {
            "pass": "prescription confirmed",
            "fail": "prescription not confirmed",
            "undecided": "undecided",
        }[result.result]
        answer = {**result.answer, "change": change, "cause": self.cause or None, "word": word}
        reason = f"{word}: {result.reason} (a short race; a longer run may differ)"
        return Result("fix", result.result, answer, reason, result.run, result.steps)


@trial("clip-threshold", steps=400, most=lambda t: t.warmup + t.batches)
@dataclass(frozen=True)
class ClipThreshold:
    """At which norm to clip: the 95 % quantile of gradient norms over real, unclipped updates, with its interval.

    A copy trains from here with your optimizer: first `warmup` steps with a rising rate, then `batches` steps that count.
    Norms at one set of weights say little: they change within the first hundred steps. Refused when the norms run away or
    fall in two groups.
    """

    batches: int = 300
    warmup: int = 100

    def run(self, task: Task, progress: Progress = silent) -> Result:
        norms = self._norms(task, progress)
        run = Run.of({"trial/grad_norm": norms}, kind="trial")
        values = np.array([n for n in norms if math.isfinite(n)])
        if len(values) < len(norms) or _runs_away(values):
            said = "without clipping the norms run away at this learning rate: lower it first, clipping would only hide it"
            return Result("clip-threshold", "refused", {"n": len(values)}, said, run, self.warmup + len(norms))
        p50, p90, p95, p99 = np.quantile(values, (0.5, 0.9, 0.95, 0.99)).tolist()
        draws = np.quantile(np.random.default_rng(0).choice(values, (200, len(values))), 0.95, axis=1)
        low, high = np.quantile(draws, [0.05, 0.95]).tolist()
        answer: dict[str, Any] = {
            "p50": p50, "p90": p90, "p95": p95, "p99": p99, "threshold": p95, "interval": [low, high], "n": len(values)
        }  # fmt: skip
        if _bimodal(np.log(np.maximum(values, 1e-30))):
            said = "the norms fall in two groups (two data sources, or a broken batch): one threshold fits neither"
            return Result("clip-threshold", "refused", answer, said, run, self.warmup + len(norms))
        answer["code"] = paste.clip(p95)
        said = f"clip at {p95:.3g} ({low:.3g} … {high:.3g}): p95 of {len(values)} updates after {self.warmup} of warm-up"
        return Result("clip-threshold", "done", answer, said, run, self.warmup + len(norms))

    def _norms(self, task: Task, progress: Progress) -> list[float]:
        """The norms before each update after the warm-up, up to the first that is not finite."""
        norms: list[float] = []
        with task.twin() as twin:
            twin.model.train()
            free = [p for p in twin.model.parameters() if p.requires_grad]
            if not free:
                raise UsageError(NO_GRADIENT)
            if twin.optimizer is None:
                twin.use(torch.optim.Adam(free, lr=1e-3))
            else:
                scaled_lr(peak(task))(twin)
            assert twin.optimizer is not None
            rise = LinearLR(twin.optimizer, 1 / max(self.warmup, 1), total_iters=self.warmup) if self.warmup else None
            for i, batch in enumerate(task.cycle(self.warmup + self.batches)):
                twin.gradients(batch)
                grads = [p.grad for p in twin.model.parameters() if p.grad is not None]
                if not grads:
                    raise UsageError(NO_GRADIENT)
                norm = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads])))
                if i >= self.warmup or not math.isfinite(norm):
                    norms.append(norm)
                if not math.isfinite(norm):
                    break
                twin.optimizer.step()
                if rise is not None:
                    rise.step()
                progress(i, self.warmup + self.batches, "updates without clipping")
        return norms


def _runs_away(norms: np.ndarray) -> bool:
    """The last tenth lies a hundred times above the first: no quantile of that is a norm to clip at."""
    tenth = max(len(norms) // 10, 1)
    return not len(norms) or bool(np.median(norms[-tenth:]) > 100 * np.median(norms[:tenth]))


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
