"""Accuracy hides a failure: the overall figure hides a class or part of the data on which the model fails.

## What it sees

From the answers of the last evaluations it looks for:

- accuracy no better than always giving the most frequent class, within two standard errors;
- a class with at least 30 samples of which fewer than 5 % are found, while the model does well otherwise;
- a slice of the data (length, brightness, one of your own columns) whose loss is more than twice the mean, beyond
  chance. In a log without labels: an accuracy that is the same to the last digit in every evaluation, and does not move
  in training either, while the loss does.

Your own columns are further entries of a batch that is a dict (`{"x": …, "label": …, "site": ["north", …]}`). Or pass
them with `dx.log(slices={"site": sites})` after a validation batch went through the model.

## Why it matters

99 % accuracy is worthless when 99 % of the samples belong to one class. A class that is never answered, or a source that is
always wrong, does not show in an average.

## What else looks like this

- LOSS002, ACTV005: the model answers the same to everything because it has not learned at all. Then that is the root.
- DATA011: imbalanced training data are the usual reason. A failed class that is as frequent as others has another
  cause.
- DATA003: a class that is never right because it is named differently in validation.
- The first evaluations of a run: everything starts at the majority. The rule waits for two evaluations and 100 steps. Classes
  are learned one after another: while accuracy still rises beyond chance, one that is as frequent as others may be next.

## What to do

Watch balanced accuracy, per-class recall, F1 or average precision. Weight or resample the classes; choose the threshold per
class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Floats, Run, Series


@rule(
    "EVAL004",
    subject="evaluation",
    needs={"accuracy/val | metric/val/* | eval/recall/class | fact:eval.slices": 1},
    says={
        "majority": "accuracy {accuracy:.1%} is no better than always answering class {where} ({share:.1%} of the "
        "validation set)",
        "chance": "accuracy {accuracy:.1%} is no better than always answering one class ({share:.1%})",
        "same": "accuracy is {accuracy:.4g} in all {count} evaluations while the loss changes: every sample gets the "
        "same answer",
        "class": "class {where}: recall {recall:.1%} on {n:.0f} samples, while overall accuracy is {accuracy:.1%}",
        "common": "class {where}: recall {recall:.1%} on {n:.0f} samples, while overall accuracy is {accuracy:.1%}; it is as "
        "frequent as others",
        "weightless": "class {where}: recall {recall:.1%} on {n:.0f} samples; its weight in the training loss is 0",
        "slice": "{where}: loss {loss:.3g} on {n:.0f} samples, {ratio:.1f} times the mean",
        "unsuited": "class {where} makes up {share:.0%} of the validation set: accuracy hardly measures the others",
    },
    fix={
        "": "Watch per-class recall and balanced accuracy; weight or resample the classes.",
        "chance": "Fix training first: the model has learned nothing that helps on new samples.",
        "common": "Check the labels of this class, and what holds training back. Class weights will not help: it is not rare.",
        "weightless": "Give the class a weight above zero, or take it out of the metric.",
        "slice": "Look at samples of this slice; add data like it or a loss weight.",
        "unsuited": "Use balanced accuracy, F1, AUROC or average precision.",
    },
    severity=Severity.WARNING,
    at={"": "evaluate", "majority": "loss target", "class": "loss target", "weightless": "loss criterion"},
)
def majority_or_slice_failure(
    run: Run,
    *,
    recall: float = 0.05,  # CATALOGUE EVAL004
    least_class: int = 30,
    slice_ratio: float = 2.0,
    least_slice: int = 50,
    p: float = 0.01,
    least_steps: int = 100,
    resolution: float = 0.2,  # accuracy that two standard errors may hide; a dozen samples tell nothing from chance
) -> Iterator[Evidence]:
    accuracy = facts.accuracy(run)
    span = run.steps or (0, 0)
    by_step = len(run.series("loss/train")) > 2 * len(accuracy)  # else a log of epochs, whose steps are long
    early = span[1] - span[0] < least_steps and (by_step or len(accuracy) < 5)
    name, share, n = facts.majority(run)
    late, waiting = accuracy.values[-3:], list[str]()
    if not math.isfinite(share) and (same := _same_answer(run, accuracy)) is not None:
        yield same
    if math.isfinite(share) and len(late) >= 2:
        error = math.sqrt(share * (1 - share) / max(n, 1.0))
        at_majority = float(np.max(late)) <= share + 2 * error
        at_majority = at_majority and not _knows_the_rare(run) and 2 * error < resolution
        if at_majority and early:
            raise Unsure("accuracy is at the majority share, as it is at the start of every run", needs_steps=least_steps)
        if at_majority:
            yield _majority(
                run, name, share, float(np.median(late)), (int(accuracy.steps[-len(late)]), int(accuracy.steps[-1]))
            )
        else:
            failed = list(_classes(run, recall, least_class, float(np.median(late))))
            if early or _still_learning(late, n):
                waiting = [e.where[0] for e in failed if e.say == "common"]
            yield from (e for e in failed if e.where[0] not in waiting)
            if share >= 0.9:
                yield Evidence({"share": share}, (name,), None, "unsuited", Severity.INFO, Confidence.EXACT)
    yield from _slices(run, slice_ratio, least_slice, p)
    if waiting:
        raise Unsure(f"class {waiting[0]} is not learned yet, while accuracy still rises", needs_steps=least_steps)


def _same_answer(run: Run, accuracy: Series, least: int = 10) -> Evidence | None:
    """An accuracy that never moves, from the first evaluation on, in training neither: known from a log without any labels."""
    loss, trained = run.series("loss/val").finite().values, facts.accuracy(run, "train").values
    if len(accuracy) < least or np.ptp(accuracy.values) > 0 or not 0.5 < accuracy.values[0] < 1:
        return None  # one answer for all that is mostly wrong is a model that has not learned: LOSS002
    if len(np.unique(loss)) < least // 2 or (len(trained) >= least and np.ptp(trained[1:]) > 0.01):
        return None  # without any movement of the loss it is the evaluation that stands still: EVAL001
    values = {"accuracy": float(accuracy.values[0]), "count": len(accuracy)}
    return Evidence(values, ("accuracy/val",), (int(accuracy.steps[0]), int(accuracy.steps[-1])), "same", Severity.WARNING)


def _knows_the_rare(run: Run, margin: float = 0.1) -> bool:
    """Whether the classes are told apart although accuracy is at the majority: weights trade it for recall."""
    table = run.matrix("eval/recall/class")
    if not len(table) or not len(table.names):
        return False
    last = table.values[-1][np.isfinite(table.values[-1])]
    return len(last) > 1 and float(np.mean(last)) > 1 / len(last) + margin


def _majority(run: Run, name: str, share: float, accuracy: float, steps: tuple[int, int]) -> Evidence:
    """Unbalanced classes make it a trap of the metric; balanced ones mean that nothing was learned."""
    counts = facts.counts(run.fact("data.val_class_counts"))
    even = share <= max(1.5 / max(len(counts), 2), 0.5)  # an accuracy below one half deceives nobody
    values = {"accuracy": accuracy, "share": share}
    return Evidence(values, () if even else (name,), steps, "chance" if even else "majority", Severity.WARNING)


def _still_learning(accuracies: Floats, n: float, least: float = 0.05) -> bool:
    """Whether accuracy rose from the last evaluation but one to the last, by more than chance: classes come one by one."""
    before, now = (float(v) for v in accuracies[-2:])
    return now - before > max(least, 2 * math.sqrt(2 * now * (1 - now) / max(n, 1.0)))


def _classes(run: Run, recall: float, least: int, accuracy: float) -> Iterator[Evidence]:
    table, support = run.matrix("eval/recall/class"), run.matrix("eval/support/class")
    if len(table) < 2 or len(table.names) > 100 or facts.table(run, "data.token"):  # rare words are rarely right
        return
    for name in table.place:
        found = table.column(name).finite().values[-2:]
        n = support.column(name).last if name in support.place else math.nan
        # A class as good as absent among many weak ones is the model's level, not a hidden failure.
        if len(found) == 2 and n >= least and float(np.max(found)) < recall and accuracy > 4 * recall + 1 / len(table.names):
            values = {"recall": float(found[-1]), "n": n, "accuracy": accuracy}
            weightless = name in {f"{v:g}" for v in facts.numbers(run.fact("loss.weightless"))}
            say = (
                "weightless"
                if weightless
                else "class"
                if _rare(run, name, n, float(np.nanmean(support.values[-1])))
                else "common"
            )
            yield Evidence(values, (name,), (int(table.steps[-2]), int(table.steps[-1])), say)


def _rare(run: Run, name: str, n: float, mean: float, share: float = 0.5) -> bool:
    """Whether a class has less than half of its even share: of what was trained on, where that is known, else of validation."""
    counts = facts.counts(run.fact("data.class_counts"))
    if name in counts:
        n, mean = counts[name], sum(counts.values()) / len(counts)
    return n < share * mean


def _slices(run: Run, ratio: float, least: int, p: float) -> Iterator[Evidence]:
    slices = facts.rows(run, "eval.slices")
    for row in slices:
        n, loss, mean, chance = (facts.number(row.get(k)) for k in ("n", "loss", "mean_loss", "p"))
        if n >= least and mean > 0 and loss > ratio * mean and chance * len(slices) < p:
            values = {"loss": loss, "n": n, "ratio": loss / mean}
            yield Evidence(values, (str(row.get("slice", "slice")),), None, "slice", Severity.INFO)
