"""Which embedding a program died at, and by which id: read off the frames of the error that ended it."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from traindx import innards


def beyond(error: BaseException) -> dict[str, Any] | None:
    """{name, rows, id, positions} of a look-up past the end of its table (or before its begin); None for any other error."""
    if not isinstance(error, IndexError):
        return None
    modules: list[Any] = []  # the outermost one first
    for frame in _frames(error.__traceback__):
        if frame.f_code is innards.call_impl.__code__:
            modules.append(frame.f_locals.get("self"))
        elif frame.f_code is nn.functional.embedding.__code__:
            ids, table = (frame.f_locals.get(name) for name in ("input", "weight"))
            if isinstance(ids, Tensor) and isinstance(table, Tensor) and ids.device.type == "cpu" and ids.numel():
                low, high = (int(v) for v in torch.aminmax(ids))
                wrong = high if high >= len(table) else low
                return {"name": _name(modules), "rows": len(table), "id": wrong, "positions": _counts_up(ids)}
    return None


def _frames(trace: types.TracebackType | None) -> Iterator[types.FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _counts_up(ids: Tensor) -> bool:
    """Whether these are no tokens but the places of a sequence: 0, 1, 2 …"""
    rows = ids.reshape(-1, ids.shape[-1]) if ids.ndim else ids.reshape(1, 1)
    return rows.shape[1] > 1 and bool((rows.diff(dim=1) == 1).all())


def _name(modules: list[Any]) -> str:
    """What the outermost module calls the innermost."""
    named = modules[0].named_modules() if modules else ()
    return next((name for name, module in named if module is modules[-1] and name), "embedding")
