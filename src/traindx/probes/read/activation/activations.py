"""Activations of full training forwards: the scale of every layer's output, batch-normalisation gaps, attention."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from traindx import innards
from traindx.measures import entropy, grouped, in_order, peek, piles, readable, sampled_rows, spread, wide
from traindx.probe import Later, Probe, Reading, Row, Scene

_SKIPPED = ("Dropout", "Identity", "Flatten", "Unflatten", "AlphaDropout", "FeatureAlphaDropout")
SAMPLE_ROWS = 1 << 18  # entries of a batch behind per-channel statistics
QUERIES = 64  # of one sequence behind attention entropy
KEYS = 1 << 17  # entries of the keys that are kept until all attentions are worked out
MODULES = 1024
_hooks = innards.saved_tensors_hooks


class Outputs(Probe):
    """`act_rms`, mean, std, largest magnitude, zero and non-finite share, and nearness to the dtype's limit, per module.

    A sample of each output is copied when it is made (it may be written over, and is freed) and reduced with all others of
    its size in one go: five calls for a whole model, not for each of its modules.
    """

    cadence = "full"

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Tensor, torch.dtype]] = {}
        self._names: tuple[str, ...] = ()

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        tensor = output[0] if isinstance(output, tuple) and output else output
        if name in self._seen or len(self._seen) >= MODULES or not readable(tensor) or not _wanted(name, module):
            return None
        self._seen[name] = (spread(tensor), tensor.dtype)
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        seen, self._seen = self._seen, {}
        if not seen:
            return None
        if self._names != (names := tuple(seen)):
            self._names = names
        names = self._names
        counts = [part.numel() for part, _ in seen.values()]
        limits = [torch.finfo(kind).max for _, kind in seen.values()]
        columns = _in_groups([part for part, _ in seen.values()])

        def result(
            norm: list[float], sum_: list[float], top: list[float], held: list[float], bad: list[float]
        ) -> Mapping[str, Any]:
            rms = [z / math.sqrt(n) for z, n in zip(norm, counts)]
            mean = [s / n for s, n in zip(sum_, counts)]
            rows = {
                "act_rms/module": rms,
                "act_mean/module": mean,
                "act_std/module": [
                    math.sqrt(max(r * r - m * m, 0.0)) if math.isfinite(r) else math.nan for r, m in zip(rms, mean)
                ],
                "act_maxabs/module": top,
                "act_zero/module": [1.0 - h / n for h, n in zip(held, counts)],
                "act_nonfinite/module": [b / n for b, n in zip(bad, counts)],
                "act_limit/module": [t / x for t, x in zip(top, limits)],
            }
            return {k: Row(names, v) for k, v in rows.items()}

        return {"_outputs": Later(columns, result)}


def _in_groups(parts: list[Tensor]) -> tuple[Tensor, ...]:
    """`_reduced` of each part, in their order; those of one size, kind and device at a time. 5 x (N,)"""
    groups = grouped(parts)
    return tuple(in_order(groups, columns) for columns in zip(*map(_reduced, piles(parts, groups))))


def _reduced(rows: Tensor) -> tuple[Tensor, ...]:
    """2-norm, sum, largest magnitude, entries that are not zero, entries that are not finite, of each row.

    Along an axis `aminmax` takes five times as long as `amax` and `amin`, `count_nonzero` three times as long as a sum of
    signs. 5 x (N,)
    """
    norm, total, top = torch.linalg.vector_norm(rows, dim=1), rows.sum(1), torch.maximum(rows.amax(1), -rows.amin(1))
    whole = peek(norm.sum())
    if whole is not None and math.isfinite(whole):
        return norm, total, top, rows.sign().abs_().sum(1), torch.zeros_like(norm)
    bad = (~torch.isfinite(rows)).sum(1).to(norm.dtype)
    return norm, total, top, torch.count_nonzero(rows, dim=1).to(norm.dtype), bad


def _wanted(name: str, module: nn.Module) -> bool:
    """Leaves, and the blocks of a stack (their names end in a number)."""
    kind = type(module).__name__
    if kind.startswith(_SKIPPED):
        return False
    return not module._modules or name.rpartition(".")[2].isdigit() or isinstance(module, nn.MultiheadAttention)


class BatchNormGap(Probe):
    """`bn_mean_gap` and `bn_var_gap`: how far a training batch is from the running statistics, by the median channel.

    Noted when a layer returns, and worked out for all layers in one go.
    """

    cadence = "full"

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Tensor, Tensor, float]] = {}  # of the batch, and running: means, then variances (2, C)
        self._names: tuple[str, ...] = ()
        self._momentum: dict[str, float] = {}

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        if not isinstance(module, innards.BatchNorm) or not module.training or name in self._seen:
            return None
        if module.track_running_stats and module.momentum is not None and self._momentum.get(name) != module.momentum:
            self._momentum[name] = module.momentum
            scene.fact("model.batchnorm_momentum", dict(self._momentum))
        x: Any = args[0] if args else None
        if not readable(x) or module.running_mean is None or module.running_var is None or x.dim() < 2:
            return None
        running = torch.stack([module.running_mean, module.running_var])
        self._seen[name] = (_moments(module, x, output), running, module.eps)
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        seen, self._seen = self._seen, {}
        if not seen:
            return None
        if self._names != tuple(seen):
            self._names = tuple(seen)
        device = next(iter(seen.values()))[1].device
        widths = [running.shape[1] for _, running, _ in seen.values()]
        eps = torch.tensor([eps for _, _, eps in seen.values()]).repeat_interleave(torch.tensor(widths))
        eps = eps.to(device, non_blocking=True)
        now, then = (torch.cat([wide(v[i]).to(device) for v in seen.values()], 1) for i in (0, 1))
        shift = (now[0] - then[0]).abs() / (then[1] + eps).sqrt()
        stretch = ((now[1].clamp_min(0) + eps) / (then[1] + eps)).log().abs()
        mean, var = (torch.stack([part.median() for part in gap.split(widths)]) for gap in (shift, stretch))
        return {"bn_mean_gap/module": Row(self._names, mean), "bn_var_gap/module": Row(self._names, var)}


def _moments(module: Any, x: Tensor, output: Any) -> Tensor:
    """Mean and variance of each channel of a batch: what the layer has kept for its backward (unless hooks of the user's
    stand before it), else a sample's. (2, C)"""
    node = output.grad_fn if isinstance(output, Tensor) and _hooks(False) is None else None
    mean, scale = getattr(node, "_saved_result1", None), getattr(node, "_saved_result2", None)
    if isinstance(mean, Tensor) and isinstance(scale, Tensor) and mean.shape == scale.shape == module.running_mean.shape:
        return torch.stack([wide(mean), wide(scale).pow(-2) - module.eps])
    rows = wide(sampled_rows(x.detach(), SAMPLE_ROWS))
    over = [0, *range(2, rows.dim())]
    mean = rows.mean(over)
    return torch.stack([mean, (rows * rows).mean(over) - mean * mean])


