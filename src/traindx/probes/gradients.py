"""Gradients, read once, in the optimizer's step-pre hook: after clipping and unscaling, before the update."""

from __future__ import annotations

from typing import Any

import torch

from traindx.measures import norms, readable
from traindx.probe import Probe, Reading, Row, Scene


class GradNorm(Probe):
    """`grad_norm` and `grad_norm/param`: 2-norms, NaN where there is no gradient."""

    cadence = "full"

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        params, names = scene.owned(optimizer)
        have = [i for i, p in enumerate(params) if p.grad is not None and readable(p.grad)]
        if not have:
            return None
        some = norms([params[i].grad for i in have])  # type: ignore[misc]
        every = some
        if len(have) < len(params):
            every = torch.full((len(params),), float("nan"), device=some.device)
            every[have] = some
        return {"grad_norm/param": Row(names, every), "grad_norm": torch.linalg.vector_norm(some)}


PROBES = [GradNorm]
