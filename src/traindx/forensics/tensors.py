"""Small questions about tensors: which are in here, are they finite, what is their range."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors_in(v)]
    if isinstance(value, list | tuple):
        return [t for v in value for t in tensors_in(v)]
    return []


def scalars_in(value: Any) -> list[float]:
    """Every plain number in nested tuples, lists and dicts."""
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, dict):
        return [s for v in value.values() for s in scalars_in(v)]
    if isinstance(value, list | tuple):
        return [s for v in value for s in scalars_in(v)]
    return []


def finite(t: Tensor) -> bool:
    """Whether every element is a finite number (integers and empty tensors always are)."""
    # The product with zero is NaN exactly where the value is not finite, and a sum is far cheaper than isfinite().all()
    if not (t.is_floating_point() or t.is_complex()) or t.numel() == 0 or t.is_meta:
        return True
    if t.layout is not torch.strided:
        t = t.coalesce().values() if t.layout is torch.sparse_coo else t.values()
    return bool((t.detach() * 0).sum() == 0)


def has_nan(t: Tensor) -> bool:
    """Whether an element is NaN."""
    return (t.is_floating_point() or t.is_complex()) and bool(torch.isnan(t.detach()).any())


def health(value: Any) -> str:
    """The worst thing among the tensors and numbers of a call: finite, infinite or nan."""
    tensors, scalars = tensors_in(value), scalars_in(value)
    if all(finite(t) for t in tensors) and all(abs(s) < float("inf") for s in scalars):
        return "finite"
    return "nan" if any(s != s for s in scalars) or any(has_nan(t) for t in tensors) else "infinite"


def kind(value: float) -> str:
    """nan, inf or -inf."""
    return "nan" if value != value else ("inf" if value > 0 else "-inf")


def unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index in a tensor of `shape` of its element number `flat`.

    >>> unravel(5, (2, 3))
    (1, 2)
    """
    out = []
    for size in reversed(shape):
        flat, rest = divmod(flat, max(size, 1))
        out.append(rest)
    return tuple(reversed(out))
