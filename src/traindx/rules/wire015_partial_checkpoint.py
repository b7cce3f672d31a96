"""The checkpoint was loaded only in part: part of the model kept its weights, or the same weights are loaded again.

## What it sees

The lists of missing and unexpected keys of the loads before the first step. Keys that are the same but for a prefix
(`module.`, `_orig_mod.`, `model.`) mean that nothing matched what it should have. Otherwise, more than `worth` of the
parameters that got nothing from the checkpoint, unless they are the output layers, which fine-tuning replaces on
purpose. The same state is loaded into the trained model `again` times or more while its optimizer continues unchanged:
what was learned in between is lost. The same goes for weights that are, `again` times, to the bit what they were before
the first update, whoever wrote them back.

## Why it matters

With `strict=False` torch loads what fits and says nothing. Quality then lies far below the checkpoint's, or training
quietly starts from scratch.

## What else looks like this

- A new head on a pretrained body: only the last layers are missing; info.
- Starting weights for a part of the model on purpose (word vectors): then the list should not surprise you.
- Averaged weights that are swapped in for an evaluation and out again: other weights each time, and not counted. The best
  weights after a plateau: the loss is not thrown back to where the run began. Folds, sweeps and tasks that all begin with
  the same weights have an optimizer of their own each.
- The right keys with poor results: `TUNE007`, `TUNE008`.

## What to do

Print what `load_state_dict` returns. Strip the prefix: `{k.removeprefix("module."): v for k, v in state.items()}`.
Load strictly and replace the head afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from traindx import facts, outline, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Event, Run


@rule(
    "WIRE015",
    subject="load",
    needs={"fact:model.loaded | event:load | event:weights_back": 1},
    says={
        "prefix": "{count} keys of the checkpoint differ from the model's only by a prefix and were not loaded: {where}",
        "missing": "the checkpoint left {share:.0%} of the parameters as they were: {where}",
        "again": "the same weights were loaded {times} times during training (steps {at}), and each time what was learned "
        "is lost",
        "back": "all weights were reset to their initial values {times} (step {first}): what was learned is lost",
        "head": "the checkpoint did not fill the last layers ({share:.1%} of the parameters): {where}",
    },
    fix={
        "prefix": "Strip or add the prefix of the keys before load_state_dict, and load with strict=True.",
        "missing": "Load with strict=True, or check the list of missing keys against what you meant to leave out.",
        "again": "Load the weights once, before the loop over epochs.",
        "back": "Find the code in the loop that writes the initial weights back: copy_ into .data, set_, or a swap that "
        "is not undone.",
        "head": "No action needed if the head was replaced on purpose.",
    },
    confidence=Confidence.EXACT,
    explains=("TUNE008", "LOSS010", "LOSS002", "LOSS009", "LOSS003"),
    at="load",
)
def partial_checkpoint(run: Run, *, worth: float = 0.01, critical_share: float = 0.2, again: int = 3) -> Iterator[Evidence]:
    # CATALOGUE: more than 1 % unloaded. [def] a fifth of the model at random values is no longer the checkpoint's model.
    if loads := list(_again(run, again)):
        yield from loads
    else:
        yield from _back(run, again)
    for missing, unexpected, share, step in _loads(run):
        shifted = [m for m in missing if any(_same_but_prefix(m, u) for u in unexpected)]
        share = len(shifted) / len(missing) if missing and math.isnan(share) else share  # sizes unknown: count the keys
        severity = Severity.CRITICAL if share >= critical_share else Severity.WARNING
        shown = {"count": len(shifted), "share": share}
        at = None if step is None else (step, step)
        if shifted:
            yield Evidence(where=tuple(shifted), steps=at, say="prefix", severity=severity, facts=shown)
        elif missing and share > worth:
            head = _only_the_head(run, missing)
            level = Severity.INFO if head else severity
            yield Evidence(where=tuple(missing), steps=at, say="head" if head else "missing", severity=level, facts=shown)


def _again(run: Run, least: int) -> Iterator[Evidence]:
    """One state put back at several steps, with neither a new optimizer nor a loaded optimizer state next to it."""
    fresh = {e.step for e in run.events_of("load") if e.data.get("what") == "optimizer"}
    held: dict[str, list[Event]] = {}
    for event in run.events_of("load"):
        if event.data.get("digest") and event.step not in fresh:
            held.setdefault(str(event.data["digest"]), []).append(event)
    for events in held.values():
        steps = sorted({e.step for e in events})
        if len(steps) < least or any(steps[0] <= e.step <= steps[-1] + 1 for e in run.events_of("retrained")):
            continue
        if regime.thrown_back(run, steps) is False:
            continue  # the best weights so far, after a plateau: what was learned until then stays
        site = str(events[0].data.get("site") or "")
        shown = {"times": len(steps), "at": ", ".join(str(s) for s in steps[:3]) + (" …" if len(steps) > 3 else "")}
        yield Evidence(shown, (site,) if site else (), (steps[0], steps[-1]), "again", Severity.CRITICAL)


def _back(run: Run, least: int) -> Iterator[Evidence]:
    """The first weights are there again and again, though nobody loaded them and the optimizer is the same."""
    seen = run.events_of("weights_back")
    times = int(max((facts.number(e.data.get("count"), 1) for e in seen), default=0))
    if not seen or run.events_of("retrained"):
        return
    first = seen[0].step
    if times >= least or not _better_since(run, first):
        end = max(first, run.steps[1] if run.steps else 0)
        count = f"{times} times" if times > 1 else "at least once"
        yield Evidence({"times": count}, (), (first, end), "back", Severity.CRITICAL)


def _better_since(run: Run, step: int, deviations: float = 3.0) -> bool:
    """Whether the loss of as many steps at the end is lower than that of the steps before the weights were first put back.

    One look may find the first weights by design (after a search for the learning rate, say); then training gets on.
    """
    losses = regime.curve(run, whole=True).finite()
    before, late = losses.between(hi=step - 1).values, losses.between(lo=step).values
    late = late[len(late) - len(before) :] if len(late) > len(before) else late
    if len(before) < 20 or len(late) < 20:
        return True
    error = math.sqrt(before.var() / len(before) + late.var() / len(late))
    return bool(before.mean() - late.mean() > deviations * error)


def _loads(run: Run) -> Iterator[tuple[list[str], list[str], float, int | None]]:
    """Missing keys, unexpected keys, unloaded share and step of every load into a model that did not fit exactly."""
    first = facts.table(run, "model.loaded")
    tables = [(e.data, e.step) for e in run.events_of("load") if e.data.get("what", "model") == "model"]
    seen: set[tuple[str, ...]] = set()
    for table, step in [(first, None), *tables]:
        missing, unexpected = (list(outline.named(table.get(key))) for key in ("missing", "unexpected"))
        if (missing or unexpected) and tuple(missing) not in seen:
            seen.add(tuple(missing))
            yield missing, unexpected, facts.number(table.get("unloaded_share"), outline.share(run, missing) or math.nan), step


def _same_but_prefix(a: str, b: str) -> bool:
    """Whether one name is the other with something in front, or both differ only in their first part.

    >>> _same_but_prefix("layer.0.weight", "module.layer.0.weight"), _same_but_prefix("head.weight", "fc.weight")
    (True, False)
    """
    if a == b:
        return False
    if a.endswith(f".{b}") or b.endswith(f".{a}"):
        return True
    tails = a.partition(".")[2], b.partition(".")[2]
    return tails[0] == tails[1] and tails[0].count(".") >= 2


def _only_the_head(run: Run, missing: list[str]) -> bool:
    """Whether the missing keys are the last parameters of the model, in order."""
    order = list(outline.shapes(run))
    gone = set(missing) & set(order)
    return bool(gone) and len(gone) < len(order) and set(order[-len(gone) :]) == gone
