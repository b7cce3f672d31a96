"""Making numbers of tensors: tensors in, small tensors out, never a wait for a device."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_PEEK = {torch.float32: ctypes.c_float.from_address, torch.float64: ctypes.c_double.from_address}


def peek(tensor: Tensor) -> float | None:
    """The value of a one-element CPU tensor, read from memory without a dispatch; None where that is not possible.

    >>> peek(torch.tensor(2.5))
    2.5
    """
    read = _PEEK.get(tensor.dtype)
    if read is None or type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.device.type != "cpu":
        return None
    if tensor.layout is not torch.strided or tensor.is_neg() or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return None
    return read(tensor.data_ptr()).value


def readable(tensor: Any) -> bool:
    """Whether plain reductions work on it: dense, floating, not empty, real memory, no wrapper of a transform."""
    return (
        isinstance(tensor, Tensor)
        and tensor.layout is torch.strided
        and tensor.dtype in _FLOATS
        and tensor.device.type != "meta"
        and tensor.numel() > 0
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        and not hasattr(type(tensor), "__tensor_flatten__")
        and not tensor.is_nested
    )


_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def norms(tensors: Sequence[Tensor]) -> Tensor:
    """The 2-norm of each tensor, in float32 or better."""
    wide = [t if t.dtype in (torch.float32, torch.float64) else t.float() for t in tensors]
    return torch.stack([n.to(torch.float32) for n in torch._foreach_norm(wide)])


def nan(n: int) -> Tensor:
    """`n` times NaN on the CPU."""
    return torch.full((n,), float("nan"), dtype=torch.float32, device="cpu")
