"""Reading one batch, whatever its shape: what is input, what is target, what its bytes are, how its numbers lie.

Loader batches live in host memory, so their bytes are hashed where they are, without a copy. Tensors that already sit on
an accelerator are hashed there (`device_hashes`) and read later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from traindx.probes.read.common.digest import hasher, number
from traindx.probes.read.common.losses import plain

Hashes = NDArray[np.uint64]

# What people call the target in a batch that is a mapping (documented aliases, lower case).
TARGET_NAMES = ("labels", "label", "targets", "target", "y", "label_ids")
_ROW_BYTES = 4096  # a sample is hashed whole up to this size, beyond it every k-th word is
_CHUNKS, _CHUNK = 8, 256  # of a batch's bytes that make its fingerprint
_MASK52 = (1 << 52) - 1  # exact in a float64
_WIDE = {torch.bfloat16: torch.int16, torch.bool: torch.uint8, torch.float16: torch.int16}


@dataclass(frozen=True)
class Field:
    """One tensor of a batch with its place in it: `0`, `1`, `input_ids`, `0.image`."""

    place: str
    tensor: Tensor


def fields(batch: Any, place: str = "", depth: int = 4) -> Iterator[Field]:
    """Every tensor in a nested batch, in order; arrays count as tensors, everything else is passed over."""
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "fiub" and batch.flags.writeable:
        batch = torch.from_numpy(batch)
    if isinstance(batch, Tensor):
        if plain(batch) and batch.ndim:
            yield Field(place or "0", batch)
    elif depth and isinstance(batch, Mapping):
        for key, value in batch.items():
            yield from fields(value, f"{place}.{key}" if place else str(key), depth - 1)
    elif depth and isinstance(batch, list | tuple) and len(batch) <= 64:
        for i, value in enumerate(batch):
            yield from fields(value, f"{place}.{i}" if place else str(i), depth - 1)


@dataclass(frozen=True)
class Batch:
    """A batch with its parts told apart."""

    inputs: tuple[Tensor, ...]
    target: Tensor | None
    mask: Tensor | None
    samples: int
    main: Tensor | None  # the input whose numbers are described: the first floating one, else the first
    ids: tuple[Tensor, ...] = ()  # one whole number per sample, not the target: lengths, indices, users and items


def parted(found: list[Field], target_place: str | None = None) -> Batch | None:
    """Inputs and target of a batch; `target_place` is where the loss call's target was seen to come from.

    Without that: a usual name in a mapping, else the last of several. Fields with another first size than the first one,
    and 1-D integers that are not the target (lengths, indices), are no inputs.
    """
    if not found:
        return None
    n = int(found[0].tensor.shape[0])
    fit = [f for f in found if int(f.tensor.shape[0]) == n]
    target = next((f for f in fit if f.place == target_place), None) or _by_name(fit)
    if target is None and len(fit) > 1 and fit[-1].place.rsplit(".", 1)[-1].isdigit():
        target = fit[-1]
    mask = next((f.tensor for f in fit if f.place.rsplit(".", 1)[-1] == "attention_mask"), None)
    rest = [f.tensor for f in fit if f is not target]
    inputs = tuple(t for t in rest if t.ndim > 1 or t.is_floating_point())
    ids = tuple(t for t in rest if t.ndim == 1 and not t.is_floating_point())
    main = next((t for t in inputs if t.is_floating_point()), inputs[0] if inputs else None)
    return Batch(inputs, target.tensor if target else None, mask, n, main, ids)


def _by_name(found: list[Field]) -> Field | None:
    return next((f for f in found if f.place.rsplit(".", 1)[-1].lower() in TARGET_NAMES), None)


def host(tensor: Tensor) -> NDArray[Any] | None:
    """A view of a host tensor as an array, without a copy where it is contiguous; None for other devices."""
    if tensor.device.type != "cpu":
        return None
    tensor = tensor.detach()
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_neg().resolve_conj()
    if tensor.dtype in _WIDE:
        tensor = tensor.contiguous().view(_WIDE[tensor.dtype])
    return np.asarray(tensor.contiguous())


def sample_hashes(tensors: tuple[Tensor, ...], pad: int | None = None) -> Hashes | None:
    """A content hash per sample over all of these tensors; None when they are not in host memory.

    With `pad`, rows of token ids and all that is as wide (masks, types) are hashed without the padding around them: how far
    a sample is padded is up to its batch.
    """
    total: Hashes | None = None
    ends: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    for i, tensor in enumerate(tensors):
        array = host(tensor)
        if array is None:
            return None
        if i == 0 and pad is not None and array.ndim == 2 and not tensor.is_floating_point():
            ends = _bounds(array, pad)
        rows = _words(array)
        cut = ends is not None and rows.shape == tensors[0].shape
        parts = [row[a:b] for row, a, b in zip(rows, *ends)] if cut and ends is not None else rows
        own = np.fromiter((number(part) for part in parts), np.uint64, len(rows))
        total = own if total is None else (total * np.uint64(0x9E3779B97F4A7C15)) ^ own
    return total


def _bounds(ids: NDArray[Any], pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where every row begins and ends without the padding around it."""
    real = ids != pad
    width = real.shape[1]
    some = real.any(1)
    first = np.where(some, real.argmax(1), 0)
    return first, np.where(some, width - real[:, ::-1].argmax(1), 0)


