"""Gradients, read once, in the optimizer's step-pre hook: after clipping and unscaling, before the update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from traindx.measures import moments, norms, peek, peek_all, quantiles, readable, sketch, sketched
from traindx.probe import Later, Probe, Reading, Row, Scene

SKETCH = 256  # entries of each gradient behind quantiles and shares
COSINE = 1024  # entries of each of the largest gradients behind the cosine
COSINE_TENSORS = 8
Floats = list[float]


def grad_norm(scene: Scene, total: Any = None) -> dict[str, Any]:
    """`grad_norm`: as it was before clipping, where a clip call has told, else `total`, as the optimizer sees it."""
    value = total if scene.clipped is None else scene.clipped
    return {} if value is None else {"grad_norm": value}


class ClippedNorm(Probe):
    """`grad_norm` on steps that are not read in full: known where the script clips, or read where every norm is wanted."""

    ordinary = ("before_step",)

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if not scene.every_norm or scene.full or scene.clipped is not None:
            return grad_norm(scene)
        grads = [p.grad for p in scene.owned(optimizer)[0] if p.grad is not None and readable(p.grad)]
        return grad_norm(scene, torch.linalg.vector_norm(norms(grads)) if grads else None)


class GradNorms(Probe):
    """`grad_norm`, `grad_norm/param`, mean, std, largest magnitude, and which parameters had no gradient at all."""

    cadence = "full"

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        params, names = scene.owned(optimizer)
        have = [i for i, p in enumerate(params) if p.grad is not None and readable(p.grad)]
        missing = [float(p.grad is None) if p.requires_grad else math.nan for p in params]
        out: dict[str, Any] = {"grad_none/param": Row(names, missing)}
        if not have:
            return out
        grads: list[Tensor] = [params[i].grad for i in have]
        size, sum_, top = moments(grads)
        total = torch.linalg.vector_norm(size)
        self._check(scene, total, top, [names[i] for i in have])
        counts = [g.numel() for g in grads]
        out |= grad_norm(scene, total)

        def result(size: list[float], sum_: list[float], top: list[float]) -> Mapping[str, Any]:
            mean = [s / n for s, n in zip(sum_, counts)]
            std = [_std(z, m, n) for z, m, n in zip(size, mean, counts)]
            rows = {"grad_norm/param": size, "grad_mean/param": mean, "grad_std/param": std, "grad_maxabs/param": top}
            return {k: Row(names, _spread(v, have, len(names))) for k, v in rows.items()}

        out["_norms"] = Later((size, sum_, top), result)
        return out

    @staticmethod
    def _check(scene: Scene, total: Tensor, top: Tensor, names: list[str]) -> None:
        """On the CPU a bad gradient is known at once, while the weights are still the old ones."""
        value = peek(total)
        if value is not None and not math.isfinite(value):
            each = peek_all(top) or []
            bad = [n for n, v in zip(names, each) if not math.isfinite(v)]
            if bad or value != value:  # an infinite norm of finite numbers is only an overflow of the sum of squares
                scene.nonfinite("grad", bad, next((v for v in each if v != v), value), "before")


class GradShape(Probe):
    """Zero and non-finite share and quantiles of each gradient, from a sketch."""

    cadence = "full"

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        params, names = scene.owned(optimizer)
        have = [i for i, p in enumerate(params) if p.grad is not None and readable(p.grad)]
        if not have:
            return None
        rows, each = sketched([params[i].grad for i in have], SKETCH)
        counts = torch.tensor(each, dtype=torch.float32, device=rows.device)
        zero = (rows == 0).sum(1) / counts
        finite = torch.isfinite(rows).sum(1) / counts
        q = quantiles(rows, (0.05, 0.5, 0.95), counts)

        def result(
            zero: list[float], finite: list[float], q05: list[float], q50: list[float], q95: list[float]
        ) -> Mapping[str, Any]:
            every = {
                "grad_zero/param": zero, "grad_nonfinite/param": [1.0 - f for f in finite],
                "grad_q05/param": q05, "grad_q50/param": q50, "grad_q95/param": q95,
            }  # fmt: skip
            return {k: Row(names, _spread(v, have, len(names))) for k, v in every.items()}

        return {"_shape": Later((zero, finite, q[:, 0], q[:, 1], q[:, 2]), result)}


class GradCosine(Probe):
    """`grad_cosine`: this gradient against the previous step's, on a sketch of the largest tensors."""

    ordinary = ("before_step",)

    def __init__(self) -> None:
        self.idle = True  # the previous step was none to compare with
        self._last: tuple[int, list[Tensor]] | None = None
        self._places: tuple[int, list[int]] = (-1, [])

    def changed(self, scene: Scene) -> None:
        self._last = None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        last = self._last
        follows = last is not None and last[0] == scene.step - 1
        if (not scene.full and not follows) or optimizer is not scene.optimizer:
            return None
        params, _ = scene.owned(optimizer)
        if self._places[0] != scene.version:
            order = sorted(range(len(params)), key=lambda i: -params[i].numel())
            self._places = (scene.version, [i for i in order if params[i].requires_grad][:COSINE_TENSORS])
        grads = [params[i].grad for i in self._places[1]]
        now = [sketch(g, COSINE).clone() for g in grads if g is not None and readable(g)]
        self._last = (scene.step, now) if scene.full else None
        self.idle = self._last is None
        if last is None or not follows or [t.shape for t in now] != [t.shape for t in last[1]] or not now:
            return None
        a, b = torch.cat([t.float() for t in now]), torch.cat([t.float() for t in last[1]])
        return {"grad_cosine": torch.dot(a, b) / (torch.linalg.vector_norm(a) * torch.linalg.vector_norm(b)).clamp_min(1e-30)}


def _std(norm: float, mean: float, n: int) -> float:
    """Standard deviation from the 2-norm and the mean."""
    if n < 2 or not math.isfinite(norm):
        return math.nan if n >= 2 else 0.0
    return math.sqrt(max(norm * norm - n * mean * mean, 0.0) / (n - 1))


def _spread(values: list[float], have: list[int], n: int) -> list[float]:
    if len(have) == n:
        return values
    out = [math.nan] * n
    for i, value in zip(have, values):
        out[i] = value
    return out


PROBES = [ClippedNorm, GradNorms, GradShape, GradCosine]
