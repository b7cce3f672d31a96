"""Values that do not belong: not finite, or 50 robust deviations away from the first 2,000 samples; constant samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from traindx.measures import peek
from traindx.probes.read.common.batches import Batch, host

FIRST_SAMPLES = 2_000  # CATALOGUE DATA001
FAR = 50.0  # robust deviations, CATALOGUE DATA001
_COLUMNS = 64  # features looked at
_LISTED = 20
Drawn = tuple[Any, Any] | None  # (indices of a batch, the data set they belong to)


class Extremes:
    """Counts bad samples of a training feed in host memory and lists the first of them."""

    def __init__(self) -> None:
        self.listed: list[dict[str, Any]] = []
        self.drawn: Drawn = None  # of the batch at hand
        self._rows: list[NDArray[np.float32]] = []
        self._held = 0
        self._batches: list[tuple[int, int, Drawn]] = []  # step, samples and indices of the rows held
        self._middle: NDArray[np.float32] | None = None
        self._reach: NDArray[np.float32] | None = None  # FAR deviations; infinite where a feature does not vary

    @property
    def usual(self) -> float | None:
        """The robust deviation of an ordinary feature: of those that vary, the one in the middle."""
        if self._reach is None:
            return None
        varies = self._reach[np.isfinite(self._reach)]
        return float(np.median(varies)) / FAR if len(varies) else None

    def range(self, batch: Batch, step: int) -> dict[str, Any]:
        """Smallest and largest input of the whole batch, and how many entries of inputs and target are not finite."""
        main = batch.main
        if main is None or not main.is_floating_point():
            return {}
        low, high = torch.aminmax(main.detach())
        out: dict[str, Any] = {"batch/input_min": low.float(), "batch/input_max": high.float()}
        seen = peek(low.float()), peek(high.float())
        if None in seen:  # on an accelerator: NaN and infinity show in the two numbers themselves
            out["batch/input_nonfinite"] = 1.0 - torch.isfinite(low + high).float()
            return out
        bad = 0
        if not np.isfinite(np.array(seen, float)).all():
            bad += self._not_finite(main, "input", step)
        if batch.target is not None and batch.target.is_floating_point() and batch.target.device.type == "cpu":
            ends = [peek(e.float()) for e in torch.aminmax(batch.target.detach())]
            if not np.isfinite(np.array(ends, float)).all():
                bad += self._not_finite(batch.target, "target", step)
        out["batch/input_nonfinite"] = float(bad)
        return out

    def _not_finite(self, tensor: Tensor, field: str, step: int) -> int:
        array = host(tensor.detach().float())
        if array is None:
            return 1
        bad = ~np.isfinite(array.reshape(len(array), -1))
        self._list(step, field, "nonfinite", np.flatnonzero(bad.any(1)))
        return int(bad.sum())

    def far(self, batch: Batch, step: int) -> dict[str, Any]:
        """How many samples have a value far outside the first 2,000; integers, ids and constant features are left out."""
        main = batch.main
        if main is None or main.ndim < 2 or not main.is_floating_point():
            return {}
        array = host(main.detach().float() if main.dtype != torch.float32 else main.detach())
        if array is None:
            return {}
        flat = array.reshape(len(array), -1)
        flat = flat[:, :: -(-flat.shape[1] // _COLUMNS)]
        if self._middle is None:
            if self._rows and self._rows[0].shape[1] != flat.shape[1]:
                return {}
            self._rows.append(flat.copy())
            self._batches.append((step, len(flat), self.drawn))
            self._held += len(flat)
            if self._held < FIRST_SAMPLES:
                return {}
            flat = self._learn(one_scale=main.ndim > 2)
        if self._middle is None or self._reach is None or flat.shape[1] != len(self._middle):
            return {}
        away = np.asarray((np.abs(flat - self._middle) > self._reach).any(1))
        if away.any():
            self._list_far(step, away)
        self._batches = []
        return {"batch/input_extreme": float(away.sum())}

    def _list_far(self, step: int, away: NDArray[np.bool_]) -> None:
        """List the samples by their batches; the first time these are all that were held."""
        at, now = 0, self.drawn
        for then, count, drawn in self._batches or [(step, len(away), self.drawn)]:
            self.drawn = drawn
            self._list(then, "input", "extreme", np.flatnonzero(away[at : at + count]))
            at += count
        self.drawn = now

    def _learn(self, *, one_scale: bool) -> NDArray[np.float32]:
        """Middle and reach of each feature; the pixels of an image have one scale, that of those that vary most."""
        rows = np.concatenate(self._rows)
        self._rows = []
        good = rows[np.isfinite(rows).all(1)]
        if not len(good):
            return rows
        middle = np.median(good, 0)
        spread = 1.4826 * np.median(np.abs(good - middle), 0)
        spread = np.where(spread > 0, spread.max(), 0.0) if one_scale else spread
        self._middle = middle.astype(np.float32)
        self._reach = np.where(spread > 0, FAR * spread, np.inf).astype(np.float32)
        return rows

    def constant(self, batch: Batch, step: int) -> None:
        """List images without any variation."""
        main = batch.main
        if main is None or main.ndim < 3 or not main.is_floating_point() or main.device.type != "cpu":
            return
        array = host(main)
        if array is None or len(self.listed) >= _LISTED:
            return
        flat = array.reshape(len(array), -1)
        self._list(step, "input", "constant", np.flatnonzero(flat.max(1) == flat.min(1)))

    def _list(self, step: int, field: str, kind: str, samples: NDArray[np.int64]) -> None:
        if len(samples) and len(self.listed) < _LISTED:
            places = [int(s) for s in samples[:20]]
            row = {"step": step, "field": field, "kind": kind, "samples": places}
            self.listed.append(row | ({"indexes": found} if (found := _indexes(self.drawn, places)) else {}))


def _indexes(drawn: Drawn, places: list[int]) -> list[int]:
    """Indices in the data set itself, also where the loader draws from a subset of it; none when they are not known."""
    if drawn is None:
        return []
    indices, dataset = drawn
    try:
        found = [indices[place] for place in places]
        for _ in range(4):
            chosen, inner = getattr(dataset, "indices", None), getattr(dataset, "dataset", None)
            if chosen is None or inner is None:
                break
            found, dataset = [chosen[i] for i in found], inner
        return [int(i) for i in found]
    except (TypeError, ValueError, IndexError, KeyError):  # a sampler of another kind: streams give None, users give words
        return []
