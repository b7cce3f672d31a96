"""Weights and their updates: how large they are, how they are spread, how far a step moves them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from traindx.measures import (
    kurtosis,
    moments,
    peek,
    peek_all,
    quantiles,
    readable,
    sketched,
    spectral_norm,
    wide,
)
from traindx.probe import Later, Probe, Reading, Row, Scene
from traindx.probes.read.common.how_often import Rhythm
from traindx.probes.read.gradient.gradients import _spread, _std

SKETCH = 256
UPDATE_SKETCH = 4096  # entries of each parameter behind |Δw| / |w| (error of 1024: 1-2 %, performance 2b)
UPDATE_TOTAL = 1 << 20  # entries over all parameters: large models are sketched more thinly
QUANTILES = (0, 5, 10, 25, 40, 50, 60, 75, 90, 95, 99)
TINY = 0.01  # a norm gain below this switches its channel off (CATALOGUE WGHT003)


class WeightNorms(Probe):
    """`weight_norm`, `weight_norm/param`, mean, std, largest magnitude; says when a weight is not finite."""

    cadence = "full"

    def __init__(self) -> None:
        self._rhythm = Rhythm(every=4)

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if not self._rhythm.beat(scene, optimizer):
            return None
        params, names = scene.owned(optimizer)
        have = [i for i, p in enumerate(params) if readable(p)]
        if not have:
            return None
        weights = [params[i].detach() for i in have]
        counts = [w.numel() for w in weights]
        size, sum_, top = moments(weights)
        step = scene.step

        def result(size: list[float], sum_: list[float], top: list[float]) -> Mapping[str, Any]:
            mean = [s / n for s, n in zip(sum_, counts)]
            bad = [i for i, v in enumerate(size) if not math.isfinite(v) and not math.isfinite(top[i])]
            if bad:
                scene.nonfinite("param", [names[have[i]] for i in bad], size[bad[0]], "before", step)
            rows = {
                "weight_norm/param": size,
                "weight_mean/param": mean,
                "weight_std/param": [_std(z, m, n) for z, m, n in zip(size, mean, counts)],
                "weight_maxabs/param": top,
            }
            total = math.sqrt(sum(v * v for v in size)) if all(map(math.isfinite, size)) else math.nan
            return {**{k: Row(names, _spread(v, have, len(names))) for k, v in rows.items()}, "weight_norm": total}

        return {"_weights": Later((size, sum_, top), result)}


class WeightShape(Probe):
    """Kurtosis, quantiles and non-finite share of each parameter; tiny norm gains; from a sketch, occasionally."""

    cadence = "full"

    def __init__(self) -> None:
        self._rhythm = Rhythm(every=8)
        self._gains: tuple[int, set[int]] = (-1, set())

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if not self._rhythm.beat(scene, optimizer):
            return None
        params, names = scene.owned(optimizer)
        have = [i for i, p in enumerate(params) if readable(p)]
        if not have:
            return None
        rows, each = sketched([params[i].detach() for i in have], SKETCH)
        counts = torch.tensor(each, dtype=torch.float32, device=rows.device)
        q = quantiles(rows, [s / 100 for s in QUANTILES], counts)
        finite = torch.isfinite(rows).sum(1) / counts
        tiny = (rows.abs() < TINY).sum(1) / counts
        gains = self._norm_gains(scene)
        heavy = kurtosis(rows)
        is_gain = [id(params[i]) in gains for i in have]
        width = len(QUANTILES)

        def result(q: list[float], finite: list[float], tiny: list[float], heavy: list[float]) -> Mapping[str, Any]:
            every = {f"weight_q{s:02d}/param": q[j::width] for j, s in enumerate(QUANTILES)}
            every["weight_nonfinite/param"] = [1.0 - f for f in finite]
            every["weight_kurtosis/param"] = heavy
            every["weight_tiny/param"] = [t if gain else math.nan for t, gain in zip(tiny, is_gain)]
            return {k: Row(names, _spread(v, have, len(names))) for k, v in every.items()}

        return {"_spread": Later((q.reshape(-1), finite, tiny, heavy), result)}

    def _norm_gains(self, scene: Scene) -> set[int]:
        if self._gains[0] != scene.version:
            found = {
                id(m.weight)
                for model in scene.models
                for m in model.modules()
                if "Norm" in type(m).__name__ and isinstance(getattr(m, "weight", None), Tensor)
            }
            self._gains = (scene.version, found)
        return self._gains[1]


class _Before(NamedTuple):
    """What is kept of the weights until they are updated."""

    entries: int  # of a sketch
    have: list[int]  # places of the parameters
    counts: list[int]  # entries of each sketch
    weights: Tensor  # (N, K), padded with zeros
    half: list[int]  # which of them are in half precision,
    grads: Tensor | None  # and their gradients (M, K)


class UpdateRatio(Probe):
    """`update_ratio/param`: |Δw| / |w|; `decay_share/param` and `lost_updates/param` next to it; from a sketch."""

    cadence = "full"

    def __init__(self) -> None:
        self._before: dict[int, _Before] = {}

    def changed(self, scene: Scene) -> None:
        self._before.clear()

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        params, _ = scene.owned(optimizer)
        have = [i for i, p in enumerate(params) if readable(p) and p.requires_grad]
        if not have:
            return None
        entries = max(min(UPDATE_SKETCH, UPDATE_TOTAL // len(have)), 64)
        old, counts = sketched([params[i].detach() for i in have], entries, pad=0.0)
        halves = (torch.float16, torch.bfloat16)
        half = [j for j, i in enumerate(have) if params[i].dtype in halves and readable(params[i].grad)]
        grads = sketched([params[have[j]].grad for j in half], entries, pad=0.0)[0] if half else None
        self._before[id(optimizer)] = _Before(entries, have, counts, old, half, grads)
        return None

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        kept = self._before.pop(id(optimizer), None)
        if kept is None:
            return None
        have, counts, old = kept.have, kept.counts, kept.weights
        params, names = scene.owned(optimizer)
        if have[-1] >= len(params):
            return None
        new, sizes = sketched([params[i].detach() for i in have], kept.entries, pad=0.0)
        if sizes != counts:
            return None
        moved = new - old
        size, length = (torch.linalg.vector_norm(rows, dim=1) for rows in (moved, old))
        value = peek(torch.linalg.vector_norm(size))
        if value is not None and not math.isfinite(value):
            bad = [
                names[i] for i, v, z in zip(have, peek_all(size) or [], peek_all(length) or []) if v != v and math.isfinite(z)
            ]
            if bad:
                scene.nonfinite("param", bad, value, "after")
        decayed = self._decay(optimizer, [params[i] for i in have], moved, old, length)
        lost = _lost(moved, kept)
        matrix = [params[i].dim() >= 2 for i in have]

        def result(size: list[float], length: list[float], *rest: list[float]) -> Mapping[str, Any]:
            ratio = [s / z if z > 0 else math.nan for s, z in zip(size, length)]
            main = [r for r, z, n, m in zip(ratio, length, counts, matrix) if m and z > 1e-3 * math.sqrt(n) and r == r]
            out: dict[str, Any] = {"update_ratio/param": Row(names, _spread(ratio, have, len(names)))}
            if main:
                out["update_ratio"] = sorted(main)[len(main) // 2] if len(main) % 2 else _middle(main)
            for (signal, _), values in zip(more, rest):
                if any(v == v for v in values):
                    out[signal] = Row(names, _spread(values, have, len(names)))
            return out

        more = [(k, v) for k, v in (("decay_share/param", decayed), ("lost_updates/param", lost)) if v is not None]
        return {"_update": Later((size, length, *(v for _, v in more)), result)}

    @staticmethod
    def _decay(optimizer: Any, params: list[Tensor], moved: Tensor, old: Tensor, length: Tensor) -> Tensor | None:
        """lr·wd·|w| over the norm of the rest of the update, for decoupled decay (AdamW) and plain SGD; NaN where none is."""
        kind = type(optimizer).__name__
        if optimizer is None or kind not in ("AdamW", "SGD", "NAdam", "RAdam", "Lion"):
            return None
        rate = {
            id(p): float(g["lr"]) * float(g.get("weight_decay") or 0.0)
            for g in optimizer.param_groups
            for p in g["params"]
            if not isinstance(g.get("lr"), Tensor)
        }
        parts = [rate.get(id(p), 0.0) for p in params]
        if not any(parts):
            return None
        share = torch.tensor(parts, dtype=length.dtype).to(length.device, non_blocking=True)
        rest = torch.linalg.vector_norm(torch.addcmul(moved, old, share[:, None]), dim=1)
        return torch.where(share != 0, share * length / rest.clamp_min(1e-30), math.nan)


def _lost(moved: Tensor, kept: _Before) -> Tensor | None:
    """Share of the entries with a gradient that did not move, of parameters in half precision; NaN for the others. (N,)"""
    if kept.grads is None:
        return None
    which = torch.tensor(kept.half).to(moved.device, non_blocking=True)
    wanted = kept.grads != 0
    width = min(wanted.shape[1], moved.shape[1])
    still = (moved[which, :width] == 0) & wanted[:, :width]
    return moved.new_full((moved.shape[0],), math.nan).index_put_((which,), still.sum(1) / wanted.sum(1).clamp_min(1))


def _middle(values: list[float]) -> float:
    ordered = sorted(values)
    return 0.5 * (ordered[len(ordered) // 2 - 1] + ordered[len(ordered) // 2])


class Matrices(Probe):
    """Largest singular values of matrices, row norms of embeddings and rows that equal one another, occasionally."""

    cadence = "full"

    def __init__(self) -> None:
        self._rhythm = Rhythm(every=16)
        self._vectors: dict[int, Tensor] = {}
        self._lists: tuple[int, Any] = (-1, None)
        self._twins: tuple[str, ...] = ()

    def changed(self, scene: Scene) -> None:
        self._vectors.clear()

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if not self._rhythm.beat(scene, optimizer) or optimizer is not scene.optimizer:
            return None
        if self._lists[0] != scene.version:
            self._lists = (scene.version, _kinds(scene))
        params = scene.params
        matrices, tables, tall = ((kind[0], [params[i] for i in kind[1]]) if kind else None for kind in self._lists[1])
        out: dict[str, Any] = {}
        if matrices:
            out["weight_sigma/param"] = Row(matrices[0], torch.stack([self._sigma(p) for p in matrices[1]]))
        if tables:
            q = torch.stack(
                [torch.quantile(_row_norms(p), torch.tensor([0.01, 0.5, 0.99], device=p.device)) for p in tables[1]]
            )
            for j, share in enumerate(("p01", "p50", "p99")):
                out[f"row_norm_{share}/param"] = Row(tables[0], q[:, j])
        if tall or tables:
            names = (tall[0] if tall else ()) + (tables[0] if tables else ())
            shares = [twin_share(p) for p in (tall[1] if tall else ())] + [
                twin_columns(p) for p in (tables[1] if tables else ())
            ]
            out["weight_twins/param"] = Row(self._named(names), torch.stack(shares))
        return out

    def _named(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The same tuple for the same names: the recorder compares by identity."""
        if names != self._twins:
            self._twins = names
        return self._twins

    def _sigma(self, p: Tensor) -> Tensor:
        matrix = wide(p.detach()).reshape(p.shape[0], -1)
        start = self._vectors.get(id(p))
        if start is None or start.shape[0] != matrix.shape[1]:
            start = normalize(matrix.sum(0), dim=0)  # no random numbers of the user's are drawn
        value, self._vectors[id(p)] = spectral_norm(matrix, start)
        return value


