"""The skip guard: an update whose gradients are not finite is not made. Opt-in, and the only thing that changes a run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from traindx import innards
from traindx.probe import Probe, Reading, Scene


class SkipGuard(Probe):
    """Takes the gradients away for the length of one optimizer step when one of them is not finite: optimizers leave
    parameters without a gradient alone, moments and step counts included. Afterwards they are put back as they were.

    A schedule that is stepped by the script continues all the same: the learning rate then runs ahead of the updates.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self._kept: list[tuple[Tensor, Tensor]] = []

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if optimizer is None:
            return None  # an update by hand is not ours to stop
        params = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        dense = [p.grad for p in params if p.grad is not None and p.grad.layout is torch.strided]
        if not dense or bool(torch.isfinite(torch.stack([n.float() for n in innards.foreach_norm(dense)]).sum())):
            return None
        bad = [p for p in params if p.grad is not None and not bool(torch.isfinite(p.grad).all())]
        if not bad:
            return None  # only the sum of squares was too large
        names = {id(p): name for p, name in zip(scene.params, scene.names, strict=False)}
        self.skipped += 1
        scene.event("skip_guard", names=[names.get(id(p), "") for p in bad][:20])
        self._kept = [(p, p.grad) for p in params if p.grad is not None]
        for p in params:
            p.grad = None
        return None

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        kept, self._kept = self._kept, []
        for p, grad in kept:
            if p.grad is None:
                p.grad = grad
        return None
