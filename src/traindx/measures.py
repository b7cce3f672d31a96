"""Making numbers of tensors: tensors in, small tensors out, never a wait for a device.

Only operations that run at memory speed are used on whole tensors (2-norm, sum, aminmax: `reference/performance.md`);
everything else works on a sketch, a fixed spread of a few hundred entries.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from traindx import innards

NUMBERS = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}  # as they lie in memory
_READ: dict[torch.dtype, Any] = {dtype: kind.from_address for dtype, kind in NUMBERS.items()}
_READ[torch.int64] = ctypes.c_int64.from_address
_PLAIN = (Tensor, torch.nn.Parameter)
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_wrapped = innards.functorch_wrapped
SAMPLE = 16_384  # entries of an activation that are looked at
CHUNKS = 64  # spread over it in so many pieces: a first-16K sample misses 34 % of the spread, this one 5 % (performance 2d)


def peek(tensor: Tensor) -> float | None:
    """The value of a one-element CPU tensor, read from memory without a dispatch; None where that is not possible.

    >>> peek(torch.tensor(2.5))
    2.5
    """
    read = _READ.get(tensor.dtype)
    if (
        read is None
        or not tensor.is_cpu
        or type(tensor) not in _PLAIN
        or tensor.numel() != 1
        or tensor.is_neg()
        or _wrapped(tensor)
    ):
        return None
    return float(read(tensor.data_ptr()).value)


def look(own: Tensor) -> float | None:
    """The same of a tensor that is known to be plain, with one element: a result of our own, or of a loss function."""
    read = _READ.get(own.dtype)
    return float(read(own.data_ptr()).value) if read is not None and own.is_cpu else None


def peek_all(tensor: Tensor) -> list[float] | None:
    """The values of a small contiguous CPU tensor, read from memory without a dispatch; None where that is not possible."""
    kind = NUMBERS.get(tensor.dtype)
    if kind is None or not tensor.is_cpu or type(tensor) not in _PLAIN or _wrapped(tensor):
        return None
    if tensor.layout is not torch.strided or tensor.is_neg() or not tensor.is_contiguous():
        return None
    n = tensor.numel()
    return list((kind * n).from_address(tensor.data_ptr())) if n else []


def readable(tensor: Any) -> bool:
    """Whether plain reductions work on it: dense, floating, not empty, real memory, no wrapper of a transform."""
    kind = type(tensor)
    return (
        (kind in _PLAIN or _reducible(kind))
        and tensor.dtype in _FLOATS
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and not _wrapped(tensor)
        and tensor.numel() > 0
    )


def _reducible(kind: type[Any]) -> bool:
    """Whether a class is a tensor that holds its own numbers."""
    return (
        issubclass(kind, Tensor)
        and not hasattr(kind, "__tensor_flatten__")
        and kind.__torch_dispatch__ is Tensor.__torch_dispatch__
    )


def wide(tensor: Tensor) -> Tensor:
    """In float32 at least: half-precision sums overflow."""
    return tensor if tensor.dtype in NUMBERS else tensor.float()


def grouped(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Places of small tensors of one shape, kind and device together; a large one alone. One call for hundreds of small
    tensors, stacked, takes a tenth of the time of as many calls."""
    alike: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensors):
        key: Any = (tensor.shape, tensor.dtype, tensor.device) if tensor.numel() <= SAMPLE else i
        alike.setdefault(key, []).append(i)
    return list(alike.values())


def piles(tensors: Sequence[Tensor], groups: list[list[int]]) -> Iterator[Tensor]:
    """Each group as rows, in float32 at least; one at a time, so that no model is copied whole. (K, N) each"""
    for places in groups:
        stack = torch.stack([tensors[i] for i in places]) if len(places) > 1 else tensors[places[0]]
        yield wide(stack).reshape(len(places), -1)


def in_order(groups: list[list[int]], columns: Sequence[Tensor]) -> Tensor:
    """What was found of each group's tensors, in the order of the tensors. (N,)"""
    if len(groups) == 1:
        return columns[0]
    device = columns[0].device
    order = torch.tensor([i for places in groups for i in places]).argsort().to(device, non_blocking=True)
    return torch.cat([column.to(device) for column in columns])[order]


def norms(tensors: Sequence[Tensor]) -> Tensor:
    """The 2-norm of each tensor. (N,)

    >>> norms([torch.tensor([3.0, 4.0]), torch.tensor([1.0]), torch.tensor([0.0, 2.0])]).tolist()
    [5.0, 1.0, 2.0]
    """
    groups = grouped(tensors)
    return in_order(groups, [torch.linalg.vector_norm(rows, dim=1) for rows in piles(tensors, groups)])


