"""A batch looked at before it is trained on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traindx.measures import spread
from traindx.trials.task import TARGETS

FAR = 1e4  # robust deviations: heavy tails reach tens, a wrong unit or a marker such as 1e9 thousands
ALIKE = 0.01  # of the mean: a standard deviation below that says that all values are nearly the same
LARGEST, MEAN, STD = 100.0, 10.0, (1e-3, 30.0)  # of inputs that are prepared for a net: about 0 and 1 are usual


def validate_batch(
    batch: Any,
    *,
    classes: int | None = None,
    ignore_index: int = -100,
    largest: float | None = LARGEST,
    mean: float | None = MEAN,
    std: tuple[float, float] | None = STD,
    within: tuple[float, float] | None = None,
    raises: bool = False,
) -> list[str]:
    """What is wrong with a batch, in words; an empty list when nothing is. With `raises` a ValueError says it instead.

    Everywhere: empty tensors, NaN and infinity (each counted), samples that are all alike, single values thousands of robust
    deviations away, unequal lengths. In floating inputs (all but the last of a pair, all but the labels of a dict) there
    are four limits: `largest` for magnitudes, `mean` for the distance from zero, `std` for the spread, `within` for all
    values. None switches a limit off. With `classes`, whole-numbered tensors of one value per sample must be
    labels below it. Whole numbers are otherwise not judged by size, ids are large by nature; raw pixels (uint8) are
    named. Waits once for the device.

    >>> validate_batch((torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]), torch.tensor([0, 3])), classes=3)
    ['tensor 0 holds 1 NaN', 'tensor 1 holds the label 3; there are 3 classes']
    >>> validate_batch((torch.arange(256.0).reshape(4, 1, 8, 8), torch.arange(4)))[0]
    'tensor 0 holds values of 0 … 255: raw pixels, divide by 255 and normalise'
    """
    parts = list(_named(batch))
    if not parts:
        return _told(["there is no tensor in it"], raises)
    full = [(name, t) for name, t in parts if t.numel()]
    rows = torch.stack([_figures(t, classes, ignore_index).to(full[0][1].device) for _, t in full]).tolist() if full else []
    found = [f"{name} is empty" for name, t in parts if not t.numel()]
    last = _target_of(batch, [name for name, _ in parts])
    for (name, t), row in zip(full, rows, strict=True):
        f = dict(zip(_FIGURES, row, strict=True))
        found += _problems(name, t, f, classes)
        if name != last and not f["nan"] and not f["inf"]:
            found += _unscaled(name, t, f, largest, mean, std, within)
    sizes = {len(t) for _, t in parts if t.dim()}
    return _told([*found, f"tensors of unequal length: {sorted(sizes)}"] if len(sizes) > 1 else found, raises)


def _told(found: list[str], raises: bool) -> list[str]:
    if found and raises:
        raise ValueError("; ".join(found))
    return found


def _named(batch: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "biuf":
        batch = torch.from_numpy(np.ascontiguousarray(batch))
    if isinstance(batch, Tensor):
        yield name or "the tensor", batch
    elif isinstance(batch, Mapping):
        for key, value in batch.items():
            yield from _named(value, f"'{key}'" if not name else f"{name}['{key}']")
    elif isinstance(batch, list | tuple):
        for i, value in enumerate(batch):
            yield from _named(value, f"tensor {i}" if not name else f"{name}[{i}]")


def _target_of(batch: Any, names: list[str]) -> str:
    """The part that is the target and may have any scale."""
    if isinstance(batch, Mapping):
        return next((f"'{k}'" for k in TARGETS if k in batch), "")
    return names[-1] if len(names) > 1 else ""


_FIGURES = ("nan", "inf", "lo", "hi", "mean", "std", "centre", "usual", "alike", "wrong", "label")


def _figures(t: Tensor, classes: int | None, ignore_index: int) -> Tensor:
    """What `_FIGURES` says of one tensor, without a wait for the device."""
    flat = t.detach().reshape(-1)
    alike = (t == t[:1]).all() if t.dim() > 1 and len(t) > 1 else torch.zeros((), device=t.device)
    zero = torch.zeros((), device=t.device)
    wrong, label = zero, zero
    if not t.is_floating_point():
        lo, hi = (flat.int() if t.dtype == torch.bool else flat).aminmax() if not t.is_complex() else (zero, zero)
        if classes is not None and t.dim() == 1 and t.dtype != torch.bool:
            off = (t != ignore_index) & ((t < 0) | (t >= classes))
            wrong, label = off.sum(), t[off.int().argmax()]
        figures = (zero, zero, lo, hi, zero, zero, zero, zero, alike, wrong, label)
    else:
        flat = flat.double() if flat.dtype == torch.float64 else flat.float()
        nan, inf = torch.isnan(flat).sum(), torch.isinf(flat).sum()
        kept = torch.nan_to_num(flat, nan=0.0, posinf=0.0, neginf=0.0)
        sample = spread(kept)
        centre = sample.median()
        usual = 1.4826 * (sample - centre).abs().median()
        figures = (nan, inf, *kept.aminmax(), kept.mean(), kept.std(correction=0), centre, usual, alike, wrong, label)
    return torch.stack([v.double() for v in figures])


def _problems(name: str, t: Tensor, f: dict[str, float], classes: int | None) -> Iterator[str]:
    if f["nan"]:
        yield f"{name} holds {f['nan']:.0f} NaN"
    if f["inf"]:
        yield f"{name} holds {f['inf']:.0f} {'infinity' if f['inf'] == 1 else 'infinities'}"
    if f["wrong"]:
        yield f"{name} holds the label {f['label']:.0f}; there are {classes} classes"
    most = max(f["hi"] - f["centre"], f["centre"] - f["lo"])
    if t.numel() >= 32 and f["usual"] > 0 and most > FAR * f["usual"]:
        value = f["hi"] if f["hi"] - f["centre"] == most else f["lo"]
        yield f"{name} holds {value:.3g}, {most / f['usual']:.0f} robust deviations away from the rest"
    if f["alike"]:
        yield f"{name}: all {len(t)} samples are the same"


def _unscaled(
    name: str,
    t: Tensor,
    f: dict[str, float],
    largest: float | None,
    mean: float | None,
    std: tuple[float, float] | None,
    within: tuple[float, float] | None,
) -> Iterator[str]:
    lo, hi = f["lo"], f["hi"]
    limit = math.inf if largest is None else largest
    pixels = t.dtype == torch.uint8 and t.dim() > 2 and hi > 1
    if pixels or (t.is_floating_point() and t.dim() > 2 and lo >= 0 and limit < hi <= 255 and f["std"] > 1):
        yield f"{name} holds values of {lo:.0f} … {hi:.0f}: raw pixels, divide by 255 and normalise"
        return
    if not t.is_floating_point():
        return
    if t.dim() > 2 and lo >= 0 and 0 < hi <= 1.001 / 255:
        yield f"{name} holds values of {lo:.4g} … {hi:.4g}: pixels that were divided by 255 twice?"
        return
    if max(hi, -lo) > limit:
        yield f"{name} holds {hi if hi >= -lo else lo:.4g}; {limit:g} is the limit for inputs"
    if mean is not None and abs(f["mean"]) > mean:
        yield f"{name} has the mean {f['mean']:.4g}: inputs should be centred"
    if std is not None and t.numel() >= 32 and f["std"] > 0:
        if not std[0] <= f["std"] <= std[1]:
            yield f"{name} has the standard deviation {f['std']:.4g}: inputs should be scaled to about 1"
        elif f["std"] < ALIKE * abs(f["mean"]):
            yield f"{name} has the mean {f['mean']:.4g} and the standard deviation {f['std']:.4g}: its values hardly differ"
    if within is not None and (lo < within[0] or hi > within[1]):
        yield f"{name} holds values of {lo:.4g} … {hi:.4g}, outside {within[0]:g} … {within[1]:g}"
