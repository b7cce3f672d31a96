"""Reading facts and evaluations of a run without trusting their shape: a record may be old, foreign or cut short."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from traindx.run import Floats, Run, Series

# What logs call the share of right answers; the last part of a metric's name, lower case (importers document them).
ACCURACY_NAMES = (
    "accuracy",
    "acc",
    "acc1",
    "top1",
    "top1_acc",
    "top1_accuracy",
    "categorical_accuracy",
    "sparse_categorical_accuracy",
)
# The share of wrong answers; "error" alone may be that of a regression, and counts only in percent.
ERROR_NAMES = ("error_rate", "err_rate", "err", "err1", "top1_err", "top1_error", "error", "misclassification")
# Layers that do nothing to the scale of what passes through them.
PASSIVE = ("Flatten", "Unflatten", "Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout")


def table(run: Run, key: str) -> Mapping[str, Any]:
    """A fact that is a mapping; empty when it is absent or something else."""
    value = run.fact(key)
    return value if isinstance(value, Mapping) else {}


def rows(run: Run, key: str) -> list[Mapping[str, Any]]:
    """A fact that is a list of mappings; what is not a mapping is left out."""
    value = run.fact(key)
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def strings(run: Run, key: str) -> tuple[str, ...]:
    """A fact that is a list of names (or a mapping: its keys)."""
    value = run.fact(key)
    if isinstance(value, str):
        return (value,)
    return tuple(str(v) for v in value) if isinstance(value, list | tuple | set | Mapping) else ()


def number(value: Any, default: float = math.nan) -> float:
    """A finite number, or the default.

    >>> number("x", 0.0), number(True), number(3)
    (0.0, 1.0, 3.0)
    """
    if isinstance(value, bool | int | float | np.number):
        try:
            found = float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return default
        return found if math.isfinite(found) else default
    return default


def pair(value: Any) -> tuple[float, float]:
    """Two numbers, NaN where they are missing: a range [lo, hi], or [reported, recomputed]."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        return number(value[0]), number(value[1])
    return math.nan, math.nan


def counts(value: Any) -> dict[str, float]:
    """Counts by name from a mapping or a list; names of a list are its indexes.

    >>> counts([3, 0, 5])
    {'0': 3.0, '1': 0.0, '2': 5.0}
    """
    if isinstance(value, Mapping):
        return {str(k): max(number(v, 0.0), 0.0) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return {str(i): max(number(v, 0.0), 0.0) for i, v in enumerate(value)}
    return {}


def labels_in_clumps(run: Run, dispersion: float = 2.0, p: float = 1e-6, most: float = 0.9) -> bool:
    """Whether batches differ in their classes more than shuffled ones (DATA005) and only some were read: counts mislead."""
    clumped = number(run.fact("data.label_dispersion"), 1.0) > dispersion
    size, (first, last) = run.series("batch/size").finite().values, run.steps or (0, 0)
    if not clumped or number(run.fact("data.label_dispersion_p"), 1.0) >= p or not len(size):
        return False
    return sum(counts(run.fact("data.class_counts")).values()) < most * float(np.median(size)) * (last - first + 1)


def numbers(value: Any) -> Floats:
    """A list of numbers, NaN where an entry is none; empty for anything else."""
    if isinstance(value, list | tuple | np.ndarray):
        return np.array([number(v) for v in value], dtype=np.float64)
    return np.empty(0)


def accuracy(run: Run, part: str = "val") -> Series:
    """Share of right answers over steps: our own where it was seen, else what the user logged under a usual name or printed."""
    own = run.series(f"accuracy/{part}").finite()
    if len(own):
        return own
    told = {
        n.rsplit("/", 1)[-1].lower(): s.finite() for n, s in run.matching(f"metric/{part}/*").items() if isinstance(s, Series)
    }
    for name in (*ACCURACY_NAMES, *ERROR_NAMES):
        if name not in told or not len(told[name]):
            continue
        found = told[name]
        top = float(np.max(found.values))
        values = found.values / 100.0 if top > 1.5 else found.values
        if name in ERROR_NAMES:
            if float(np.min(found.values)) < 0 or top > 100 or (name == "error" and top <= 1.5):
                continue
            values = 1.0 - values
        return Series(found.steps, values, found.times)
    return run.series("eval/claimed_accuracy").finite() if part == "val" else own


def layers(run: Run) -> list[str]:
    """Classes of the innermost modules in the order they are first called; empty when the model was not seen."""
    outline = [r for r in rows(run, "model.outline") if r.get("name") and math.isfinite(number(r.get("order")))]
    inner = innermost(str(r["name"]) for r in outline)
    ordered = sorted((r for r in outline if str(r["name"]) in inner), key=lambda r: number(r.get("order")))
    return [str(r.get("class", "")) for r in ordered]


def innermost(names: Iterable[str]) -> set[str]:
    """Modules that hold no other module.

    >>> sorted(innermost(["a", "a.0", "a.b.c", "ab"]))
    ['a.0', 'a.b.c', 'ab']
    """
    kept, outer = set(names), set()
    for name in kept:
        while name := name.rpartition(".")[0]:
            outer.add(name)
    return kept - outer


def has_layer(run: Run, *kinds: str) -> bool:
    """Whether a module of the model has a class name with one of these words in it."""
    return any(kind in str(row.get("class", "")) for row in rows(run, "model.outline") for kind in kinds)


def takes_tokens(run: Run) -> bool:
    """Whether the model reads token ids: classes are then a vocabulary and inputs have no scale."""
    return bool(table(run, "data.token")) or bool(strings(run, "model.embeddings"))


def majority(run: Run, part: str = "val") -> tuple[str, float, float]:
    """The most frequent class of the evaluated (or trained-on) data, its share and the number of targets; NaN if unknown."""
    found = counts(run.fact("data.val_class_counts" if part == "val" else "data.class_counts"))
    support = run.matrix("eval/support/class")
    last = {}
    if part == "val" and len(support):
        last = {n: number(v, 0.0) for n, v in zip(support.names, support.values[-1], strict=True)}
    found = found or last
    total = sum(found.values())
    if len(found) < 2 or total <= 0:
        return "", math.nan, 0.0
    name = max(found, key=lambda k: found[k])
    once = sum(last.values())  # the counts may be those of several evaluations of the same few samples
    return name, found[name] / total, min(total, once) if once > 0 else total


def either_axis(run: Run) -> bool:
    """Whether the outputs of a cross-entropy have as many entries along axis 1 as along the last: both may be the classes."""
    shape, classes = run.fact("loss.input_shape"), run.fact("loss.classes")
    return (
        run.fact("loss.kind") in ("ce", "nll")
        and isinstance(shape, list | tuple)
        and len(shape) >= 3
        and shape[1] == shape[-1] == classes
    )
