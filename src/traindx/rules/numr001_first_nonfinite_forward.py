"""The loss became NaN or infinite: an operation turned finite numbers into NaN or infinity, and the loss with them.

## What it sees

The first thing of the run that was not finite is the loss. Where the step could be replayed, the operation, its
module and the source line are named, and whether the batch, the weights, the precision or the operation is to blame.
Without a replay the loss curve alone gives the step. A run whose loss was finite again afterwards gets a warning, one
that stays broken is critical.

## Why it matters

A NaN spreads through one backward into every gradient and through one update into every weight and moment. What
counts is the first operation, not the place where the NaN became visible.

## What else looks like this

- Values that had been growing for a while before: the operation overflowed, but the cause is the divergence
  (`OPTM002`, `GRAD002`). The finding says so.
- A batch that already held NaN: `DATA001`. A batch without valid targets: `TUNE002`.
- Weights that were already broken: `NUMR003`. A finite loss with broken gradients: `NUMR002`.
- Minus infinity in attention masks, and cells of a log that nobody filled: not reported.

## What to do

Use the fused losses. Clamp *before* a logarithm; put ε *inside* a square root. Guard means over empty selections and
rows that are masked entirely. With `torch.where`, make the argument safe, not the result. Then continue from weights
that are older than the first NaN."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from traindx import breakdown
from traindx.breakdown import Break
from traindx.finding import Confidence, Evidence, Severity
from traindx.regime import params
from traindx.rule import rule
from traindx.run import Run


@rule(
    "NUMR001",
    needs={"event:nonfinite | loss/train": 1},
    says={
        "": "the loss became {value} at step {first}",
        "origin": "the loss became {value} at step {first}: {op} at {where} {doubt}turned finite numbers into NaN or infinity",
        "unlocated": "the loss became {value} at step {first}: {op} in the loss probably turned finite numbers into NaN or "
        "infinity (line unknown)",
        "sudden": "the loss became {value} at step {first} without warning; shortly before it was {before:.3g} (best "
        "{best:.3g})",
        "batch": "the loss became {value} at step {first}: {held} already held NaN or infinity",
        "weights": "the loss became {value} at step {first}: {name} held NaN or infinity before that step began",
        "given": "the loss became {value} at step {first}: what the model got already held NaN or infinity",
        "between": "the loss became {value} at step {first}: the loader's batch was finite, and what the model got was not",
        "grown": "the loss became {value} at step {first} after growing; shortly before it was {before:.3g} (best {best:.3g})",
        "norms": "the loss became {value} at step {first} after the gradient norm had grown {times:.2g}× over the steps before",
        "moved": "the loss became {value} at step {first}, right after a step that moved {moved_layer} by {moved:.0%} of "
        "its size",
        "empty": "the loss was {value} at step {first}: no target of that batch was valid",
        "passing": "the loss was {value} at step {first} and finite again later",
    },
    fix={
        "": "Run it again with `traindx run`: it names the operation. Fix that operation and resume from before this step.",
        "batch": "Find and drop the samples of that batch; resume from before it.",
        "unlocated": "Guard `{op}` in the loss. Its line is not known, because the loss of this step was made in a new way. "
        "With `traindx run --budget none` every step is looked at, and the line is named.",
        "sudden": "Find the operation or sample of step {first} (`traindx run` names it); the loss had not been growing.",
        "weights": "Find the code that changes {name} between two steps, and go back to a checkpoint with finite weights.",
        "between": "Check what you do to the batch before the model gets it, such as a division by a standard deviation of "
        "zero.",
        "given": "Check the samples of that batch, and what you do to them before the model gets them, such as a division by a "
        "standard deviation of zero.",
        "grown": "Lower the learning rate or warm up, then clip; resume from before the rise.",
        "norms": "Divide the learning rate by 10, then clip gradients; resume from before the rise.",
        "moved": "Start again with a tenth of the learning rate and a warm-up, with clipping, or with smaller initial "
        "weights: the step was too large.",
        "empty": "Skip batches without valid targets, or truncate the prompt instead of the answer.",
        "passing": "Look at that batch, and guard the operation before it damages the weights.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("NUMR003", "NUMR005", "LOSS001", "LOSS006", "LOSS007", "LOSS011", "EVAL001", "EVAL004", "EVAL007", "ACTV005"),
    at={"weights": "written"},
)
def first_nonfinite_forward(run: Run, *, growth: float = 5.0) -> Iterator[Evidence]:
    # [def] `growth`: the loss stood this many times its own size above its best before it broke: it had been diverging.
    found = breakdown.first_break(run)
    if found is None or found.what not in ("loss", "input") or breakdown.in_backward(run):
        return
    loss = next((b for b in breakdown.breaks(run) if b.what == "loss"), None)
    if loss is None:
        return  # the batch was bad and the loss did not mind
    origin = breakdown.origin(run, "forward")
    shown: dict[str, Any] = {"value": loss.spelled, **_told(origin)}
    say = _story(run, found, loss, shown, growth)
    advice = str(origin.get("advice") or "").replace("{", "{{").replace("}", "}}") if say in ("", "origin", "sudden") else ""
    survived = breakdown.passed(run, loss.step)
    yield Evidence(
        where=breakdown.place(origin),
        steps=(loss.step, run.steps[1] if run.steps and not survived else loss.step),
        say=say or ("passing" if survived else ""),
        severity=Severity.WARNING if survived else Severity.CRITICAL,
        confidence=Confidence.EXACT if loss.exact else Confidence.STRONG,
        facts=shown,
        fix=advice,
    )


def _told(origin: Any) -> dict[str, Any]:
    if not origin:
        return {}
    doubt = "" if origin.get("proven") else "probably "
    return {"op": str(origin["op"]), "doubt": doubt, "blame": str(origin.get("blame") or ""), "module": origin.get("module"),
            "line": origin.get("line"), "name": str(origin.get("name") or "a parameter"),
            "place": str(origin.get("place") or "")}  # fmt: skip


def _story(run: Run, first: Break, loss: Break, shown: dict[str, Any], growth: float) -> str:
    """Which of the sentences fits; puts what it needs into `shown`."""
    blame = shown.get("blame")
    if first.what == "input" or blame == "batch":
        if first.what != "input" and shown["op"] == "input" and not breakdown.from_loader(run):
            return "given"
        shown["held"] = "its targets" if shown.get("op") == "target" else "its batch"
        return "batch"
    if shown.get("place") == "weights":
        return "weights"
    if shown.get("place") == "between" and shown["op"] == "input":
        return "between"
    valid = run.series("batch/valid_targets").at([loss.step])[0]
    if valid == 0 or any(e.step == loss.step for e in run.events_of("empty_targets")):
        return "empty"
    moved, layer = params.thrown(run, loss.step)
    if _formula(shown) and not moved > params.THROWN:
        return "origin"
    before, best = _climb(run, loss.step)
    if (times := _norm_climb(run, loss.step)) > 100 and math.isfinite(before):
        shown |= {"times": times}
        return "norms"
    if before - best > growth * max(abs(best), 1e-12) or (blame == "weights" and math.isfinite(before)):
        shown |= {"before": before, "best": best}
        return "grown"
    if moved > 1:
        shown |= {"moved": moved, "moved_layer": layer}
        return "moved"
    if "op" in shown:
        return "origin" if shown["line"] or shown["module"] else "unlocated"
    if _long_enough(run, loss.step):
        shown |= {"before": before, "best": best}
        return "sudden"
    return ""


# log, root, division, power and exponential leave their domain by how the formula is written; sums and products only grow
_FORMULAS = (
    "log", "log2", "log10", "log1p", "xlogy", "exp", "exp2", "expm1", "sinh", "cosh", "sqrt", "rsqrt", "div", "reciprocal",
    "pow", "acos", "asin", "atanh", "logit",
)  # fmt: skip


def _formula(shown: dict[str, Any]) -> bool:
    """The replay proved one operation that is unsafe as it is written, whatever the steps before it did."""
    return shown.get("blame") == "operation" and not shown["doubt"] and shown["op"].rstrip("_") in _FORMULAS


def _norm_climb(run: Run, step: int, window: int = 40, least: int = 4) -> float:
    """How many times its level the gradient norm had become in the records before a step, when it rose over several."""
    norm = run.series("grad_norm").between(lo=step - window, hi=step).finite().values
    norm = norm[norm > 0]
    if len(norm) < 2 * least:
        return math.nan
    late = norm[-least:]
    level = float(np.median(norm[:-least]))
    rising = np.count_nonzero(np.diff(norm[-2 * least :]) > 0) >= 2 * least - 3
    return float(late.max()) / level if rising else math.nan


def _long_enough(run: Run, step: int, least: int = 10) -> bool:
    """Whether enough finite losses came before a step to say that nothing announced it, and none came after."""
    before = run.series("loss/train").finite().between(hi=step - 1)
    return len(before) >= least and not breakdown.passed(run, step)


def _climb(run: Run, step: int) -> tuple[float, float]:
    """The loss shortly before a step and at its best; equal when there is nothing to compare."""
    losses = run.series("loss/train").finite().between(hi=step - 1).values
    if len(losses) < 2:
        return math.nan, math.nan
    late = float(np.max(losses[-3:]))
    best = float(np.min(losses)) if len(losses) < 10 else float(np.quantile(losses, 0.1))
    return late, best
