"""The evaluation does not see the trained weights: it does not see the weights being trained, or repeats an old result.

## What it sees

A validation loss that repeats to six significant digits over three or more evaluations while training continues.
Weights moved between the evaluations or, in a log, the training loss kept changing at a learning rate above zero. The
log must itself hold six digits; a value rounded to 2.341 may repeat honestly. Four digits are enough for a value that
never moved in at least eight evaluations while training lost a fifth of its level. Where it was seen: evaluated weights
that are not the trained ones. It is a warning at once if they are no better than a constant answer while training is far
below it (a copy made before training). It is critical if they never change (an average that is not updated). It is a warning if
validation gained less than a tenth of what training has (an average that forgets too slowly). It is a remark while
their loss moves with training. And an accuracy that is printed again and again, to the last digit, without any
evaluation in between.

## Why it matters

Every decision taken on that figure (best checkpoint, early stop, "it has plateaued") is taken on nothing. A real plateau
jitters in the third to fifth digit; a number that does not jitter is not being measured.

## What else looks like this

- Training itself has stopped (learning rate zero, every parameter frozen, early stopping): then the repeat is honest,
  and this rule is silent.
- Validation targets in other units (raw prices, training standardised): the loss is so large that nothing training gains shows
  in its seven digits. It repeats, and DATA008 names the reason.
- Accuracy on a few samples has few levels and repeats: only the loss is judged.
- An average of the weights (EMA, SWA) is evaluated on purpose: its value moves, and that is only a remark.

## What to do

Evaluate the object that the optimizer updates. Look for a copy made before training (`deepcopy`, a compiled or wrapped
twin, a checkpoint reloaded each time), a cached result, or an exhausted loader. Training itself is fine."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.course.chance import chance
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import progress
from traindx.rule import rule
from traindx.run import Floats, Ints, Run, Series


@rule(
    "EVAL001",
    subject="evaluation",
    needs={"loss/val | eval/weights_differ | fact:eval.echo": 1},
    says={
        "": "the validation loss is {value:.6g} to the last digit in {count} evaluations (steps {first} to {last}) "
        "while training continued",
        "echo": "the accuracy is printed as {value:.6g} {count:.0f} times (steps {first:.0f} to {last:.0f}), but in "
        "between the model sees only training batches",
        "stood": "{count} evaluations in a row ran on the same weights (steps {first} to {last}), while the trained ones moved",
        "other": "{count} of {evaluations} evaluations used weights other than the ones being trained",
        "behind": "{count} of {evaluations} evaluations used weights that hardly follow the trained ones: validation "
        "made {gained:.0%} of the progress of training",
        "untrained": "the evaluated weights are not the trained ones and know nothing: validation loss {value:.4g}, a constant "
        "answer costs {chance:.4g}, training came to {now:.4g}",
    },
    fix={
        "": "Evaluate the module that the optimizer updates; look for a copy, a reloaded checkpoint or a cached result.",
        "behind": "Lower the decay of the weight average: with 0.9999 it takes 10,000 updates to forget the start. Or ramp "
        "it up from 0, or evaluate the trained weights.",
        "other": "No action needed if it is an average of the weights (EMA); otherwise evaluate the module that the "
        "optimizer updates.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.STRONG,
    explains=("EVAL007", "LOSS008", "EVAL004", "LOSS003", "EVAL002", "EVAL006", "EVAL010"),
    at={"": "evaluate guard", "echo": "metric figure"},
)
def stale_eval(
    run: Run,
    *,
    repeats: int = 3,  # CATALOGUE EVAL001
    digits: int = 6,
    many: int = 8,  # equal values that four or five digits must show before rounding cannot be the reason
    brief: float = 0.2,  # of all evaluations: a shorter row that ended by itself is a model that stood still, not a cache
    still: float = 1e-4,  # lr below this part of its peak moves nothing that seven digits show
) -> Iterator[Evidence]:
    val = regime.curve(run, "loss/val")
    doubt = False
    for first, count in _rows(val.values, repeats):
        steps = val.steps[first : first + count]
        moved, exact = _training_went_on(run, steps, still)
        passing = first + count < len(val) and count < max(5, brief * len(val))
        if not moved or passing or _drowned(run, float(val.values[first])):
            continue
        if _digits(val.values[first : first + 1]) < 4:
            doubt = True  # a round number is a floor, a clamp or nothing at all
            continue
        if _digits(val.values) < digits and not _unlikely(run, val, steps, many):
            doubt = True
            continue
        found = (int(steps[0]), int(steps[-1]))
        severity, confidence = (Severity.CRITICAL, Confidence.EXACT) if exact else (Severity.WARNING, Confidence.STRONG)
        yield Evidence({"value": float(val.values[first]), "count": count}, ("loss/val",), found, "", severity, confidence)
        return
    told = {k: facts.number(facts.table(run, "eval.echo").get(k)) for k in ("value", "count", "first", "last")}
    if all(math.isfinite(v) for v in told.values()):
        span = (int(told["first"]), int(told["last"]))
        yield Evidence(told, ("accuracy",), span, "echo", Severity.WARNING, Confidence.STRONG)
        return
    yield from _other_weights(run, val)
    if doubt:
        raise Unsure(f"the validation loss repeats, but in too few digits ({digits} would tell)")


def _rows(values: Floats, least: int) -> list[tuple[int, int]]:
    """Rows of equal values (to about seven digits): where each begins and how long it is; longest first."""
    if len(values) < least:
        return []
    same = np.abs(np.diff(values)) <= 1e-7 * np.abs(values[1:])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(np.int8), [0]])))
    rows = [(int(a), int(b - a) + 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return sorted((r for r in rows if r[1] >= least), key=lambda r: -r[1])


def _drowned(run: Run, value: float) -> bool:
    """Whether the value is so large that all training has gained would not show in its seven digits: targets in other units."""
    train = regime.curve(run).values
    return len(train) > 0 and float(np.ptp(train)) < 1e-6 * abs(value)


def _digits(values: Floats) -> int:
    """The most significant digits any value of the series carries; a float32 shows up with eight or nine."""
    texts = [f"{abs(v):.9e}".partition("e")[0].replace(".", "").rstrip("0") for v in np.unique(values)[:50]]
    return max((len(t) for t in texts), default=0)


def _unlikely(run: Run, val: Series, steps: Ints, many: int) -> bool:
    """Whether fewer digits will do: from the first on most evaluations agree in four while training lost a fifth of its level.

    A row that begins later may be a curve that came to rest and is rounded.
    """
    if steps[0] != val.steps[0] or len(steps) < max(many, len(val) // 2) or _digits(val.values) < 4:
        return False
    train = regime.curve(run).between(int(steps[0]), int(steps[-1])).values
    tenth = max(1, len(train) // 10)
    before, after = (float(np.median(part)) if len(part) else math.nan for part in (train[:tenth], train[-tenth:]))
    return before - after > 0.2 * abs(before)


def _training_went_on(run: Run, steps: Ints, still: float) -> tuple[bool, bool]:
    """Whether weights moved between these evaluations, and whether that was seen or only concluded."""
    rate = regime.lr(run).between(int(steps[0]), int(steps[-1])).values
    peak = regime.peak_lr(run)
    if len(rate) and peak > 0 and float(np.max(rate)) <= still * peak:
        return False, False
    ratio = run.series("update_ratio").finite().between(int(steps[0]), int(steps[-1])).values
    if len(ratio) and float(np.max(ratio)) * int(steps[1] - steps[0]) < 1e-5:
        return False, False  # weights that move by less than the digits of the loss
    moved = run.series("weights_moved").finite()
    seen = moved.where(np.isin(moved.steps, steps[1:]))
    if len(seen):
        return bool(np.all(seen.values > 0)), True
    train = regime.curve(run).between(int(steps[0]), int(steps[-1])).values
    return len(np.unique(train)) >= max(3, len(train) // 3), False


def _other_weights(run: Run, val: Series) -> Iterator[Evidence]:
    stands = run.series("eval/weights_stand").finite()
    if len(stands) >= 2 and np.all(stands.values > 0) and _moved(run, stands.steps):
        first = run.series("eval/weights_differ").finite().steps
        steps = (int(first[0] if len(first) else stands.steps[0]), int(stands.steps[-1]))
        yield Evidence({"count": len(stands) + 1}, (), steps, "stood", Severity.CRITICAL, Confidence.EXACT)
        return
    other = run.series("eval/weights_differ").finite()
    late = other.values[-3:]
    if not len(other) or not np.all(late > 0):
        return
    if known := _untrained(run, val):
        yield Evidence(known, (), (int(other.steps[0]), int(other.steps[-1])), "untrained")
        return
    if len(other) < 2:
        return
    moves = len(np.unique(val.values[-len(late) :])) > 1 or math.isnan(val.last)
    count = int(np.count_nonzero(other.values > 0))
    # Values that move belong to an average of the weights (EMA, SWA) or to another model that learns as well.
    severity = Severity.INFO if moves else Severity.CRITICAL
    steps = (int(other.steps[0]), int(other.steps[-1]))
    gained = _gained(run, val)
    if moves and gained < 0.1 and count == len(other) >= 3:
        told = {"count": count, "evaluations": len(other), "gained": max(gained, 0.0)}
        yield Evidence(told, (), steps, "behind", Severity.WARNING, Confidence.STRONG)
        return
    yield Evidence({"count": count, "evaluations": len(other)}, (), steps, "other", severity, Confidence.EXACT)


def _untrained(run: Run, val: Series) -> dict[str, float]:
    """What the losses are where evaluation is at the level of a constant answer and training is far below it."""
    ignorant, train = chance(run), regime.curve(run).finite().values
    if ignorant is None or not len(train):
        return {}
    now = float(np.median(train[-10:]))
    known = {"value": val.last, "chance": ignorant.loss, "now": now}
    return known if val.last > 0.95 * ignorant.loss and now < 0.5 * ignorant.loss else {}


def _moved(run: Run, steps: Ints) -> bool:
    moved = run.series("weights_moved").finite()
    return bool(np.all(moved.where(np.isin(moved.steps, steps)).values > 0))


def _gained(run: Run, val: Series, fell: float = 0.2) -> float:
    """The part of the fall of the training loss that validation has come down by at its best; infinite where it cannot be told:
    training has hardly fallen, or validation begins elsewhere."""
    train = progress(regime.curve(run).finite())
    if train is None or train.relative < fell or not len(val) or val.values[0] > 1.1 * train.first:
        return math.inf
    return (train.first - float(np.min(val.values))) / train.drop
