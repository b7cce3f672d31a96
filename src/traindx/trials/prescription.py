"""Prescriptions: what a cause's `change` means, as something a twin can undergo and a user can apply to the task itself.

{"lr": 0.1}                 multiply the learning rate; "peak": back to its highest
{"warmup": 0.03}            rise to the present rate over the first steps
{"schedule": "anneal"}      fall to zero; "relaid": drop the schedule that ended too early
{"clip": "p95"}             clip at the usual norm, or at a number
{"weight_decay": 10.0}      multiply it; "on", "off-gains" (none on biases and gains)
{"beta2": 0.95}, {"eps": 1e-12}, {"momentum": 0.9}      replace
{"regularisers": "off"}, {"mode": "train"}, {"init": "kaiming"}, {"batch": 4}
{"precision": "bf16"}, {"normalisation": "inputs" | "targets" | "recomputed"}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LinearLR

from traindx import innards
from traindx.cause import Cause
from traindx.cause import catalogue as causes
from traindx.errors import UsageError
from traindx.trials.task import Batch, Task, Twin, apply, rebuilt, split, tensors

Change = Callable[[Twin], None]
HORIZON_STEPS = 1000  # of which a warm-up given as a share is taken: forks are short, runs are not known to their end
ANNEAL_STEPS = 200
LIVING = ("lr", "warmup", "schedule", "clip", "weight_decay", "beta2", "eps", "momentum", "regularisers", "mode", "init")


def change_of(prescription: Any) -> dict[str, Any]:
    """The change behind a dict, a cause, its name, a suspect or a whole diagnosis (its most probable cause with a change)."""
    if isinstance(prescription, str):
        every = causes()
        if prescription not in every:
            raise UsageError(f"there is no cause '{prescription}'; `traindx rules` and docs/causes.md list them")
        prescription = every[prescription]
    if hasattr(prescription, "causes"):  # a Diagnosis
        prescription = next((s.cause for s in prescription.likely if s.cause.change), None)
        if prescription is None:
            raise UsageError("no cause of this diagnosis has a cure that can be tried on a fork")
    prescription = getattr(prescription, "cause", prescription)  # a Suspect
    if isinstance(prescription, Cause):
        if not prescription.change:
            raise UsageError(f"the cure of {prescription.name} cannot be tried on a fork: {prescription.advice}")
        return dict(prescription.change)
    if not isinstance(prescription, Mapping) or not prescription:
        raise UsageError(f"a prescription is a dict such as {{'lr': 0.1}}, a cause or its name; got {prescription!r}")
    return dict(prescription)


def applied(change: Mapping[str, Any], task: Task) -> Change:
    """The change as something a twin can undergo."""
    parts = [_part(key, value, task) for key, value in change.items()]

    def undergo(twin: Twin) -> None:
        for part in parts:
            part(twin)

    return undergo


def described(change: Mapping[str, Any], now: Mapping[str, Any] | None = None) -> str:
    """A change in words, with the values it leads to where the present ones are known: `now` is a group of the optimizer.

    >>> described({"lr": 0.1, "clip": 1.0}, {"lr": 0.03})
    'learning rate 0.03 → 0.003, clip 1.0'
    """
    names, said = {"lr": "learning rate", "weight_decay": "weight decay"}, []
    for key, value in change.items():
        word = names.get(key, key)
        if key == "warmup":
            said.append(f"warm-up over {value:.0%} of the steps")
        elif key not in names or not isinstance(value, int | float):
            said.append(f"{word} {value}")
        elif now and key in now:
            was = float(now[key])
            said.append(f"{word} {was:.3g} → {decayed(was, value) if key == 'weight_decay' else was * value:.3g}")
        else:
            said.append(f"{word} × {value:g}")
    return ", ".join(said)


def apply_to(prescription: Any, task: Task) -> list[str]:
    """Apply a prescription to the task itself, in place, and say what was changed, a sentence each."""
    change = change_of(prescription)
    beyond = [k for k in change if k not in LIVING]
    if beyond:
        raise UsageError(f"'{beyond[0]}' cannot be switched on in a task from outside; change it in your loop")
    if task.optimizer is None:
        raise UsageError("a prescription changes the optimizer; give Task(…, optimizer=…)")
    before = _state(task)
    view = Twin(task, task.model, task.optimizer, task.scheduler, task.scaler)
    applied(change, task)(view)
    task.scheduler = view.scheduler
    after = _state(task)
    said = [f"{key}: {_told(before.get(key, 'none'))} → {_told(after[key])}" for key in after if before.get(key) != after[key]]
    said += [f"{key}: {_told(change[key])}" for key in ("clip", "init", "regularisers", "mode") if key in change]
    return said


def _told(value: Any) -> str:
    """A value as a person would write it: 1e-05 and not 9.999999999999999e-06."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_told, value))})"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _state(task: Task) -> dict[str, Any]:
    assert task.optimizer is not None
    rows = {
        f"{key} of group {i}": value
        for i, group in enumerate(task.optimizer.param_groups)
        for key, value in group.items()
        if key in ("lr", "weight_decay", "betas", "eps", "momentum")
    }
    return {**rows, "scheduler": type(task.scheduler).__name__ if task.scheduler is not None else "none"}


