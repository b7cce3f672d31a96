"""Experiments that train on from the task's state with one thing changed: lr/10, clipping, regularisers off, any prescription."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from traindx.errors import UsageError
from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.fork import Change, Comparison, compare_arms
from traindx.trials.task import Task
from traindx.trials.twin import Twin

HORIZON = "short-horizon bias: a lower rate wins any short race, so only a clear lead or an avoided break-down counts"


def scaled_lr(factor: float) -> Change:
    """Multiply every group's learning rate."""

    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        for group in twin.optimizer.param_groups:
            group["lr"] = float(group["lr"]) * factor
        twin.scheduler = None

    return change


def clipped(limit: float) -> Change:
    """Clip the total gradient norm before every update."""

    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        params = [p for g in twin.optimizer.param_groups for p in g["params"]]

        def clip(*_: Any) -> None:
            torch.nn.utils.clip_grad_norm_(params, limit)

        twin.optimizer.register_step_pre_hook(clip)

    return change


def without_regularisers(twin: Twin) -> None:
    """Dropout, weight decay and label smoothing off."""
    for module in twin.model.modules():
        if "Dropout" in type(module).__name__ and hasattr(module, "p"):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention | nn.LSTM | nn.GRU | nn.RNN):
            module.dropout = 0.0
    if twin.optimizer is not None:
        for group in twin.optimizer.param_groups:
            group["weight_decay"] = 0.0


def usual_norm(task: Task, batches: int = 30, share: float = 0.95) -> tuple[float, list[float]]:
    """The gradient norm that all but the largest 5 % of batches stay under, without updates."""
    norms = []
    with task.twin() as twin:
        twin.model.train()
        for batch in task.cycle(batches):
            twin.gradients(batch)
            grads = [p.grad for p in twin.model.parameters() if p.grad is not None]
            norms.append(float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in grads]))))
    finite = [n for n in norms if math.isfinite(n)]
    if not finite:
        raise UsageError("no batch gives a finite gradient; look at that first (traindx trial one-step)")
    return float(np.quantile(finite, share)), norms


def applied(prescription: dict[str, Any], task: Task) -> Change:
    """A prescription (the `change` of a cause) as something a twin can undergo."""
    parts: list[Change] = []
    for key, value in prescription.items():
        parts.append(_part(key, value, task))

    def change(twin: Twin) -> None:
        for part in parts:
            part(twin)

    return change


def _part(key: str, value: Any, task: Task) -> Change:
    if key == "lr":
        return scaled_lr(_peak(task) if value == "peak" else float(value))
    if key == "clip":
        return clipped(usual_norm(task)[0] if value == "p95" else float(value))
    if key == "regularisers":
        return without_regularisers
    if key in ("weight_decay", "eps", "beta2", "momentum"):
        return _group_value(key, float(value))
    if key == "schedule":
        return _no_schedule
    raise UsageError(
        f"'{key}' cannot be tried on a fork; lr, clip, regularisers, weight_decay, eps, beta2, momentum and schedule can"
    )


def _peak(task: Task) -> float:
    """From the present rate back to the highest one the schedule began with."""
    assert task.optimizer is not None
    group = task.optimizer.param_groups[0]
    start = float(group.get("initial_lr", group.get("max_lr", group["lr"])))
    return start / max(float(group["lr"]), 1e-30)


def _group_value(key: str, value: float) -> Change:
    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        for group in twin.optimizer.param_groups:
            if key == "beta2" and "betas" in group:
                group["betas"] = (group["betas"][0], value)
            elif key == "eps" and "eps" in group:
                group["eps"] = value
            elif key == "momentum" and "momentum" in group:
                group["momentum"] = value
            elif key == "weight_decay":
                group["weight_decay"] = float(group.get("weight_decay", 0.0)) * value

    return change


def _no_schedule(twin: Twin) -> None:
    twin.scheduler = None


def _result(name: str, what: str, c: Comparison) -> Result:
    answer: dict[str, Any] = {
        "verdict": c.verdict,
        "effect": c.effect,
        "interval": [c.low, c.high],
        "horizon": c.steps,
        "pairs": c.pairs,
        "broke": {"as_is": c.broke_a, "changed": c.broke_b},
        "confirmed": c.confirmed,
        "caution": HORIZON,
    }
    run = Run.of({"trial/as_is": list(c.probes_a), "trial/changed": list(c.probes_b)}, kind="trial")
    if c.broke_a != c.broke_b:
        said = f"{what}: {c.broke_a} of {c.pairs} arms broke as it is, {c.broke_b} with the change"
    else:
        said = f"{what}: probe loss {math.expm1(c.effect):+.0%} ({math.expm1(c.low):+.0%} … {math.expm1(c.high):+.0%}) after {c.steps} steps"
    result = {"better": "pass", "worse": "fail", "undecided": "undecided"}[c.verdict]
    return Result(name, result, answer, said, run, c.updates)


@trial("lr-tenth", steps=500)
@dataclass(frozen=True)
class LrTenth:
    """Does a tenth of the learning rate do clearly better from here? Only a clear lead or an avoided break-down counts."""

    factor: float = 0.1
    orders: int = 5
    horizons: tuple[int, ...] = (50, 100)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        c = compare_arms(task, scaled_lr(self.factor), orders=self.orders, horizons=self.horizons, progress=progress)
        return _result("lr-tenth", f"learning rate × {self.factor:g}", c)


@trial("clip", steps=500)
@dataclass(frozen=True)
class Clip:
    """Does clipping at the usual gradient norm help from here?"""

    limit: float | None = None  # None: the 95 % quantile of 30 batches
    orders: int = 5
    horizons: tuple[int, ...] = (50, 100)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        limit = self.limit if self.limit is not None else usual_norm(task)[0]
        c = compare_arms(task, clipped(limit), orders=self.orders, horizons=self.horizons, progress=progress)
        return _result("clip", f"gradients clipped at {limit:.3g}", c)


@trial("regularisers-off", steps=1000)
@dataclass(frozen=True)
class RegularisersOff:
    """Does the loss drop clearly without dropout and weight decay? Then the model is held back, not too small."""

    orders: int = 5
    horizons: tuple[int, ...] = (100, 200)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        c = compare_arms(task, without_regularisers, orders=self.orders, horizons=self.horizons, progress=progress)
        return _result("regularisers-off", "without dropout and weight decay", c)


@trial("fix", steps=1000)
@dataclass(frozen=True)
class Fix:
    """Does a prescription help? A fork with it against a fork without it, under the same batches.

    `change` is what a cause prescribes: {"lr": 0.1}, {"clip": "p95"}, {"weight_decay": 0.1} …
    """

    change: dict[str, Any] = field(default_factory=lambda: {"lr": 0.1})
    orders: int = 5
    horizons: tuple[int, ...] = (50, 100, 200)

    def run(self, task: Task, progress: Progress = silent) -> Result:
        c = compare_arms(task, applied(self.change, task), orders=self.orders, horizons=self.horizons, progress=progress)
        said = ", ".join(f"{k} {v}" for k, v in self.change.items())
        result = _result("fix", said, c)
        word = {
            "pass": "prescription confirmed",
            "fail": "prescription not confirmed: it makes things worse",
            "undecided": "undecided",
        }[result.result]
        return Result(
            "fix", result.result, {**result.answer, "change": self.change}, f"{word}: {result.reason}", result.run, result.steps
        )


@trial("clip-threshold", steps=300)
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
        answer = {
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
