"""Fine-tuning made the model worse at what it could do before.

## What it sees

The loss on a probe set of the original task, measured before training and at least twice during it. It is above its
first value by more than three standard errors and 10 % in both of the last two measurements. The probe set is what you
log (`dx.log(probe_loss=…)`), or what the run evaluates in addition to its own task from the start. Among two sets, or
the batches of one evaluation, some have never been below their first loss and are half as high again. The others have
fallen, and the rise is at least a tenth of that fall. Without a probe set it reports one plain case. The evaluated
classes made up most of the training labels at first and less than a tenth at the end, and the validation loss is three
times its best.

## Why it matters

A model that answers the new task and has lost the old ones is worse than the one you started from, and no figure of the new
task shows it.

## What else looks like this

- LOSS008: overfitting falls first and rises then, and it takes the validation set as a whole.
- Only the format of the answers changed: check with a template and a few examples.
- BatchNorm statistics that drifted: recompute them.
- TUNE006: the same too hot training, seen on the new task.

## What to do

Divide the learning rate by 3 to 10, train fewer epochs, use LoRA instead of full tuning, mix in 5 to 20 % earlier data,
or interpolate the weights: θ₀ + α(θ − θ₀) with α from .5 to .8."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Blind, Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Ints, Run


@rule(
    "TUNE001",
    needs={"probe/loss | batch/labels/class | eval/loss/batch | loss/val": 3},
    says={
        "": "the loss on the original task rose from {before:.4g} to {after:.4g} ({rise:+.0%}, {z:.0f} standard errors)",
        "beside": "another task that you evaluate gets worse: its loss rose from {before:.4g} to {after:.4g} while the "
        "loss of {other} fell from {first:.4g} to {last:.4g}",
        "classes": "training no longer contains the classes that you evaluate ({early:.0%} of its labels at the start, "
        "{late:.0%} now), and their loss rose from {before:.4g} to {after:.4g}",
    },
    fix={
        "": "Lower the learning rate 3 to 10 times, train fewer epochs, mix in 5–20 % old data, or interpolate with the "
        "old weights (α = .5–.8).",
        "classes": "Mix 5–20 % of the old data into training.",
    },
    severity=Severity.WARNING,
    explains=("EVAL003", "EVAL004", "LOSS008", "LOSS001", "LOSS006", "DATA003", "DATA008"),
)
def forgetting(
    run: Run,
    *,
    deviations: float = 3.0,  # CATALOGUE TUNE001
    relative: float = 0.1,
    gone: float = 0.1,  # share of training labels below which the classes of validation are no longer trained
) -> Iterator[Evidence]:
    probe = run.series("probe/loss").finite()
    if len(probe) < 3:
        beside = _beside(run) if regime.finetune(run) else None
        if beside is not None:
            yield beside
        else:
            yield from _classes_gone(run, gone)
        return
    known = run.series("probe/loss_se").finite().values
    before = float(probe.values[0])
    se = max(float(np.median(known)) if len(known) else 0.01 * abs(before), 1e-12) * np.sqrt(2)
    late = probe.values[-2:]
    if np.all(late > before + deviations * se) and np.all(late > before + relative * abs(before)):
        after = float(late[-1])
        values = {
            "before": before,
            "after": after,
            "rise": (after - before) / abs(before) if before else np.inf,
            "z": (after - before) / se,
        }
        yield Evidence(values, ("probe/loss",), (int(probe.steps[0]), int(probe.steps[-1])))


def _beside(run: Run, worse: float = 1.5, better: float = 0.8) -> Evidence | None:
    """Of what is evaluated from the start, a part gets worse and the rest better: [def] half as much again, and by a fifth."""
    own, other = run.series("loss/val").finite(), run.series("metric/other/loss").finite()
    pairs: list[tuple[str, Floats, Floats, Ints]] = []
    if len(own) == len(other):  # two sets, each from a loader of its own
        pairs += [
            ("the other set", own.values, other.values, own.steps),
            ("the first set", other.values, own.values, own.steps),
        ]
    table = run.matrix("eval/loss/batch")
    if len(table) and len(table.names) > 1 and bool(np.isfinite(table.values).all()):
        lost = _worse(table.values, worse)
        edges = np.count_nonzero(np.diff(lost.astype(int)))
        if lost.any() and not lost.all() and edges <= 2:  # batches of one set stand together
            means = [table.values[:, part].mean(axis=1) for part in (lost, ~lost)]
            pairs.append(("the other batches", means[0], means[1], table.steps))
    begin = (run.steps or (0, 0))[0]
    for name, a, b, steps in pairs:
        early = len(a) >= 3 and int(steps[0]) <= begin + 1
        # a loss near zero doubles easily: what was lost is held against what was gained
        early = early and np.median(a[-2:]) - a[0] > 0.1 * (b[0] - np.median(b[-2:]))
        if early and _worse(a[:, None], worse)[0] and np.median(b[-2:]) < better * b[0] and b[0] > 0:
            told = {"before": float(a[0]), "after": float(a[-1]), "first": float(b[0]), "last": float(b[-1]), "other": name}
            return Evidence(told, ("loss/val",), (int(steps[0]), int(steps[-1])), "beside")
    return None


def _worse(losses: Floats, factor: float) -> np.typing.NDArray[np.bool_]:
    """Per column, whether it was never below its first value by a tenth and ends `factor` times as high, twice."""
    first = losses[0]
    never = (losses >= 0.9 * first).all(axis=0)
    return np.asarray((first > 0) & never & (losses[-2:] > factor * first).all(axis=0))


def _classes_gone(run: Run, gone: float) -> Iterator[Evidence]:
    """Without a probe: the evaluated classes were trained at first and are no more, and their loss multiplied."""
    fed, val = run.matrix("batch/labels/class"), run.series("loss/val").finite()
    asked = {str(c) for c, n in facts.counts(run.fact("data.val_class_counts")).items() if n > 0}
    if len(fed) < 9 or len(val) < 6 or not asked:
        raise Blind("no probe of the original task was kept", "probe/loss")
    third = len(fed) // 3
    inside = np.array([n in asked for n in fed.names])
    share = [_share(fed.values[part], inside) for part in (slice(None, third), slice(-third, None))]
    best = int(np.argmin(val.values))
    before, after = float(val.values[best]), float(np.median(val.values[-2:]))
    if not (share[0] > 0.5 and share[1] < gone):
        raise Blind("no probe of the original task was kept", "probe/loss")
    if after > 3 * abs(before) and best < len(val) - 2:
        seen = {"early": share[0], "late": share[1], "before": before, "after": after}
        yield Evidence(seen, ("loss/val",), (int(val.steps[best]), int(val.steps[-1])), "classes")


def _share(rows: Floats, inside: np.typing.NDArray[np.bool_]) -> float:
    total = float(np.nansum(rows))
    return float(np.nansum(rows[:, inside])) / total if total > 0 else 0.0