def slower_than_now(change: Mapping[str, Any]) -> bool:
    """Whether a change lowers the learning rate, so that it wins any short race."""
    lr = change.get("lr")
    return (isinstance(lr, int | float) and lr < 1) or change.get("schedule") == "anneal"


def _part(key: str, value: Any, task: Task) -> Change:
    makers: dict[str, Callable[[Any, Task], Change]] = {
        "lr": _lr,
        "clip": lambda v, t: clipped(usual_norm(t)[0] if v == "p95" else float(v)),
        "regularisers": lambda v, t: without_regularisers,
        "weight_decay": lambda v, t: _decay(v),
        "eps": lambda v, t: _group_value("eps", float(v)),
        "beta2": lambda v, t: _group_value("beta2", float(v)),
        "momentum": lambda v, t: _group_value("momentum", float(v)),
        "schedule": lambda v, t: _annealed if v == "anneal" else _no_schedule,
        "warmup": lambda v, t: _warmed(float(v)),
        "mode": lambda v, t: _mode,
        "init": lambda v, t: _initialised(str(v)),
        "precision": lambda v, t: _precision(str(v)),
        "batch": lambda v, t: _accumulated(v),
        "normalisation": lambda v, t: _normalised(str(v), t),
    }
    if key not in makers:
        raise UsageError(f"'{key}' cannot be tried on a fork; {', '.join(makers)} can")
    return makers[key](value, task)


# -- learning rate and schedule


def _lr(value: Any, task: Task) -> Change:
    if value == "peak":
        return scaled_lr(peak(task))
    if isinstance(value, str):
        raise UsageError(
            f"how much '{value}' means for the learning rate is known to you only: give the factor, {{'lr': 0.25}}"
        )
    return scaled_lr(float(value))


def scaled_lr(factor: float) -> Change:
    """Multiply every group's learning rate."""

    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        for group in twin.optimizer.param_groups:
            group["lr"] = float(group["lr"]) * factor
        twin.scheduler = None

    return change


def peak(task: Task) -> float:
    """From the present rate back to the highest one the schedule began with."""
    assert task.optimizer is not None
    group = task.optimizer.param_groups[0]
    start = float(group.get("initial_lr", group.get("max_lr", group["lr"])))
    return start / max(float(group["lr"]), 1e-30)


def _warmed(share: float) -> Change:
    steps = max(10, round(share * HORIZON_STEPS))

    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        twin.scheduler = LinearLR(twin.optimizer, start_factor=0.02, total_iters=steps)

    return change


def _annealed(twin: Twin) -> None:
    assert twin.optimizer is not None
    twin.scheduler = LinearLR(twin.optimizer, start_factor=1.0, end_factor=0.01, total_iters=ANNEAL_STEPS)


def _no_schedule(twin: Twin) -> None:
    twin.scheduler = None


# -- gradients and the optimizer


def clipped(limit: float) -> Change:
    """Clip the total gradient norm before every update."""

    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        params = [p for g in twin.optimizer.param_groups for p in g["params"]]

        def clip(*_: Any) -> None:
            torch.nn.utils.clip_grad_norm_(params, limit)

        twin.optimizer.register_step_pre_hook(clip)

    return change


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


def _group_value(key: str, value: float) -> Change:
    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        for group in twin.optimizer.param_groups:
            if key == "beta2" and "betas" in group:
                group["betas"] = (group["betas"][0], value)
            elif key in group:
                group[key] = value

    return change


def decayed(now: float, factor: float) -> float:
    """More of no decay is a little of it: a multiple of zero would change nothing.

    >>> decayed(0.0, 10.0), decayed(0.01, 10.0), decayed(0.0, 0.1)
    (0.01, 0.1, 0.0)
    """
    return now * factor if now or factor <= 1 else 0.01