class Attention(Probe):
    """`attn_entropy` (lowest head) and `attn_logit_max`, for fused attention and for a softmax over (…, T, S)."""

    cadence = "full"

    def __init__(self) -> None:
        self._waiting: list[_Asked | _Found] = []
        self._seen: dict[str, _Asked | _Found] = {}
        self._names: tuple[str, ...] = ()

    def on_attention(
        self, scene: Scene, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Reading | None:
        found = _fused(args, kwargs) if kind == "fused" else _softmax(args, output)
        if found is not None and len(self._waiting) < 64:
            self._waiting.append(found)
        return None

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        """The first module to return after an attention is its output projection or the attention module itself."""
        if self._waiting:
            own = name if module._modules or "." not in name else name.rpartition(".")[0]
            for i, found in enumerate(self._waiting):
                self._seen.setdefault(own if not i else f"{own}#{i}", found)
            self._waiting = []
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        for i, found in enumerate(self._waiting):
            self._seen[f"attention#{i}"] = found
        seen, self._seen, self._waiting = self._seen, {}, []
        if not seen:
            return None
        if self._names != tuple(seen):
            self._names = tuple(seen)
        low, top = (torch.stack(values) for values in zip(*_worked_out(list(seen.values()))))
        return {"attn_entropy/module": Row(self._names, low), "attn_logit_max/module": Row(self._names, top)}


_Found = tuple[Tensor, Tensor]  # lowest entropy of a head, largest logit


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an attention was made of, kept until all are worked out in one go."""

    query: Tensor  # some rows of the first sequence (H, Q, D)
    key: Tensor  # (H, S, D)
    rows: Tensor | None  # which rows, where no query may look ahead
    scale: float


def _fused(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Asked | _Found | None:
    """From query and key of the first sequence: recomputed, because the fused kernel never shows its weights."""
    query: Any = args[0] if args else kwargs.get("query")
    key: Any = args[1] if len(args) > 1 else kwargs.get("key")
    mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
    causal = args[5] if len(args) > 5 else kwargs.get("is_causal", False)
    scale = args[6] if len(args) > 6 else kwargs.get("scale")
    if not readable(query) or not readable(key) or query.dim() < 3 or key.shape[-2] < 2:
        return None
    q, k = (t.detach().reshape(-1, *t.shape[-3:])[0] if t.dim() > 3 else t.detach()[:1] for t in (query, key))
    step = max(q.shape[-2] // QUERIES, 1)
    some, rows = q[:, ::step], torch.arange(0, q.shape[-2], step, device=q.device) if causal else None
    scale = float(scale) if scale is not None else q.shape[-1] ** -0.5
    if isinstance(mask, Tensor) or k.numel() > KEYS:
        low, top = _seen_by([_Asked(some, k, rows, scale)], mask, step)
        return low[0], top[0]
    return _Asked(some.clone(), k.clone(), rows, scale)


def _worked_out(every: list[_Asked | _Found]) -> list[_Found]:
    alike: dict[Any, list[int]] = {}
    found = {i: one for i, one in enumerate(every) if not isinstance(one, _Asked)}
    asked = {i: one for i, one in enumerate(every) if isinstance(one, _Asked)}
    for i, one in asked.items():
        kind = (one.query.shape, one.key.shape, one.query.dtype, one.query.device, one.rows is None, one.scale)
        alike.setdefault(kind, []).append(i)
    for places in alike.values():
        found |= zip(places, zip(*_seen_by([asked[i] for i in places])))
    return [found[i] for i in range(len(every))]


def _seen_by(group: list[_Asked], mask: Any = None, step: int = 1) -> tuple[Tensor, Tensor]:
    """Lowest entropy and largest logit of each of several attentions of one shape. 2 x (N,)"""
    q, k = (wide(torch.stack([getattr(one, what) for one in group])) for what in ("query", "key"))
    if q.shape[1] != k.shape[1]:  # grouped queries: each key head serves several
        k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    logits, rows = (q @ k.transpose(-1, -2)) * group[0].scale, group[0].rows
    top = logits.abs().amax((1, 2, 3))
    if rows is not None:
        logits = logits.masked_fill(torch.arange(k.shape[-2], device=q.device)[None, :] > rows[:, None], -math.inf)
    if isinstance(mask, Tensor):
        own = mask.detach()
        own = own[(0,) * (own.dim() - 3)] if own.dim() > 3 else own
        own = own[..., ::step, :] if own.dim() >= 2 and own.shape[-2] > 1 else own
        logits = logits.masked_fill(~own, -math.inf) if own.dtype == torch.bool else logits + own
    return _lowest(torch.softmax(logits, -1)), top


def _softmax(args: tuple[Any, ...], output: Tensor) -> _Found | None:
    """From the weights of a plain softmax, if its shape is an attention's: (B, H, T, S), or square (B, T, T)."""
    square = output.dim() == 3 and output.shape[-1] == output.shape[-2]
    if not readable(output) or output.shape[-2] < 2 or not (output.dim() == 4 or square) or not args or not readable(args[0]):
        return None
    weights, logits = wide(output.detach()[0]), wide(args[0].detach()[0])
    finite = logits.masked_fill(logits < -1e30, 0.0)
    step = max(weights.shape[-2] // QUERIES, 1)
    return _lowest(weights[..., ::step, :]), finite.abs().amax().clamp_max(3e38)


def _lowest(weights: Tensor) -> Tensor:
    """Mean entropy over queries of the head that has least; queries that may look at one key only do not count. (…)"""
    open_ = (weights > 0).sum(-1) > 1
    each = torch.where(open_, entropy(weights), torch.zeros((), device=weights.device))
    per_head = each.sum(-1) / open_.sum(-1).clamp_min(1)
    return per_head.amin(-1) if per_head.dim() else per_head


PROBES = [Outputs, BatchNormGap, Attention]
