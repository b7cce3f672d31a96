"""NaNs are hidden instead of fixed: non-finite numbers occur, and something keeps them out of sight.

## What it sees

`nan_hidden` events: `nan_to_num` that replaced something in a loss or gradient, or a NaN inside the model; a log that
leaves NaN out. Gradients that are not finite after `backward()` and finite at the update are counted on every step.
So are batches that a guard leaves out: forwards in training that no backward followed. Whether their loss was finite is
known where the model's output was not, and on steps that were looked at. They count when they are more than `share` of
all batches; a tenth of them is critical.

## Why it matters

The loss on the screen is fine and the model is not: the skipped batches are often the hard ones, and a gradient with
holes points elsewhere. The operation that makes the NaN is still there.

## What else looks like this

- `nan_to_num` on inputs with missing values, done on purpose: not counted.
- Attention rows that are masked whole and filled with zeros: a remark, as any NaN that a model replaces itself.
- A gradient scaler that calibrates: `NUMR005` judges that.

## What to do

Take the patch out, let the first non-finite operation be named (`NUMR001`), and fix that."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Event, Run

HOW = {"nan_to_num": "replaced", "gradient": "gradient", "skipped": "skipped", "logging": "logging", "inside": "inside"}


@rule(
    "NUMR008",
    needs={"event:nan_hidden": 1},
    says={
        "gradient": "gradients held NaN or infinity after backward on {count} of {total} steps, and were replaced before the "
        "update",
        "replaced": "nan_to_num replaced NaN or infinity in the loss or its gradients {often}",
        "skipped": "{count} of the {total} training batches were left out without an update, because their loss was NaN "
        "or infinite",
        "left": "{count} of the {total} training batches were left out without an update; {looked} of them were checked, and "
        "all had a loss or an output that was NaN or infinite",
        "inside": "nan_to_num replaced NaN inside the model, in numbers made from its weights, on {count} of the {total} steps "
        "that were checked",
        "logging": "NaN or infinite losses were left out of the log {often}",
    },
    fix="Remove this workaround and run again: `traindx run` names the operation that makes the first NaN. Fix that operation.",
    confidence=Confidence.EXACT,
    explains=(),
)
def hidden_nan(run: Run, *, share: float = 0.001, critical_share: float = 0.1) -> Iterator[Evidence]:
    # CATALOGUE: more than .1 % of the updates. [def] a tenth of the data left out makes another data set.
    updates = len(run.series("loss/train")) or 1
    left = facts.table(run, "loop.left_out")
    batches, looked, broke = (int(facts.number(left.get(key), 0)) for key in ("batches", "looked", "broke"))
    backwards = run.series("loop/backwards").finite().values
    each = float(np.mean(backwards)) if len(backwards) else 1.0
    for how, say in HOW.items():
        events = [e for e in run.events_of("nan_hidden") if e.data.get("how") == how]
        counts = {
            e.data.get("rank"): facts.number(e.data.get("count"), 1) for e in events
        }  # the last of a rank counts them all
        count = int(sum(counts.values()))
        if how == "skipped" and 0 < broke == looked:
            say, count = ("left" if looked < batches else "skipped"), max(batches, count)
        total = updates
        if how == "skipped":
            total = round(updates * max(each, 1.0)) + count  # a skipped batch made no update
        if how == "inside":
            total = max(int(facts.number(facts.table(run, "cost").get("full_steps"), 1)), count)
        if not count or (how == "skipped" and count <= share * total):
            continue
        yield Evidence(
            where=_sites(events),
            steps=(events[0].step, events[-1].step),
            say=say,
            severity=_severity(say, count > critical_share * total),
            facts={"count": count, "total": total, "looked": looked},
        )


def _severity(say: str, many: bool) -> Severity | None:
    if say == "inside":  # rows that are masked whole are often filled so, and learn nothing wrong
        return Severity.INFO
    return Severity.CRITICAL if say in ("skipped", "left") and many else None


def _sites(events: list[Event]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(e.data["site"]) for e in events if e.data.get("site")))