def _row_norms(p: Tensor) -> Tensor:
    rows = wide(p.detach())
    return torch.linalg.vector_norm(rows[:: max(rows.shape[0] // 4096, 1)], dim=1)


def twin_share(p: Tensor) -> Tensor:
    """Share of rows that equal another row (first 256 rows, by their first 64 entries)."""
    rows = p.detach().reshape(p.shape[0], -1)[:256, :64]
    order = torch.argsort(rows[:, 0] + rows.sum(1))
    sorted_rows = rows[order]
    same = (sorted_rows[1:] == sorted_rows[:-1]).all(1)
    twin = torch.zeros(rows.shape[0], dtype=torch.bool, device=rows.device)
    twin[1:] |= same
    twin[:-1] |= same
    return twin.float().mean()


def twin_columns(p: Tensor) -> Tensor:
    """Share of the dimensions of an embedding that equal another one, over rows from all of it; none while it is all zero."""
    rows = p.detach()[:: max(p.shape[0] // 64, 1)][:64]
    return twin_share(rows.T) * (rows != 0).any() if p.shape[1] > 1 else torch.zeros((), device=p.device)


def _kinds(scene: Scene) -> tuple[Any, Any, Any]:
    """(names, places) of matrices of moderate size, of embeddings, and of tensors with several rows."""
    embeddings = {id(m.weight) for model in scene.models for m in model.modules() if isinstance(m, nn.Embedding)}
    pairs = [(i, p) for i, p in enumerate(scene.params) if p.dim() >= 2 and readable(p)]
    matrices = [i for i, p in pairs if p.numel() <= 1 << 21 and id(p) not in embeddings][:64]
    tables = [i for i, p in pairs if id(p) in embeddings]
    tall = [i for i, p in pairs if p.shape[0] > 1 and id(p) not in embeddings][:128]
    return tuple((tuple(scene.names[i] for i in k), k) if k else None for k in (matrices, tables, tall))  # type: ignore[return-value]


PROBES = [WeightNorms, WeightShape, UpdateRatio, Matrices]
