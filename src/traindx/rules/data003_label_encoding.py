"""Labels do not fit the model's output: out of range, shifted, wrongly scaled, or renamed in validation.

## What it sees

The smallest and largest target, their type and row sums, and the number of classes of the loss call. It looks for:

- targets outside 0 … C−1 that are not `ignore_index`, or outside [0, 1] for a binary cross-entropy;
- rows of float targets that do not sum to 1, or are all zero while class 0 never occurs (labels from 1, cut to C
  columns);
- labels that start at 1, so that class 0 is never used, or that are all the same class;
- training labels from 1 and validation labels from 0, or the reverse;
- a head with many classes that never occur;
- validation classes that are a permutation of the training classes, from the confusion matrix.

## Why it matters

A wrong encoding either crashes, with a bad message on a GPU, or silently trains the wrong thing. A binary cross-entropy
with targets of 0 and 2 has no lower bound. Multi-hot rows in a softmax loss ask for probabilities that sum to more than
1.

## What else looks like this

- DATA004: the range is right and the meaning is wrong; labels are shuffled against inputs.
- WIRE007: the labels are fine and the loss is not the one for them.
- `-100` or another `ignore_index`: that is meant, and not counted.
- Similarities of which the first is always the right one (contrastive learning, ranking): not counted as labels.
- All-zero rows that mask a sample: a remark only.
- Rare classes that 1,000 samples simply do not contain; a background class 0 that is there on purpose: remarks only.

## What to do

Map the labels to 0 … C−1 with one table shared by training and validation, set `ignore_index` for "no label", use
`BCEWithLogitsLoss` for labels that may be true together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "DATA003",
    needs={"fact:loss.target_range | event:label_out_of_range | fact:eval.confusion": 1},
    says={
        "range": "targets range from {lo:g} to {hi:g}, but the model's output has classes 0 to {top}",
        "binary": "targets of a binary cross-entropy range from {lo:g} to {hi:g}, outside [0, 1]",
        "rows": "rows of the float targets sum to {lo:g} … {hi:g} in a softmax loss, not to 1",
        "cut": "some rows of the one-hot targets are all zero and class 0 never occurs: labels that start at 1 were cut off",
        "blank": "some rows of the one-hot targets are all zero and teach nothing: they are masked, or their label is not "
        "a class",
        "only": "all {n:.0f} labels are class {lo:g}: there is nothing to learn",
        "one-based": "labels start at {lo:g}: class 0 was never seen in {n:.0f} labels and the last class is {hi:g}",
        "apart": "labels run from {lo:g} to {hi:g} in training ({n:.0f} labels) and from {val_lo:g} to {val_hi:g} in "
        "validation ({val_n:.0f}): the label tables differ by one",
        "unused": "{unused} of {classes} classes never occurred in {n:.0f} labels",
        "permuted": "validation classes are a permutation of the training classes: accuracy is {raw:.0%} as they are and "
        "{matched:.0%} after renaming ({where})",
    },
    fix={
        "": "Map the labels to 0 … C−1 with one table, shared by training and validation.",
        "range": "Map the labels to 0 … {top}, or give the head {size:.0f} outputs; mark 'no label' with `ignore_index`.",
        "binary": "Scale the targets into [0, 1] (0/1 instead of {lo:g}/{hi:g}).",
        "rows": "Use BCEWithLogitsLoss for labels that may be true together, or normalise the rows.",
        "cut": "Subtract 1 from the labels before they are made one-hot.",
        "blank": "If these rows are masked, leave them out of the mean; else map the labels to 0 … C−1.",
        "only": "Print some labels as the loss gets them. Take the argmax (not the max) of one-hot rows, and do not "
        "round scaled labels.",
        "one-based": "Subtract 1 from the labels unless class 0 is a class of its own (background).",
        "unused": "Check that the head is meant to have {classes} outputs.",
        "apart": "Build the label table once, from the training data, and use it for validation too.",
        "permuted": "Build the label table once, from the training data, and use it for validation too.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS001", "LOSS002", "LOSS011", "LOSS010", "EVAL007", "EVAL004", "NUMR001", "DATA008"),
    at="given",
)
def label_encoding(
    run: Run,
    *,
    least_labels: int = 200,  # before a class may be called unused
    per_class: int = 50,  # labels per class before unused classes are mentioned
    gain: float = 0.3,  # accuracy that renaming the validation classes must win
) -> Iterator[Evidence]:
    yield from _out_of_range(run)
    yield from _rows(run)
    if apart := list(_apart(run, least_labels)):
        yield from apart
    else:
        yield from _unused(run, least_labels, per_class)
        yield from _permuted(run, gain)


def _out_of_range(run: Run) -> Iterator[Evidence]:
    for event in run.events_of("label_out_of_range"):
        lo, hi, classes = (facts.number(event.data.get(k)) for k in ("min", "max", "classes"))
        if math.isfinite(lo) and math.isfinite(hi) and math.isfinite(classes):
            yield Evidence(
                {"lo": lo, "hi": hi, "top": f"{classes - 1:.0f}", "size": hi - min(lo, 0) + 1},
                (),
                (event.step, event.step),
                "range",
            )
            return
    lo, hi = facts.pair(run.fact("loss.target_range"))
    if not (math.isfinite(lo) and math.isfinite(hi)):
        return
    kind = run.fact("loss.kind")
    classes = facts.number(run.fact("loss.classes"))
    ignored = facts.number(run.fact("loss.ignore_index"), -100.0)
    whole = "float" not in str(run.fact("loss.target_dtype", "int64"))
    if kind in ("bce", "bce_logits") and (lo < 0 or hi > 1):
        yield Evidence({"lo": lo, "hi": hi}, _site(run), say="binary")
    elif kind in ("ce", "nll") and whole and math.isfinite(classes) and classes >= 2:
        below = lo < 0 and lo != ignored
        above = hi > classes - 1 and hi != ignored
        if below or above:
            yield Evidence(
                {"lo": lo, "hi": hi, "top": f"{classes - 1:.0f}", "size": hi - min(lo, 0) + 1}, _site(run), say="range"
            )


def _rows(run: Run, tolerance: float = 1e-2) -> Iterator[Evidence]:
    lo, hi = facts.pair(run.fact("loss.target_row_sum"))
    if not (math.isfinite(lo) and math.isfinite(hi)) or run.fact("loss.kind") != "ce":
        return
    if abs(lo) <= tolerance and abs(hi - 1) <= tolerance:
        cut = run.fact("loss.target_first_class") == 0
        yield Evidence(where=_site(run), say="cut" if cut else "blank", severity=None if cut else Severity.INFO)
    elif lo < 1 - tolerance or hi > 1 + tolerance:
        yield Evidence({"lo": lo, "hi": hi}, _site(run), say="rows")


def _asked(run: Run) -> dict[str, float]:
    """How often the training loss was asked for each class."""
    labels = run.matrix("batch/labels/class")
    return {n: float(v) for n, v in zip(labels.names, np.nansum(labels.values, axis=0), strict=True)} if len(labels) else {}


def _numbered(counts: dict[str, float]) -> dict[int, float]:
    return {int(k): v for k, v in counts.items() if v > 0 and k.isdecimal()}


def _words(run: Run, few: int = 20) -> bool:
    """Whether the classes are the words of a text: nearly as many as there are ids to read, or several to a sample."""
    vocab = facts.number(facts.table(run, "data.token").get("vocab"))
    classes, asked = facts.number(run.fact("loss.classes")), run.matrix("batch/labels/class")
    size = run.series("batch/size").finite().values
    single = len(asked) > 0 and len(size) > 0 and np.nansum(asked.values[0]) == size[0] and classes <= few
    return facts.takes_tokens(run) and not (4 * classes <= vocab or (math.isnan(vocab) and single))


def _apart(run: Run, least: int, sure: float = 1e-6) -> Iterator[Evidence]:
    """Labels of one set start at 1, those of the other at 0, and neither has the class that the other has in addition."""
    support = run.matrix("eval/support/class")
    asked = _numbered(_asked(run))
    shown = _numbered(dict(zip(support.names, support.values[-1].tolist(), strict=True))) if len(support) else {}
    n, m = sum(asked.values()), sum(shown.values())
    if _words(run) or len(asked) < 2 or n < least or len(shown) != len(asked):
        return
    by = min(asked) - min(shown)
    if abs(by) != 1 or {k - by for k in asked} != set(shown):
        return
    extra, other = (max(asked), min(shown)) if by > 0 else (min(asked), max(shown))
    # Would each set lack its class by chance, if it were drawn as the other was?
    if (1 - asked[extra] / n) ** m < sure and (1 - shown[other] / m) ** n < sure:
        values = {"lo": min(asked), "hi": max(asked), "n": n, "val_lo": min(shown), "val_hi": max(shown), "val_n": m}
        yield Evidence(
            {k: float(v) for k, v in values.items()}, _site(run), None, "apart", Severity.CRITICAL, Confidence.STRONG
        )


def _unused(run: Run, least: int, per_class: int) -> Iterator[Evidence]:
    classes = facts.number(run.fact("loss.classes"))
    counts = _asked(run) or facts.counts(run.fact("data.class_counts"))
    n = sum(counts.values())
    if _words(run) or not 2 <= classes <= 100 or run.fact("loss.kind") not in ("ce", "nll") or n < least:
        return
    seen = sorted(int(k) for k, v in counts.items() if v > 0 and k.lstrip("-").isdigit())
    if not seen or seen[0] < 0:
        return
    if len(seen) == 1 and run.fact("loss.straight"):  # similarities whose first is the right one are no labels
        yield Evidence({"lo": float(seen[0]), "n": n}, _site(run), None, "only", Severity.WARNING)
        return
    if classes < 3:
        return
    expected = n / classes  # a class as frequent as the others would have been seen this often
    if seen[0] == 1 and seen[-1] == classes - 1 and expected >= 20:
        yield Evidence({"lo": 1.0, "hi": float(seen[-1]), "n": n}, _site(run), None, "one-based", Severity.INFO)
    elif classes - len(seen) > 0.5 * classes and n >= per_class * classes:
        values = {"unused": int(classes) - len(seen), "classes": int(classes), "n": n}
        yield Evidence(values, _site(run), None, "unused", Severity.INFO)


def _permuted(run: Run, gain: float, least: int = 50, least_matched: float = 0.6) -> Iterator[Evidence]:
    table = run.fact("eval.confusion")
    try:
        matrix = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        return
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2 or not np.isfinite(matrix).all():
        return
    total = float(matrix.sum())
    if total < least * len(matrix) ** 0.5:
        return
    pairs = _paired(matrix)
    raw, matched = float(np.trace(matrix)) / total, sum(float(matrix[t, a]) for t, a in pairs) / total
    moved = [(t, a) for t, a in pairs if t != a and matrix[t, a] > 0]
    chance = float(matrix.sum(axis=1).max()) / total
    # A two-class net that answers worse than chance is mapped the other way round only when it is clearly worse.
    if matched - raw > gain and matched > max(chance + 0.2, least_matched) and len(moved) >= 2 and _learned(run, raw, gain):
        where = tuple(f"{t} answered as {a}" for t, a in moved)
        yield Evidence({"raw": raw, "matched": matched}, where, None, "permuted", Severity.CRITICAL, Confidence.STRONG)


def _paired(matrix: Floats) -> list[tuple[int, int]]:
    """Each class with the answer it is most often given, every answer once, the most frequent pairs first."""
    left, pairs = matrix.copy(), []
    for _ in range(len(matrix)):
        true, answer = divmod(int(left.argmax()), len(matrix))
        pairs.append((true, answer))
        left[true, :] = left[:, answer] = -1
    return sorted(pairs)


def _learned(run: Run, raw: float, gain: float) -> bool:
    """Whether training answers its own labels well and validation never did: else they were not learned, or forgotten."""
    seen, own = facts.accuracy(run).values, regime.curve(run, "accuracy/train").values[-20:]
    once = len(seen) > 0 and float(np.max(seen)) > max(0.5, 2 * raw)  # then the names are right and something else was lost
    return not once and (not len(own) or float(np.median(own)) > raw + gain)


def _site(run: Run) -> tuple[str, ...]:
    site = run.fact("loss.site")
    return (site,) if isinstance(site, str) and site else ()
