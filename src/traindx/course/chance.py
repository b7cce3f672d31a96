"""The level of a model that knows nothing: taken from what states it, and believed only where the sources agree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from traindx import facts, regime, stats
from traindx.run import Floats, Run, Series

NEAR = 0.04  # of ln K: how near to it the first losses of a classifier usually lie
MOST_UNEVEN = 1.6  # times 1/K: the share of the most frequent class where the classes count as about equal
MOST_GUESSED = 20  # beyond so many classes nearly every loss lies near some ln K


@dataclass(frozen=True)
class Chance:
    """The loss of the best constant answer, and what tells it."""

    loss: float
    why: str


def chance(run: Run) -> Chance | None:
    """The loss of a model that knows nothing; None where nothing tells it, or where the sources disagree."""
    times = regime.added(run)
    if times is None or not regime.unweighted(run):
        return None
    found = _of_one(run)
    return found and Chance(found.loss * times, found.why if times == 1 else f"{times:.4g} × {found.why}")


def _of_one(run: Run) -> Chance | None:
    """The same for the mean of one call."""
    if run.fact("loss.kind") in ("bce", "bce_logits"):
        share = _positive(run)
        entropy = _entropy([share, 1 - share]) if 0 < share < 1 else math.log(2)
        return Chance(entropy, "the entropy of the labels" if 0 < share < 1 else "ln 2")
    count, shown = classes(run), facts.accuracy(run)
    if count == 2 and run.fact("loss.classes") is None and shown.last > 0.5 and unproven(run, "val", shown):
        return None  # two classes, of which one may be frequent
    if count is not None and run.fact("loss.kind") in (None, "ce", "nll"):
        level, why = math.log(count), f"ln {count}"
        spread = regime.class_counts(run)
        prior = _entropy(list(spread)) if spread is not None and spread.sum() >= 20 * len(spread) else level
        if prior < 0.98 * level and not facts.labels_in_clumps(run):
            level, why = prior, "the entropy of the labels"
        smoothing = facts.number(run.fact("loss.smoothing"), 0.0)
        return Chance(level * (1 - smoothing) + smoothing * math.log(count), why)
    variance = regime.target_variance(run) if run.fact("loss.kind") == "mse" else None
    return Chance(variance[0], "the variance of the target") if variance is not None and variance[0] > 0 else None


def is_cross_entropy(run: Run) -> bool:
    """Whether the loss is a cross-entropy in nats: its kind says so, or a perplexity or bits in the log follow from it."""
    if run.fact("loss.kind") is not None:
        return run.fact("loss.kind") in ("ce", "nll") and regime.plain_loss(run)
    for part in ("val", "train"):
        loss = regime.curve(run, f"loss/{part}", whole=True)
        for name, signal in run.matching(f"metric/{part}/*").items():
            shown = signal.finite() if isinstance(signal, Series) else None
            told = _nats(name.rsplit("/", 1)[-1].lower(), shown.values) if shown is not None and len(shown) >= 3 else None
            if (
                shown is not None
                and told is not None
                and np.nanmedian(np.abs(told - np.minimum(loss.at(shown.steps), 80.0))) < 0.05
            ):
                return True
    return False


def _nats(name: str, values: Floats) -> Floats | None:
    """What a measure of a language model says in nats; beyond e^80 a perplexity is infinite."""
    if name in ("ppl", "perplexity"):
        return np.minimum(np.log(np.maximum(values, 1e-9)), 80.0)
    return np.minimum(values * math.log(2), 80.0) if name.startswith(("bits", "bpt", "bpc", "bpb")) else None


def floor(run: Run) -> float:
    """The lowest loss there is: the entropy that label smoothing leaves, else 0."""
    return regime.floors(run).get("smoothing", 0.0)


def classes(run: Run) -> int | None:
    """How many answers there are: stated, and not contradicted by first loss and accuracy; or told by both of these alike."""
    told = run.fact("loss.classes")
    first, right = _first_loss(run), _first_right(run)
    if isinstance(told, int | float) and told >= 2:
        from_log = "columns" in run.facts
        if from_log and math.isfinite(right) and right > 4 / told and first < 0.5 * math.log(told):
            return None  # a vocabulary next to a classifier, or the classes of another head
        return int(told)
    guess = round(math.exp(first)) if 0.5 < first < math.log(MOST_GUESSED + 0.5) else 0
    alike = guess >= 2 and abs(first - math.log(guess)) < NEAR * first and 0.6 / guess < right < MOST_UNEVEN / guess
    return guess if alike else None


def binary(run: Run, *, sure: bool = False) -> bool:
    """Whether there may be two answers only: nothing states more, and the loss does not begin where that of more begins."""
    count, first = classes(run), _first_loss(run)
    return count == 2 or (count is None and (0.5 < first < 0.9 if sure else not 0.9 <= first <= 12))


def same_answer(values: Floats) -> float | None:
    """The score that most evaluations show to the digit, the late ones too: of one answer for everything, or of still weights.

    >>> same_answer(np.array([0.4, 0.7, 0.7, 0.7, 0.7, 0.7])), same_answer(np.array([0.4, 0.5, 0.6, 0.7, 0.7, 0.7]))
    (0.7, None)
    """
    found, counts = np.unique(values, return_counts=True)
    score, often = float(found[np.argmax(counts)]), int(counts.max())
    late = np.mean(values[-max(3, len(values) // 3) :] == score)
    return score if often >= max(5, 0.6 * len(values)) and late >= 0.5 and score < 0.99 else None


def unproven(run: Run, part: str, right: Series) -> bool:
    """Whether a constant answer could be as often right: the loss was never below the entropy of classes so unequal."""
    loss = regime.curve(run, f"loss/{part}").values
    share = min(max(float(np.median(right.values[-3:])), 1e-6), 1 - 1e-6)
    entropy = _entropy([share, 1 - share]) if share > 0.5 else -math.log(share)
    return len(loss) > 0 and float(np.min(loss)) > 0.95 * entropy


def constant_accuracy(run: Run, part: str) -> tuple[float, str] | None:
    """The accuracy of the best constant answer; None where it is unknown."""
    _, share, n = facts.majority(run, "val" if part == "val" else "train")
    if math.isfinite(share) and n >= 50 and not facts.labels_in_clumps(run):
        return share, "the share of the most frequent class"
    positive = _positive(run)
    if 0 < positive < 1:
        return max(positive, 1 - positive), "the share of the more frequent class"
    count = None if facts.takes_tokens(run) else classes(run)
    return (1 / count, f"1/{count}") if count is not None else None


def _positive(run: Run) -> float:
    """The share of ones among binary targets; NaN where they were not seen."""
    mean = run.series("batch/label_mean").finite().values
    binary = run.fact("loss.kind") in ("bce", "bce_logits") and len(mean) >= 5
    return float(np.mean(mean)) if binary else math.nan


def _entropy(counts: list[float]) -> float:
    return stats.known_floors(prior=counts).get("prior", 0.0)


def _first(series: Series) -> float:
    return float(np.median(series.values[: max(1, min(5, len(series) // 10))])) if len(series) else math.nan


def _first_loss(run: Run) -> float:
    found = [v for name in (regime.TRAIN, regime.VAL) if math.isfinite(v := _first(regime.curve(run, name, whole=True)))]
    return found[0] if found else math.nan


def _first_right(run: Run) -> float:
    found = [v for part in ("train", "val") if math.isfinite(v := _first(facts.accuracy(run, part)))]
    return found[0] if found else math.nan
