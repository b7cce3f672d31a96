"""What one batch shows without its model: size, range of its targets, lengths and padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traindx.probes.read.common import batches, losses
from traindx.probes.read.common.batches import Batch
from traindx.probes.read.common.token_ids import TokenBatch, pad_id
from traindx.probes.read.data.feeds import Feed

_PAD_LOOKS = 8  # batches in which padding is looked for


def size(batch: Any) -> int:
    """Samples in a batch, looking no further than its first tensor."""
    for _ in range(4):
        if isinstance(batch, Tensor | np.ndarray):
            return int(batch.shape[0]) if batch.ndim else 0
        if isinstance(batch, Mapping) and batch:
            batch = next(iter(batch.values()))
        elif isinstance(batch, list | tuple) and batch:
            batch = batch[0]
        else:
            return 0
    return 0


def of_targets(target: Tensor | None) -> dict[str, Any]:
    if target is None or not losses.plain(target) or target.dtype == torch.bool:
        return {}
    real = losses.some(target, 16_384).float()
    low, high = torch.aminmax(real)
    out: dict[str, Any] = {"batch/label_min": low, "batch/label_max": high}
    if target.is_floating_point() and real.numel() > 1:
        var, mean = torch.var_mean(real)
        out |= {"batch/label_mean": mean, "batch/label_std": var.sqrt()}
    return out


def _tokens(parts: Batch) -> tuple[Tensor | None, Tensor | None]:
    """The token ids of a batch and their mask, where there is one: by its name, or ones and zeros next to the ids."""
    main = parts.main
    if main is None or main.ndim != 2:
        return None, None
    if not main.is_floating_point():
        return main, parts.mask if parts.mask is not None and parts.mask.shape == main.shape else None
    ids = next((t for t in parts.inputs if not t.is_floating_point() and t.shape == main.shape), None)
    marks = batches.host(main) if ids is not None and main.dtype != torch.bfloat16 else None
    return (ids, main) if marks is not None and bool(((marks == 0) | (marks == 1)).all()) else (None, None)


def lengths(feed: Feed, parts: Batch) -> dict[str, Any]:
    """Sequence length and padding of token batches in host memory; also what a curriculum would move."""
    turn = feed.turn
    main, mask = _tokens(parts)
    if main is None:
        return {}
    turn.mean += float(main.shape[1])
    turn.seen += 1
    if mask is not None:
        share = mask.float().mean()
        return {"batch/length": share * main.shape[1], "batch/pad_share": 1.0 - share}
    ids = batches.host(main)
    if ids is None:
        return {"batch/length": float(main.shape[1])}
    feed.top_id = max(feed.top_id, int(ids.max(initial=0)))
    if feed.pad is None and feed.pad_asked < _PAD_LOOKS:
        feed.pad_asked += 1
        feed.pad = pad_id([TokenBatch(ids.astype(np.int64), None, None, -100)])[0]
    if feed.pad is None:
        return {"batch/length": float(main.shape[1])}
    share = float((ids == feed.pad).mean())
    return {"batch/length": (1.0 - share) * main.shape[1], "batch/pad_share": share}
