"""Weights or optimizer state hold NaN or infinity: parameters, buffers or optimizer moments hold NaN or infinity.

## What it sees

Non-finite entries in what the run carries from step to step. It names the first tensors and says where it began. They
may be loaded or initialised that way, start in a buffer (then the data brought it), or follow a broken loss or
gradient.

## Why it matters

Nothing that happens afterwards can repair it: every output that touches such a tensor is NaN, and so is every later
checkpoint.

## What else looks like this

- Buffers that hold minus infinity on purpose (attention masks): not reported.
- A loss that is NaN for one batch while all weights are fine: `NUMR001`.

## What to do

Go back to the last checkpoint whose weights *and* optimizer state are finite. Put a guard before the update that
skips it when a gradient is not finite. If it was there from the start, look at the checkpoint and at the
initialisation.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import breakdown
from traindx.breakdown import Break
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

CARRIED = ("buffer", "param", "state")


@rule(
    "NUMR003",
    needs={"event:nonfinite | state_nonfinite | weight_nonfinite/param": 1},
    says={
        "": "from step {first} on, {things} hold NaN or infinity: {names}",
        "loaded": "{things} held NaN or infinity before the first update: {names}",
        "buffer": "buffers became NaN or infinite first, at step {first}, through that batch: {names}",
    },
    fix={
        "": "Resume from a checkpoint with finite weights and optimizer state; skip updates with NaN or infinite gradients.",
        "loaded": "Check the loaded checkpoint and the initialisation: all of it must be finite.",
        "buffer": "Find the batch of step {first}; restore the buffers from before it.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS001", "LOSS002", "LOSS011", "EVAL001", "EVAL004", "EVAL007", "ACTV005", "NUMR005", "GRAD004"),
    at={"loaded": "written"},
)
def state_poisoned(run: Run) -> Iterator[Evidence]:
    found = breakdown.breaks(run)
    mine = [b for b in found if b.what in CARRIED]
    if not mine:
        return
    start = run.steps[0] if run.steps else 0
    first = mine[0]
    root = breakdown.first_break(run) == first
    say = "loaded" if root and first.before and first.step <= start else "buffer" if root and first.what == "buffer" else ""
    names = tuple(n for b in mine for n in b.names)
    yield Evidence(
        where=tuple(dict.fromkeys(names)),
        steps=(first.step, run.steps[1] if run.steps else first.step),
        say=say,
        severity=Severity.WARNING if _healed(run, mine) else Severity.CRITICAL,
        facts={"things": _things(mine), "names": ", ".join(dict.fromkeys(names[:3])) or "which ones was not recorded"},
    )


def _things(mine: list[Break]) -> str:
    words = {"buffer": "buffers", "param": "parameters", "state": "optimizer states"}
    return " and ".join(dict.fromkeys(words[b.what] for b in mine))


def _healed(run: Run, mine: list[Break]) -> bool:
    """Only optimizer states were hit and the count is back where it began: someone cleared them."""
    count = run.series("state_nonfinite").finite().values
    return all(b.what == "state" for b in mine) and len(count) > 1 and count[-1] <= count[0]