def _decay(value: Any) -> Change:
    def change(twin: Twin) -> None:
        assert twin.optimizer is not None
        for group in list(twin.optimizer.param_groups):
            now = float(group.get("weight_decay", 0.0))
            if value == "on":
                group["weight_decay"] = now or 0.01
            elif value == "off-gains":
                _spare_gains(twin.optimizer, group)
            else:
                group["weight_decay"] = decayed(now, float(value))

    return change


def _spare_gains(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
    """Biases and gains move to a group of their own without decay."""
    flat = [p for p in group["params"] if p.ndim < 2]
    if flat and len(flat) < len(group["params"]):
        group["params"] = [p for p in group["params"] if p.ndim >= 2]
        optimizer.param_groups.append({**group, "params": flat, "weight_decay": 0.0})


def _accumulated(count: Any) -> Change:
    def change(twin: Twin) -> None:
        twin.every = int(count)

    return change


# -- the model


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


def _mode(twin: Twin) -> None:
    twin.model.train()


def _initialised(how: str) -> Change:
    draw: dict[str, Callable[[Tensor], Any]] = {
        "kaiming": lambda t: nn.init.kaiming_normal_(t, nonlinearity="relu"),
        "xavier": nn.init.xavier_normal_,
        "orthogonal": nn.init.orthogonal_,
    }
    if how not in draw:
        raise UsageError(f"an initialisation is one of {', '.join(draw)}, not {how!r}")

    def change(twin: Twin) -> None:
        with torch.no_grad():
            for module in twin.model.modules():
                for name, p in module.named_parameters(recurse=False):
                    if p.ndim >= 2 and not isinstance(module, nn.Embedding):
                        draw[how](p)
                    elif name.endswith("bias"):
                        p.zero_()
        if twin.optimizer is not None:
            twin.optimizer.state.clear()

    return change


def _precision(how: str) -> Change:
    """Autocast around the loss, or the whole step in fp32."""

    def change(twin: Twin) -> None:
        device = torch.device(twin.task.device or "cpu").type
        if how in ("bf16", "fp16"):
            dtype = torch.bfloat16 if how == "bf16" else torch.float16
            twin.cast = lambda: torch.autocast(device, dtype=dtype)
            return
        twin.model.float()
        twin.see = lambda batch: apply(lambda t: t.float() if t.is_floating_point() else t, batch)
        twin.cast = nullcontext

    if how not in ("bf16", "fp16", "fp32", "fp32-master"):
        raise UsageError(f"a precision is one of bf16, fp16 and fp32, not {how!r}")
    return change


def _normalised(how: str, task: Task) -> Change:
    if how == "recomputed":
        return _recomputed
    pool = task.batches(32)
    if how == "inputs":
        first = [next(iter(tensors(split(b)[0]))) for b in pool]
        if not first[0].is_floating_point():
            raise UsageError("inputs that are ids cannot be normalised")
        every = torch.cat(first).float()
        axes = [d for d in range(every.ndim) if d != 1] if every.ndim > 1 else [0]
        mean, spread = every.mean(axes, keepdim=True), every.std(axes, keepdim=True).clamp(min=1e-6)

        def standard(batch: Batch) -> Batch:
            inputs, target = split(batch)
            fit = lambda t: (t - mean.to(t)) / spread.to(t) if t.is_floating_point() and t.ndim == every.ndim else t  # noqa: E731
            return rebuilt(batch, apply(fit, inputs), target)

        return lambda twin: setattr(twin, "see", standard)
    if how == "targets" and "MSE" in type(task.loss_fn).__name__:
        targets = torch.cat([split(b)[1] for b in pool]).float()
        middle, size = float(targets.mean()), max(float(targets.std()), 1e-12)

        def change(twin: Twin) -> None:
            def centred(batch: Batch) -> Batch:
                inputs, target = split(batch)
                return rebuilt(batch, inputs, (target - middle) / size)

            twin.see = centred
            twin.unit = size**2  # probes are told in the unit of the real targets

        return change
    raise UsageError(f"normalisation '{how}' cannot be tried on this task; inputs, recomputed, and targets with MSELoss can")


def _recomputed(twin: Twin) -> None:
    """Running statistics of BatchNorm afresh from the training data."""
    norms = [m for m in twin.model.modules() if isinstance(m, innards.NormBase)]
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # the plain mean over what follows
    with torch.no_grad():
        for batch in twin.task.batches(32):
            twin.loss(batch)
    for m, momentum in zip(norms, momenta, strict=True):
        m.momentum = momentum
