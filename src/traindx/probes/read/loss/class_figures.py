"""Scoring one evaluation: per-class figures, calibration, AUROC, temperature. Plain numpy over a few thousand rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.stats.robust import ranks
from traindx.stats.tails import greater

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def log_softmax(logits: Floats) -> Floats:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)), dtype=np.float64)


def nll(logits: Floats, targets: Ints) -> float:
    """Mean negative log-likelihood.

    >>> round(nll(np.zeros((4, 10)), np.arange(4)), 4)
    2.3026
    """
    return float(-log_softmax(logits)[np.arange(len(targets)), targets].mean())


def ece(logits: Floats, targets: Ints, bins: int = 15) -> float:
    """Expected calibration error over bins of equal mass (CATALOGUE EVAL005)."""
    probabilities = np.exp(log_softmax(logits))
    sure, hit = probabilities.max(1), probabilities.argmax(1) == targets
    order = np.argsort(sure, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    return float(sum(len(p) * abs(hit[p].mean() - sure[p].mean()) for p in parts) / len(order))


def temperature(logits: Floats, targets: Ints, *, most: int = 20) -> tuple[float, float]:
    """(T, how much it lowers the nll): fitted on every other row, judged on the rest. [Guo17]

    Newton's method on 1/T between 1/20 and 20; the loss is convex in it.
    """
    fit, test = slice(0, None, 2), slice(1, None, 2)
    z, own = logits[fit], logits[fit][np.arange(len(logits[fit])), targets[fit]]
    beta = 1.0
    for _ in range(most):
        p = np.exp(log_softmax(beta * z))
        mean = (p * z).sum(1)
        slope, bend = float((mean - own).mean()), float(((p * z**2).sum(1) - mean**2).mean())
        step = slope / max(bend, 1e-12)
        new = min(max(beta - step, beta / 4, 0.05), beta * 4, 20.0)
        if abs(new - beta) < 1e-4 * beta:
            break
        beta = new
    return 1 / beta, nll(logits[test], targets[test]) - nll(beta * logits[test], targets[test])


def auroc(logits: Floats, targets: Ints) -> dict[str, float]:
    """Class → area under its ROC curve, one against the rest; classes with fewer than five on either side are left out."""
    scores = log_softmax(logits)
    scores = scores - np.log1p(-np.exp(np.minimum(scores, -1e-12)))  # log-odds: probabilities near 1 stay apart
    found = {}
    for c in range(scores.shape[1]):
        own = targets == c
        n, m = int(own.sum()), int((~own).sum())
        if min(n, m) >= 5:
            found[str(c)] = float((ranks(scores[:, c])[own].sum() - n * (n + 1) / 2) / (n * m))
    return found


def average_precision(logits: Floats, targets: Ints) -> dict[str, float]:
    """Class → mean precision at its hits, best first, one against the rest; left out as in `auroc`.

    >>> scores = np.array([[0.0, 9], [0, 8]]).repeat(5, 0)
    >>> average_precision(scores, np.array([1, 0]).repeat(5))["1"], average_precision(scores, np.array([0, 1]).repeat(5))["1"]
    (1.0, 0.5)
    """
    scores = log_softmax(logits)
    found = {}
    for c in range(scores.shape[1]):
        own = targets == c
        if min(int(own.sum()), int((~own).sum())) >= 5:
            values, place = np.unique(-scores[:, c], return_inverse=True)
            hits = np.cumsum(np.bincount(place, own, len(values)))  # samples with equal scores are taken together
            taken = np.cumsum(np.bincount(place, minlength=len(values)))
            found[str(c)] = float((np.diff(hits, prepend=0.0) * hits / taken).sum() / own.sum())
    return found


def per_class(confusion: Floats) -> dict[str, list[float]]:
    """recall, predicted and support of each class; recall is NaN for a class without targets. confusion  # (true, guessed)"""
    support = confusion.sum(1)
    with np.errstate(all="ignore"):
        recall = np.where(support > 0, np.diag(confusion) / support, np.nan)
    return {"recall": recall.tolist(), "predicted": confusion.sum(0).tolist(), "support": support.tolist()}


def slices(
    losses: Floats, groups: Mapping[str, Floats], words: Mapping[str, Sequence[str]] | None = None, *, least: int = 50
) -> list[dict[str, Any]]:
    """Parts of the samples by each property with their mean loss: {slice, n, loss, mean_loss, p}, the worst first.

    Quarters of numbers; where `words` names the values of a property, one part for each. p compares a part with the rest by
    Welch's t-test; it is not corrected for the number of parts.
    """
    found: list[dict[str, Any]] = []
    for name, values in groups.items():
        for label, inside in _parts(values, (words or {}).get(name)):
            if inside.sum() >= least and (~inside).sum() >= least:
                p = greater(losses[inside], losses[~inside])
                found.append({"slice": f"{name} {label}", "n": int(inside.sum()), "loss": float(losses[inside].mean()), "p": p})
    for row in found:
        row["mean_loss"] = float(losses.mean())
    return sorted(found, key=lambda r: -r["loss"])


def _parts(values: Floats, words: Sequence[str] | None, parts: int = 4) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    if words is not None:
        yield from ((word, values == i) for i, word in enumerate(words))
        return
    edges = np.unique(np.quantile(values, np.linspace(0, 1, parts + 1)))
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(len(edges) - 2, 0))
    for i in range(len(edges) - 1 if len(edges) > 2 else 0):
        yield f"{edges[i]:.3g} to {edges[i + 1]:.3g}", place == i
