"""Metrics as evidence: which way is better, where a model that knows nothing stands, and where the end of the scale is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from traindx import facts, stats
from traindx.course import chance
from traindx.course.curves import rose
from traindx.course.side_by_side import doubt, errors
from traindx.run import Floats, Run, Series

PARTS = ("val", "test", "train")
STEADY = 0.7  # Kendall's tau of a score that rises at most evaluations
# The last part of a metric's name, in words, decides its scale. Each ends at 1 (or 100).
SCALES: dict[str, float | None] = {  # → the score of a constant answer; None: not known from the name
    "auc auroc": 0.5,
    "r2 d2 explained mcc matthews kappa pearson spearman correlation": 0.0,
    "acc acc1 acc5 accuracy top1 top5 precision recall sensitivity specificity exact em success winrate hit hits": None,
    "wer cer": 0.0,  # shares of wrong words, here as shares of right ones: silence gets none right
    "f1 fscore iou miou dice jaccard map map50 map5095 ap auprc bleu rouge rouge1 rouge2 rougel ndcg mrr mar ssim": None,
}


@dataclass(frozen=True)
class Metric:
    """A metric on a scale from 0 (the worst that counts) to 1 (all there is)."""

    name: str
    part: str
    series: Series
    ignorant: tuple[float, float]  # between these two stands a model that knows nothing
    sure: bool  # whether that is known, and not only bounded
    error: float = 0.0  # of one value, from the number of samples behind it

    def skill(self, value: float) -> tuple[float, float]:
        """How much of the way from ignorance to the end of the scale, at least and at most."""
        low, high = self.ignorant
        return _gained(value, high), _gained(value, low)


def _gained(value: float, level: float) -> float:
    return (value - level) / (1 - level) if level < 1 else 0.0  # where every answer is right there is nothing to learn


def metrics(run: Run) -> Iterator[Metric]:
    """The metrics whose scale is known, validation before test before training; the share of right answers before others."""
    for part in PARTS:
        right = facts.accuracy(run, part)
        if part == "val" and (balanced := _balanced(run)) is not None:
            yield balanced
        elif len(right) and not facts.number(run.fact("loss.next_target_share"), 0.0) > 0.5:  # of tokens the loss says more
            yield Metric("accuracy", part, right, *_guessing(run, part, right), _sampling(run, part, right))
        for name, signal in run.matching(f"metric/{part}/*").items():
            last = name.rsplit("/", 1)[-1]
            if not isinstance(signal, Series) or last.lower() in (*facts.ACCURACY_NAMES, *facts.ERROR_NAMES):
                continue
            series = signal.finite()
            if len(series) and (ignorant := _scale(last)) is not None:
                wrong = _words(last) & {"wer", "cer"}  # may pass 1 at first, also where they are no percentages
                percent = (np.median if wrong else np.max)(series.values) > 1.5
                series = _hundredth(series) if percent else series
                series = replace(series, values=1 - series.values) if wrong else series
                scale = ignorant if ignorant[1] else _bounded(run, series, steady=_steady(series.values))
                yield Metric(f"1 - {last}" if wrong else last, part, series, *scale)


def improved(run: Run, parts: tuple[str, ...] = ("val",), least: int = 5) -> bool:
    """Whether some metric of these parts got better, beyond its noise."""
    if any(rose(m.series.values) for m in metrics(run) if m.part in parts and len(m.series) >= least):
        return True
    return any(rose(-v) for part in parts for v in errors(run, part).values() if len(v) >= least)


def _steady(values: Floats) -> bool:
    return len(values) >= 5 and rose(values) and stats.kendall(values) > STEADY


def _hundredth(series: Series) -> Series:
    return Series(series.steps, series.values / 100.0, series.times)


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+\d*", name.lower()))


def _scale(name: str) -> tuple[tuple[float, float], bool] | None:
    have = _words(name)
    for names, chance_level in SCALES.items():
        if have & set(names.split()):
            return (chance_level or 0.0, chance_level or 0.0), chance_level is not None
    return None


def _balanced(run: Run) -> Metric | None:
    """The mean recall of the classes, where a frequent class would hide how little is known of the others."""
    recall = run.matrix("eval/recall/class")
    _, share, _ = facts.majority(run)
    if len(recall) < 3 or not share > 1.5 / max(2, len(recall.names)) or len(recall.names) > 100:
        return None
    mean = Series(recall.steps, np.nanmean(recall.values, axis=1)).finite()
    return Metric("mean recall", "val", mean, (1 / len(recall.names),) * 2, True, _sampling(run, "val", mean) * 2)


def _sampling(run: Run, part: str, right: Series) -> float:
    """The standard error of one accuracy from the number of samples; 0 where that is unknown."""
    count = run.series("eval/samples").finite().values
    level = min(max(right.last, 0.05), 0.95)
    return float(np.sqrt(level * (1 - level) / max(1.0, float(count[-1])))) if part == "val" and len(count) else 0.0


def _guessing(run: Run, part: str, right: Series) -> tuple[tuple[float, float], bool]:
    """The accuracy of a constant answer, or a bound on it from the first evaluations."""
    quarter = max(1, len(right) // 4)
    head, tail = float(np.median(right.values[:quarter])), float(np.median(right.values[-quarter:]))
    known, top = chance.constant_accuracy(run, part), float(np.max(right.values))
    supposed = known[0] if known is not None else 0.5
    if len(right) >= 8 and head < 0.2 * supposed and 2 * head < tail < supposed:
        return _bounded(run, right)  # it rises from far below what a constant answer scores: it counts something else
    same = chance.same_answer(right.values)
    if known is not None and (part == "train" or facts.majority(run)[2] > 0):
        return (known[0], known[0]), True
    if same is not None and chance.unproven(run, part, right):
        return (min(same, known[0] if known is not None else same), same), True
    if right.last > 0.5 and (same is not None or (chance.binary(run) and chance.unproven(run, part, right))):
        return (0.5, max(0.5, top)), False
    if right.last < 0.5 and chance.binary(run, sure=True):
        return (0.5, 0.5), True
    if known is None:
        return _bounded(run, right) if top > 1 - (1 - head) / 2 or not chance.binary(run) else ((0.0, max(0.5, head)), False)
    frequent = known[0] if right.last > 2 * known[0] else chance.MOST_UNEVEN * known[0]
    return (known[0], frequent), True  # so near to 1/K it may be the share of a more frequent class


def _bounded(run: Run, series: Series, steady: bool = False) -> tuple[tuple[float, float], bool]:
    """Where nobody says what a constant answer scores, it scores no more than the first evaluations, and no more than half.

    Where the losses speak of a constant answer, one may score all that was ever seen below one half; unless an overlap
    or a rank rose step by step, which that of a constant answer does not.
    """
    constant = not steady and bool(doubt(run))
    head = series.values if constant else series.values[: max(1, min(3, len(series) // 4))]
    most = np.max(head) if constant else np.min(head)
    return (0.0, min(0.5, max(0.0, float(most)))), False
