"""Both lines of autograd's version-counter error: where a tensor was saved for backward, and where it was changed in place."""

from __future__ import annotations

import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from traindx import innards
from traindx.forensics.again import alone, in_child, step_of
from traindx.forensics.moment import Called, Moment
from traindx.forensics.places import line_in, user_line
from traindx.forensics.tensors import tensors_in

_SHAPE = re.compile(r"\[torch\.\w+ \[(?P<shape>[\d, ]*)\]\]")


class Writes(innards.DispatchMode):
    """Notes every in-place operation with its line, and which shapes each storage was seen with."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[tuple[int, str, str]] = []  # storage, place, operation
        self.shapes: dict[int, set[tuple[int, ...]]] = defaultdict(set)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in tensors_in((args, out)):
            if t.layout is torch.strided:
                self.shapes[t.untyped_storage().data_ptr()].add(tuple(t.shape))
        if func._schema.is_mutable and innards.graph_task() == -1:
            file, line, _ = user_line(sys._getframe(1))
            name = func._schema.name.removeprefix("aten::")
            self.writes += [(t.untyped_storage().data_ptr(), f"{file}:{line}", name) for t in tensors_in(args)[:1] if file]
        return out


def lines(moment: Moment, params: Sequence[Tensor], message: str, seconds: float = 10.0) -> dict[str, Any]:
    """`forward` and `inplace` as file:line and the operation, as far as the step shows them when it is made again."""
    found = in_child(lambda: _work(moment, params, message), seconds)
    return {k: v for k, v in found.items() if k in ("forward", "inplace", "op") and v}


def _work(moment: Moment, params: Sequence[Tensor], message: str) -> dict[str, Any]:
    alone([c.model for c in moment.happened if isinstance(c, Called)])
    step, seen = step_of(moment, params), Writes()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with torch.autograd.set_detect_anomaly(True, check_nan=False), seen:
                step()
        except RuntimeError as error:
            message = str(error)
    text = next((str(w.message) for w in told if "Traceback of forward call" in str(w.message)), "")
    file, line, _ = line_in([text])
    match = _SHAPE.search(message)
    shape = tuple(int(n) for n in match["shape"].split(",") if n.strip()) if match else None
    fitting = [w for w in seen.writes if shape is None or shape in seen.shapes[w[0]]]
    last = fitting[-1] if fitting else None
    return {
        "forward": f"{file}:{line}" if file and text else "",
        "inplace": last[1] if last else "",
        "op": last[2] if last else "",
    }
