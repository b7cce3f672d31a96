"""Fine-tuning began without the pretrained weights.

## What it sees

A run that was meant to start from trained weights: weights were loaded, it has adapters, or you said so. It fires if
more than half of the parameters were not loaded. It also fires if a language model's first loss is above 80 % of ln V,
the level of a model without knowledge. It is a warning when a file was read whose weights fit the model by name and
shape, and none of them is in it when training begins. The same holds when most of what was loaded had been overwritten
by then.

## Why it matters

A load that silently fits no key leaves random weights. Training then looks like a slow, poor fine-tuning for as long as you
let it.

## What else looks like this

- A fresh classification head: its loss begins at ln C although the body is loaded. Only vocabularies are judged by their
  loss.
- WIRE015: a part, not most, of the checkpoint was left out.
- TUNE007: the weights are there and the tokenizer is another's.

## What to do

Load with `strict=True` and read the message; strip prefixes (`module.`, `_orig_mod.`); check the path. Start again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "TUNE008",
    needs={
        "fact:model.loaded | fact:finetune | fact:model.adapters | fact:model.read_unused | fact:model.overwritten | "
        "event:load": 1
    },
    says={
        "": "the first loss is {first:.3g}, that of an untrained model (ln {classes:.0f} = {chance:.3g})",
        "unread": "a file with weights for {share:.0%} of the model was read, but the model holds none of them (such as "
        "{name})",
        "overwritten": "weights were loaded, and {share:.0%} of them were overwritten before training began (such as {name})",
        "keys": "{share:.0%} of the parameters were not in the loaded checkpoint{keys}",
    },
    fix={
        "": "Load with strict=True and read its message; strip prefixes such as module. or _orig_mod.; then start again.",
        "overwritten": "Load the weights after all initialisation: move init_weights or reset_parameters before "
        "load_state_dict, or apply them to the new head only.",
    },
    severity=Severity.CRITICAL,
    explains=("LOSS010", "WIRE015", "LOSS002"),
    at="load",
)
def pretrained_not_loaded(
    run: Run,
    *,
    share: float = 0.8,  # of ln V; CATALOGUE TUNE008
    unloaded: float = 0.5,
    vocabulary: int = 200,  # classes from which a head is a vocabulary and not a fresh task head
) -> Iterator[Evidence]:
    unused = facts.table(run, "model.read_unused")
    if unused:
        names = tuple(str(n) for n in unused.get("names") or ("?",))
        fits = facts.number(unused.get("share"), 1.0)
        yield Evidence({"share": fits, "name": names[0]}, names, None, "unread", Severity.WARNING, Confidence.EXACT)
        return
    lost = facts.table(run, "model.overwritten")
    if facts.number(lost.get("share"), 0.0) > unloaded:
        names = tuple(str(n) for n in lost.get("names") or ("?",))
        values = {"share": facts.number(lost.get("share")), "name": names[0]}
        yield Evidence(values, names, None, "overwritten", Severity.WARNING, Confidence.EXACT)
        return
    loaded = facts.table(run, "model.loaded") or _last_load(run)
    if not (loaded or run.fact("finetune") or run.fact("model.adapters") or run.fact("model.loaded")):
        raise Muted("not a fine-tuning run")
    part = facts.number(loaded.get("unloaded_share"), 0.0)
    if part > unloaded:
        missing = loaded.get("missing")
        names = tuple(str(m) for m in missing) if isinstance(missing, list | tuple) else ()
        keys = f" (such as {names[0]})" if names else ""
        yield Evidence({"share": min(part, 1.0), "keys": keys}, names, None, "keys", None, Confidence.EXACT)
        return
    if not facts.table(run, "model.loaded") and not run.fact("finetune") and not run.fact("model.adapters"):
        return  # a load in mid-run is a resume: the first loss says nothing about it
    chance = regime.chance_level(run)
    first = regime.curve(run).values[:3]
    classes = facts.number(run.fact("loss.classes"), 0.0)
    if (
        chance is None
        or classes < vocabulary
        or not facts.takes_tokens(run)
        or not len(first)
        or (run.fact("loss.reduction") == "sum" and not regime.averaged(run))
    ):
        return
    level = float(np.median(first))
    if math.isfinite(level) and level > share * chance:
        yield Evidence(
            {"first": level, "classes": classes, "chance": chance}, ("loss/train",), None, "", None, Confidence.STRONG
        )


def _last_load(run: Run) -> dict[str, Any]:
    """The last load of a model during the run, with the share of its parameters that the checkpoint did not bring."""
    names = [
        n for n in facts.table(run, "model.param_shapes") if not n.startswith("optimizer")
    ]  # nameless ones of an optimizer
    for event in reversed(run.events_of("load")):
        missing, strange = (event.data.get(k) for k in ("missing", "unexpected"))
        if event.data.get("what", "model") != "model" or not isinstance(missing, list | tuple):
            continue
        # Without keys that found no place the checkpoint was simply smaller: a new head on an old body.
        share = len(missing) / max(len(missing), len(names), 1) if strange else 0.0
        return {"missing": list(missing), "unexpected": strange, "unloaded_share": share}
    return {}