def moments(tensors: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """2-norm, sum and largest magnitude of each tensor. 3 x (N,)

    >>> [m.tolist() for m in moments([torch.tensor([3.0, -4.0]), torch.tensor([[1.0]])])]
    [[5.0, 1.0], [-1.0, 1.0], [4.0, 1.0]]
    """
    groups = grouped(tensors)
    found = [
        (torch.linalg.vector_norm(rows, dim=1), rows.sum(1), torch.maximum(rows.amax(1), -rows.amin(1)))
        for rows in piles(tensors, groups)
    ]
    norm, total, top = (in_order(groups, column) for column in zip(*found))
    return norm, total, top


@lru_cache(maxsize=4096)
def stride_for(numel: int, last: int, entries: int) -> int:
    """The step of a sketch of `entries`: never a multiple of the row length, so that it meets every column.

    >>> stride_for(512 * 512, 512, 256)
    1023
    """
    step = max(numel // entries, 1)
    while step > 1 and math.gcd(step, last) > 1:
        step -= 1
    return step


def sketch(tensor: Tensor, entries: int) -> Tensor:
    """At most `entries` entries, evenly spread; a view where the tensor is contiguous. (k,)"""
    flat = tensor.detach().reshape(-1)
    n = flat.shape[0]
    if n <= entries:
        return flat
    return flat[:: stride_for(n, tensor.shape[-1], entries)][:entries]


def sketched(tensors: Sequence[Tensor], entries: int, pad: float = math.nan) -> tuple[Tensor, list[int]]:
    """A sketch of each tensor as a row of its own, and how many entries each has; the rest of a row is `pad`. (N, K)

    >>> sketched([torch.tensor([1.0, 2.0]), torch.tensor([3.0])], 64, pad=0.0)
    (tensor([[1., 2.],
            [3., 0.]]), [2, 1])
    """
    counts = [min(t.numel(), entries) for t in tensors]
    kind = torch.float64 if any(t.dtype is torch.float64 for t in tensors) else torch.float32
    out = torch.full((len(tensors), max(counts)), pad, dtype=kind, device=tensors[0].device)
    for places in grouped(tensors):
        first = tensors[places[0]]
        n = first.numel()
        if len(places) == 1:
            out[places[0], : counts[places[0]]] = sketch(first, entries)
            continue
        rows = torch.stack([tensors[i] for i in places]).reshape(len(places), -1)
        if n > entries:
            rows = rows[:, :: stride_for(n, first.shape[-1], entries)][:, :entries]
        where = torch.tensor(places).to(out.device, non_blocking=True)
        out[where, : counts[places[0]]] = rows.to(out)
    return out, counts


def quantiles(rows: Tensor, shares: Sequence[float], counts: Tensor) -> Tensor:
    """Quantiles of each row of a padded table, linear between ranks; `counts` are the entries of each row. (N, Q)

    >>> quantiles(torch.tensor([[3.0, 1.0, math.nan]]), [0.5], torch.tensor([2.0])).tolist()
    [[2.0]]
    """
    ordered = torch.sort(rows, dim=1).values  # NaN (padding) sorts last
    rank = torch.tensor(list(shares), dtype=torch.float32, device=rows.device)
    place = (counts.to(torch.float32).unsqueeze(1) - 1) * rank
    low = torch.gather(ordered, 1, place.long())
    return low + (place - place.floor()) * (torch.gather(ordered, 1, place.ceil().long()) - low)


def kurtosis(rows: Tensor) -> Tensor:
    """Fourth standardised moment of each row of a padded table: 3 for a Gaussian. (N,)"""
    away = rows - torch.nanmean(rows, dim=1, keepdim=True)
    second = torch.nanmean(away**2, dim=1)
    return torch.nanmean(away**4, dim=1) / second.clamp_min(1e-38) ** 2


def spread(tensor: Tensor) -> Tensor:
    """A copy of at most 16 K entries of an activation, in 64 spread pieces. (N,)"""
    own = tensor.detach()
    n = own.numel()
    if n <= SAMPLE:
        return own.reshape(-1).clone()
    flat = own if own.is_contiguous() else own.reshape(-1)
    pieces = torch.as_strided(flat, (CHUNKS, SAMPLE // CHUNKS), (n // CHUNKS, 1))
    return pieces.clone(memory_format=torch.contiguous_format).view(-1)


def sampled_rows(tensor: Tensor, entries: int) -> Tensor:
    """The first samples (rows) of a batch that hold at most `entries` entries, at least one."""
    each = max(tensor.numel() // max(tensor.shape[0], 1), 1)
    return tensor[: max(entries // each, 1)]


def entropy(weights: Tensor) -> Tensor:
    """Entropy over the last axis, as a share of ln(entries above zero). (…)"""
    held = (weights > 0).sum(-1).clamp_min(2).to(weights.dtype)
    return torch.special.entr(weights).sum(-1) / held.log()


def spectral_norm(matrix: Tensor, start: Tensor, rounds: int = 2) -> tuple[Tensor, Tensor]:
    """The largest singular value by power iteration from `start`, and the vector to start from next time."""
    v = start
    for _ in range(rounds):
        u = normalize(matrix @ v, dim=0)
        v = normalize(matrix.t() @ u, dim=0)
    return torch.linalg.vector_norm(matrix @ v), v


def effective_rank(features: Tensor) -> Tensor:
    """exp(entropy) of the singular values of centred features; NaN where they are not finite. ()"""
    centred = features - features.mean(0)
    gram = centred @ centred.t() if centred.shape[0] <= centred.shape[1] else centred.t() @ centred
    held = gram.double().nan_to_num(0.0, 0.0, 0.0)  # of NaN there are no eigenvalues: LAPACK gives up
    sigma = torch.linalg.eigvalsh(held).clamp_min(0).sqrt()
    share = sigma / sigma.sum().clamp_min(1e-30)
    return torch.special.entr(share).sum().exp() + 0 * gram.sum()  # NaN stays NaN
