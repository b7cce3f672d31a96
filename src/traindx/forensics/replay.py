"""Make the step of a capsule again, from a task: the same weights, random numbers and batch, under the tracer."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traindx.errors import UsageError
from traindx.forensics import capsule as capsules
from traindx.forensics import reproducer as reproducers
from traindx.forensics.again import told
from traindx.forensics.tensors import finite
from traindx.forensics.trace import explain
from traindx.trials.state import random_kept
from traindx.trials.target import task_from
from traindx.trials.task import Task, size_of


def replay(
    capsule: str | Path,
    task: Task | str,
    *,
    fp32: bool = False,
    lr_scale: float | None = None,
    other_batch: int | None = None,
    reproducer: str | Path | None = None,
    seconds: float = 60.0,
) -> dict[str, Any]:
    """What happens when the step of `capsule` is made again with the model and loss of `task`.

    `fp32` leaves autocast off, `lr_scale` makes the update too, with a learning rate times that, and says whether the next
    loss is finite, `other_batch` takes batch K of the task's data instead of the capsule's. Together they tell precision, step
    size and data apart; `reproducer` writes the step as a stand-alone script. Random states are put back afterwards.
    """
    held = capsules.load(Path(capsule))
    chosen = task_from(task) if isinstance(task, str) else task
    with random_kept():
        _restore(held, chosen)
        batch = _batch(held, chosen, other_batch)
        step = _step(held, chosen, batch, fp32)
        trace = explain(step, [chosen.model], seconds=seconds)
        out: dict[str, Any] = {"step": held.step, "finite": trace.finite, "precision": "fp32" if fp32 else precision_of(held)}
        out["batch"] = "the capsule's" if other_batch is None else f"number {other_batch} of the task"
        out["origins"] = [told(o, size_of(batch), {}) for o in trace.origins[:20]]
        out["origin"] = next((o for o in out["origins"] if o["proven"]), None)
        if trace.error:
            out["error"] = trace.error
        if reproducer is not None:
            _reproduce(held, chosen, batch, fp32, Path(reproducer), out)
        if lr_scale is not None:
            out["after"] = _after(held, chosen, batch, step, lr_scale)
    return out


def _restore(held: capsules.Capsule, task: Task) -> None:
    states = held.state.get("models") or []
    if not states:
        raise UsageError("the capsule holds no model")
    own = task.model.state_dict()
    fitting = next((s for s in states if isinstance(s, dict) and set(s) == set(own)), None)
    if fitting is None or any(not isinstance(v, Tensor) or v.shape != own[k].shape for k, v in fitting.items() if k in own):
        raise UsageError("the task's model is not the one of the capsule: names or shapes of its weights differ")
    task.model.load_state_dict(fitting)
    modes = held.state.get("modes")
    for name, module in task.model.named_modules():
        module.training = bool(modes.get(name, True)) if isinstance(modes, dict) else True


def _batch(held: capsules.Capsule, task: Task, other: int | None) -> Any:
    if other is not None:
        have = task.batches(other + 1)
        if other < 0 or other >= len(have):
            raise UsageError(f"the task has no batch number {other}; it has {len(have)}")
        return have[other]
    if held.batch is None:
        raise UsageError("the capsule holds no batch (capture_batch was off); name one of the task's with --other-batch K")
    return held.batch


def precision_of(held: capsules.Capsule) -> str:
    """The precision the step of a capsule was made in."""
    return str(held.about.get("autocast") or "fp32")


def _step(held: capsules.Capsule, task: Task, batch: Any, fp32: bool) -> Callable[[], list[Tensor]]:
    kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    kind = None if fp32 else kinds.get(precision_of(held))
    device = torch.device(task.device or "cpu").type

    def run() -> list[Tensor]:
        set_random(held)
        params = [p for p in task.model.parameters() if p.requires_grad]
        for p in params:
            p.grad = None
        with torch.enable_grad(), torch.autocast(device, dtype=kind) if kind else nullcontext():
            loss = task.loss_of(task.model, batch)
        loss.backward()
        return [loss, *[p.grad for p in params if p.grad is not None]]

    return run


def set_random(held: capsules.Capsule) -> None:
    """Put every generator into the state the capsule holds."""
    states = held.state.get("random")
    if not isinstance(states, dict):
        return
    if isinstance(states.get("torch"), Tensor):
        torch.set_rng_state(states["torch"].to(torch.uint8))
    if isinstance(states.get("python"), tuple):
        random.setstate(states["python"])
    numpy = states.get("numpy")
    if isinstance(numpy, tuple) and len(numpy) == 5 and isinstance(numpy[1], Tensor):
        np.random.set_state((numpy[0], numpy[1].numpy().astype(np.uint32), *numpy[2:]))  # noqa: NPY002 the script's own generator


def _reproduce(held: capsules.Capsule, task: Task, batch: Any, fp32: bool, target: Path, out: dict[str, Any]) -> None:
    set_random(held)
    kinds = {"float16": torch.float16, "bfloat16": torch.bfloat16}
    kind = None if fp32 else kinds.get(precision_of(held))

    def forward() -> Tensor:
        with (
            torch.enable_grad(),
            torch.autocast(torch.device(task.device or "cpu").type, dtype=kind) if kind else nullcontext(),
        ):
            return task.loss_of(task.model, batch)

    try:
        written = reproducers.write(forward, dict(task.model.named_parameters()), torch.get_rng_state(), target, out)
        out["reproducer"] = str(written)
    except reproducers.CannotExport as why:
        out["reproducer_failed"] = str(why)


def _after(held: capsules.Capsule, task: Task, batch: Any, step: Callable[[], list[Tensor]], scale: float) -> dict[str, Any]:
    """The loss of the same batch after an update with the learning rate times `scale`."""
    if task.optimizer is None:
        raise UsageError("--lr-scale needs a task with an optimizer")
    state = next(iter(held.state.get("optimizers") or []), None)
    if isinstance(state, dict):
        task.optimizer.load_state_dict(state)
    step()
    for group in task.optimizer.param_groups:
        group["lr"] = float(group["lr"]) * scale
    task.optimizer.step()
    with torch.no_grad():
        loss = task.loss_of(task.model, batch)
    return {"lr_scale": scale, "loss": float(loss), "finite": finite(loss)}
