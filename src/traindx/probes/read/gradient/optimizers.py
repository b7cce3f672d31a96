"""The optimizer's own state: Adam's second moment, poisoned moments; and what optimizers and schedules are, as facts."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from traindx.measures import norms, peek, readable, sketched
from traindx.probe import Later, Probe, Reading, Row, Scene
from traindx.probes.read.common.how_often import Rhythm
from traindx.probes.read.common.names import working
from traindx.probes.read.gradient.gradients import _spread

SKETCH = 1024


class AdamHealth(Probe):
    """`adam_small_v/param` (sqrt(v̂) < 10 ε) and `adam_rms/param` (sqrt(mean(g²/max(v̂, ε²)))), from a sketch."""

    cadence = "full"

    def __init__(self) -> None:
        self._rhythm = Rhythm(every=2)

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        own = working(optimizer)
        if own is None or "Adam" not in type(own).__name__ or not self._rhythm.beat(scene, optimizer):
            return None
        params, names = scene.owned(optimizer)
        settings = {id(p): g for g in own.param_groups for p in g["params"]}
        have: list[int] = []
        seconds: list[Tensor] = []
        grads: list[Tensor] = []
        known: list[tuple[float, float]] = []
        for i, p in enumerate(params):
            one = _adam(p, own.state.get(p), settings.get(id(p)))
            if one is not None:
                have.append(i)
                seconds.append(one[0])
                grads.append(one[1])
                known.append(one[2:])
        if not have:
            return None
        (second, each), (gradient, _) = sketched(seconds, SKETCH), sketched(grads, SKETCH)
        counts = torch.tensor(each, dtype=torch.float32)
        correction, eps = torch.tensor(known, device=seconds[0].device).unsqueeze(2).unbind(1)  # (N, 1) each
        second = second / correction
        small = (second < (10.0 * eps) ** 2).sum(1) / counts.to(second.device)
        burst = torch.nanmean(gradient.square() / torch.maximum(second, eps * eps), dim=1).sqrt()

        def result(small: list[float], burst: list[float]) -> Mapping[str, Any]:
            n = len(names)
            return {
                "adam_small_v/param": Row(names, _spread(small, have, n)),
                "adam_rms/param": Row(names, _spread(burst, have, n)),
            }

        return {"_adam": Later((small, burst), result)}


def _adam(p: Tensor, state: Any, group: Any) -> tuple[Tensor, Tensor, float, float] | None:
    """The second moment and the gradient, the bias correction, and ε."""
    if not state or group is None or p.grad is None or not readable(p.grad):
        return None
    v, step = state.get("exp_avg_sq"), state.get("step")
    betas, eps = group.get("betas"), group.get("eps")
    if not readable(v) or not betas or not isinstance(eps, float) or v.shape != p.grad.shape:
        return None
    t = peek(step) if isinstance(step, Tensor) else step
    correction = 1.0 - betas[1] ** t if isinstance(t, float | int) and t else 1.0
    return v, p.grad, correction, eps


class StateFinite(Probe):
    """`state_nonfinite`: parameters, buffers and moments that hold NaN or infinities; events when they appear."""

    cadence = "full"

    def __init__(self) -> None:
        self._rhythm = Rhythm(every=6)
        self._infinite_from_start: set[int] = set()
        self._looked = False

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if optimizer is not scene.optimizer or not self._rhythm.beat(scene, optimizer):
            return None
        things = [("param", n, p) for n, p in zip(scene.names, scene.params) if readable(p)]
        things += [("buffer", n, b) for m in scene.models for n, b in m.named_buffers() if readable(b)]
        things += [("state", n, t) for n, t in _moments(scene)]
        if not things:
            return None
        size = norms([t.detach() for _, _, t in things])
        labels = [(what, name, id(t)) for what, name, t in things]
        step = scene.step

        def result(size: list[float]) -> Mapping[str, Any]:
            bad = [(label, v) for label, v in zip(labels, size) if not math.isfinite(v)]
            if not self._looked:  # masks full of -inf are there by intent
                self._infinite_from_start = {key for (what, _, key), v in bad if what == "buffer" and v == v}
                self._looked = True
            bad = [(label, v) for label, v in bad if label[2] not in self._infinite_from_start]
            for what in ("param", "buffer", "state"):
                own = [(name, v) for (kind, name, _), v in bad if kind == what]
                if own:
                    scene.nonfinite(what, [n for n, _ in own], own[0][1], "after", step)
            return {"state_nonfinite": float(len(bad))}

        return {"_state": Later((size,), result)}


def _moments(scene: Scene) -> list[tuple[str, Tensor]]:
    name_of = {id(p): n for n, p in zip(scene.names, scene.params)}
    return [
        (f"{name_of.get(id(p), '?')}:{key}", value)
        for optimizer in scene.optimizers
        for p, state in working(optimizer).state.items()
        if isinstance(state, dict)
        for key, value in state.items()
        if readable(value) and value.dim()
    ]


class OptimizerFacts(Probe):
    """Facts of optimizers, schedules and precision."""

    ordinary = ()

    def __init__(self) -> None:
        self._schedulers: list[weakref.ref[Any]] = []
        self._rebuilt = 0
        self._started = False

    def start(self, scene: Scene) -> Reading | None:
        self._started = True
        self._note_state(scene)
        return None

    def on_built(self, scene: Scene, kind: str, thing: Any) -> None:
        if kind == "scheduler":
            self._schedulers.append(weakref.ref(thing))
            self._rebuilt += self._started

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        """A stateful optimizer without state in the middle of a run: a resume that forgot it."""
        if (
            scene.step
            and scene.full
            and optimizer is scene.optimizer
            and optimizer is not None
            and not working(optimizer).state
        ):
            stateful = any(group.get("momentum") or "betas" in group for group in optimizer.param_groups)
            if stateful and "optimizer.fresh_at_step" not in scene.facts:
                scene.fact("optimizer.fresh_at_step", scene.step)
        return None

    def _note_state(self, scene: Scene) -> None:
        for model in scene.models:
            devices = {str(p.device) for p in model.parameters()}
            if devices:
                scene.fact("device", sorted(devices)[0])
            break

    def facts(self, scene: Scene) -> Mapping[str, Any] | None:
        out: dict[str, Any] = {}
        main = scene.optimizer
        if main is not None:
            out["optimizer.name"] = type(working(main)).__name__
            out["optimizer.groups"] = [_group(g) for g in main.param_groups]
        elif self._started and "optimizer.name" not in scene.facts:
            out["optimizer.name"] = "manual"
        out["optimizer.count"] = len(scene.facts.get("optimizer.steps", ()))
        living = [s for r in self._schedulers if (s := r()) is not None]
        if living:
            last = _outermost(living)
            out["schedule.name"] = type(last).__name__
            out["schedule.params"] = _constructor(last)
            planned = _planned(last)
            if planned is not None:
                out["schedule.planned_steps"] = planned
        out["schedule.count"] = self._rebuilt
        return out


def _group(group: dict[str, Any]) -> dict[str, Any]:
    keys: tuple[str, ...] = ("lr", "weight_decay", "betas", "eps", "momentum", "nesterov", "amsgrad")
    params = group["params"]
    kept: dict[str, Any] = {k: _plain(group[k]) for k in keys if k in group}
    return {**kept, "params": len(params), "low_dim": sum(p.dim() < 2 for p in params)}


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return peek(value)
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    return value


def _outermost(schedulers: list[Any]) -> Any:
    """The scheduler that drives the others: one that holds a list of them, else the last one built."""
    holders = [s for s in schedulers if getattr(s, "_schedulers", None)]
    return (holders or schedulers)[-1]


def _constructor(scheduler: Any) -> dict[str, Any]:
    simple = (int, float, str, bool, type(None))
    return {k: v for k, v in vars(scheduler).items() if not k.startswith("_") and isinstance(v, simple) and k != "verbose"}


def _planned(scheduler: Any) -> int | None:
    for key in ("total_steps", "T_max", "total_iters"):
        value = getattr(scheduler, key, None)
        if isinstance(value, int | float) and math.isfinite(value):
            return int(value)
    return None


PROBES = [AdamHealth, StateFinite, OptimizerFacts]
