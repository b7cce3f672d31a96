"""A batch looked at before it is trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

FAR = 1e4  # robust deviations: heavy tails reach tens, a wrong unit or a marker such as 1e9 thousands


def validate_batch(batch: Any, *, classes: int | None = None, ignore_index: int = -100) -> list[str]:
    """What is wrong with a batch, in words; an empty list when nothing is.

    Empty and non-finite tensors, samples that are all alike, single values thousands of robust deviations away, unequal
    lengths; with `classes`, whole-numbered tensors of one value per sample must be labels below it. Integer tensors are never
    judged by size: ids are large by nature.

    >>> validate_batch((torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]), torch.tensor([0, 3])), classes=3)
    ['tensor 0 holds 1 values that are not finite', 'tensor 1 holds the label 3; there are 3 classes']
    """
    parts = list(_named(batch))
    if not parts:
        return ["there is no tensor in it"]
    found = [problem for name, t in parts for problem in _problems(name, t, classes, ignore_index)]
    sizes = {len(t) for _, t in parts if t.dim()}
    return [*found, f"tensors of unequal length: {sorted(sizes)}"] if len(sizes) > 1 else found


def _named(batch: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(batch, Tensor):
        yield name or "the tensor", batch
    elif isinstance(batch, Mapping):
        for key, value in batch.items():
            yield from _named(value, f"'{key}'" if not name else f"{name}['{key}']")
    elif isinstance(batch, list | tuple):
        for i, value in enumerate(batch):
            yield from _named(value, f"tensor {i}" if not name else f"{name}[{i}]")


def _problems(name: str, t: Tensor, classes: int | None, ignore_index: int) -> Iterator[str]:
    if not t.numel():
        yield f"{name} is empty"
        return
    if t.is_floating_point():
        bad = int((~torch.isfinite(t)).sum())
        if bad:
            yield f"{name} holds {bad} values that are not finite"
            return
        yield from _far(name, t)
    elif classes is not None and t.dim() == 1 and t.dtype != torch.bool:
        wrong = t[(t != ignore_index) & ((t < 0) | (t >= classes))]
        if len(wrong):
            yield f"{name} holds the label {int(wrong[0])}; there are {classes} classes"
    if t.dim() > 1 and len(t) > 1 and bool((t == t[:1]).all()):
        yield f"{name}: all {len(t)} samples are the same"


def _far(name: str, t: Tensor) -> Iterator[str]:
    flat = t.detach().reshape(-1).double()
    centre = flat.median()
    away = (flat - centre).abs()
    spread = 1.4826 * float(away.median())
    most = float(away.max())
    if len(flat) >= 32 and spread > 0 and most > FAR * spread:
        value = float(flat[int(away.argmax())])
        yield f"{name} holds {value:.3g}, {most / spread:.0f} robust deviations away from the rest"
