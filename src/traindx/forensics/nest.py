"""Nests of tensors, numbers and words as JSON plus a table of tensors, and back: what capsules are written in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traindx.errors import NothingReadable

DEPTH = 32
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def pack(value: Any, table: dict[str, Tensor], name: str = "t", depth: int = 0) -> Any:
    """The value as plain JSON; its tensors go into `table` and are named there. What cannot be kept leaves its type."""
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value.astype(np.int64) if value.dtype.kind in "ui" else value)
    if isinstance(value, Tensor):
        if value.layout is not torch.strided or value.is_meta:
            return {"lost": str(value.layout)}
        key = f"{name}.{len(table)}"
        table[key] = value.detach().cpu().contiguous().clone()  # own memory: safetensors refuses tensors that share it
        return {"tensor": key}
    if depth > DEPTH:
        return {"lost": "nested too deep"}
    if isinstance(value, Mapping):
        return {"dict": [[pack(k, table, name, depth + 1), pack(v, table, name, depth + 1)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [pack(v, table, name, depth + 1) for v in value]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": "nan" if value != value else "inf" if value > 0 else "-inf"}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    return {"lost": type(value).__name__}


def unpack(tree: Any, table: Mapping[str, Tensor], depth: int = 0) -> Any:
    """The value behind a tree; anything that is not one is refused."""
    if depth > DEPTH + 2 or not isinstance(tree, dict) or len(tree) != 1:
        raise NothingReadable("the capsule's description is not one of ours")
    ((kind, body),) = tree.items()
    if kind == "tensor" and isinstance(body, str) and body in table:
        return table[body]
    if kind == "dict" and isinstance(body, list) and all(isinstance(p, list) and len(p) == 2 for p in body):
        keys = [unpack(k, table, depth + 1) for k, _ in body]
        if not all(isinstance(k, str | int | float | bool | tuple | None) for k in keys):
            raise NothingReadable("the capsule's description holds a key that is none")
        return dict(zip(keys, (unpack(v, table, depth + 1) for _, v in body), strict=True))
    if kind in ("list", "tuple") and isinstance(body, list):
        made = [unpack(v, table, depth + 1) for v in body]
        return tuple(made) if kind == "tuple" else made
    if kind == "float" and body in _FLOATS:
        return _FLOATS[body]
    if kind == "value" and (body is None or isinstance(body, bool | int | float | str)):
        return body
    if kind == "lost":
        return None
    raise NothingReadable("the capsule's description is not one of ours")
