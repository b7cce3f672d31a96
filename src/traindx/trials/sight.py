"""What a person should look at before the long run: a few batches of each kind, and every module's shapes and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from traindx.probes.read.data.pictures import look
from traindx.trials.state import random_kept
from traindx.trials.task import Batch, Task, evaluating, split, tensors, to_device

BATCHES = 5  # of each kind
MOST_MODULES = 200


def module_table(task: Task) -> list[dict[str, Any]]:
    """A row per module in forward order: class, shapes in and out, dtype, device, RMS of the output, parameters."""
    rows: list[dict[str, Any]] = []
    [batch] = task.batches(1)
    with task.twin() as twin, evaluating(twin.model), _reading(twin.model, rows):
        twin.loss(batch)
    return rows[:MOST_MODULES]


@contextmanager
def _reading(model: nn.Module, rows: list[dict[str, Any]]) -> Iterator[None]:
    names = {m: n or "(model)" for n, m in model.named_modules()}

    def read(module: nn.Module, args: Any, output: Any) -> None:
        out = next(iter(tensors(output)), None)
        if module not in names or out is None:
            return
        rms = float(out.detach().float().square().mean().sqrt()) if out.numel() and not out.is_complex() else None
        rows.append(
            {
                "name": names.pop(module),
                "class": type(module).__name__,
                "in": [list(t.shape) for t in tensors(args)][:3],
                "out": list(out.shape),
                "dtype": str(out.dtype).removeprefix("torch."),
                "device": str(out.device),
                "rms": rms,
                "parameters": sum(p.numel() for p in module.parameters(recurse=False)),
            }
        )

    handles = [m.register_forward_hook(read) for m in names]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def contact_sheet(task: Task) -> dict[str, list[dict[str, Any]]]:
    """Five batches of training and of validation data as small pictures, numbers and targets; nothing is stored."""
    return {which: [_look(b) for b in _drawn(task, which)] for which in ("train", "val")}


def _drawn(task: Task, which: str) -> list[Batch]:
    """Random batches: of the ones a fresh pass brings, five that are spread over it."""
    have = task.batches(40, which)
    with random_kept(seed=1):
        order = sorted(torch.randperm(len(have)).tolist()[:BATCHES])
    return [have[i] for i in order]


def _look(batch: Batch) -> dict[str, Any]:
    inputs, target = split(to_device(batch, "cpu"))
    return look(tensors(inputs), next(iter(tensors(target)), None))