def _words(array: NDArray[Any]) -> NDArray[Any]:
    """(N, bytes) of the rows of an array, thinned evenly where a row is long."""
    rows = array.reshape(len(array), -1)
    size = rows.shape[1] * rows.itemsize
    if size > _ROW_BYTES:
        rows = np.ascontiguousarray(rows[:, :: -(-size // _ROW_BYTES)])
    return rows


_COEFFICIENTS: dict[tuple[int, torch.device], Tensor] = {}


def device_hashes(tensor: Tensor) -> Tensor | None:
    """(N,) content hashes computed where the tensor lives: Σ aᵢ·wordᵢ mod 2⁶⁴ over at most 1,024 words a sample."""
    rows = tensor.detach().reshape(tensor.shape[0], -1)
    rows = rows[:, :: -(-rows.shape[1] // 1024)]
    if rows.dtype in (torch.float32, torch.int32):
        words = rows.contiguous().view(torch.int32).long()
    elif rows.dtype == torch.float64:
        words = rows.contiguous().view(torch.int64)
    elif rows.dtype in _WIDE:
        words = rows.contiguous().view(_WIDE[rows.dtype]).long()
    else:
        words = rows.long()
    key = (words.shape[1], words.device)
    if key not in _COEFFICIENTS:
        draw = np.random.default_rng(52).integers(-(2**62), 2**62, words.shape[1]) | 1
        _COEFFICIENTS[key] = torch.as_tensor(draw, device=words.device)
    return (words * _COEFFICIENTS[key]).sum(1)


def fingerprint(batch: Batch, *, whole: bool = False) -> int | None:
    """A 52-bit content hash of the inputs of a batch in host memory: eight spread pieces of each, or `whole`.

    Where only ids is fed, of these; None where there is nothing to tell one batch from another.
    """
    told = batch.inputs or batch.ids
    if not told:
        return None
    digest = hasher()
    for tensor in told[:4]:
        array = host(tensor)
        if array is None:
            return None
        flat = array.reshape(-1).view(np.uint8)
        if whole or len(flat) <= 2 * _CHUNKS * _CHUNK:
            digest.update(flat.data)
        else:
            stride = (len(flat) - _CHUNK) // (_CHUNKS - 1)
            for i in range(_CHUNKS):
                digest.update(flat[i * stride : i * stride + _CHUNK].data)
    return int(digest.intdigest()) & _MASK52


def label_print(target: Tensor) -> int | None:
    """A hash of a batch's targets."""
    array = host(target)
    return None if array is None else number(array.reshape(-1).view(np.uint8)[:65536].data) & _MASK52


def class_labels(target: Tensor | None, most: int = 10_000) -> NDArray[np.int64] | None:
    """The targets as class ids when they are one whole number per sample; None otherwise."""
    if target is None or target.dtype.is_floating_point or target.dtype.is_complex:
        return None
    if target.ndim > 1 and target.numel() != target.shape[0]:
        return None
    array = host(target)
    if array is None:
        return None
    flat = array.reshape(-1).astype(np.int64)
    return flat if len(flat) and flat.max() < most and flat.min() >= -most else None


def channel_axis(tensor: Tensor) -> int | None:
    """Which axis holds channels or features: 1 for (N, C, …), the last for tables, sequences and images stored last."""
    if tensor.ndim < 2:
        return None
    if tensor.ndim == 2:
        return 1
    sizes = tuple(tensor.shape)
    if tensor.ndim == 3:
        return 1 if sizes[1] <= sizes[2] else 2
    return tensor.ndim - 1 if sizes[-1] <= 4 < sizes[1] else 1


@dataclass(frozen=True)
class Numbers:
    """How the numbers of one batch lie, on their device."""

    mean: Tensor
    var: Tensor
    low: Tensor
    high: Tensor
    channel_mean: Tensor | None  # (C,)
    channel_var: Tensor | None
    integral: Tensor  # 1.0 when all are whole numbers between 0 and 255


def numbers(tensor: Tensor, most: int = 16_384, channels: int = 64) -> Numbers:
    """Mean, variance, range and channel statistics over at most `most` elements of whole samples, in a few fast passes."""
    each = max(1, tensor.numel() // tensor.shape[0])
    part = tensor.detach()[:: max(1, -(-tensor.shape[0] * each // most))].float()
    axis = channel_axis(part)
    if each > most and part.ndim > 2 and axis is not None:  # a large image: every k-th row of every channel
        along = next(d for d in range(1, part.ndim) if d != axis)
        part = part.index_select(along, torch.arange(0, part.shape[along], -(-each // most), device=part.device))
    low, high = torch.aminmax(part)
    whole = ((part == part.round()).all() & (low >= 0) & (high <= 255)).float()
    if axis is None:
        mean = part.mean()
        return Numbers(mean, ((part - mean) ** 2).mean(), low, high, None, None, whole)
    others = [d for d in range(part.ndim) if d != axis]
    means = part.mean(others, keepdim=True)
    spread = ((part - means) ** 2).mean(others)
    means = means.reshape(-1)
    mean = means.mean()
    var = spread.mean() + ((means - mean) ** 2).mean()
    step = -(-len(means) // channels)
    return Numbers(mean, var, low, high, means[::step], spread[::step], whole)


def moving_windows(tensor: Tensor, most: int = 24) -> bool:
    """Whether the samples of a batch are windows of one series, each moved on by the same number of places.

    >>> moving_windows(torch.arange(20.0).unfold(0, 6, 2))
    True
    """
    rows = host(tensor[:16]) if tensor.ndim in (2, 3) and tensor.is_floating_point() else None
    if rows is None or len(rows) < 4 or rows.shape[1] < 4:
        return False
    for by in range(1, min(most, rows.shape[1] - 2)):
        if np.array_equal(rows[1, :-by], rows[0, by:]):
            return np.array_equal(rows[1:, :-by], rows[:-1, by:]) and bool((rows[0] != rows[0, :1]).any())
    return False
