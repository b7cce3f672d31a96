"""Parameters that should train are frozen: parameters that cannot learn because `requires_grad` is False.

## What it sees

`model.frozen`, the parameters with `requires_grad` False at the first step, and those that were frozen later and stayed
so. Nothing trainable at all is critical. Parameters that learned at first and were then frozen are a warning. A layer
whose weight is frozen while its bias learns (or the reverse) is a warning, unless most layers of the model are frozen
in that way. Whole modules frozen before the first step are taken for intent and reported as info. A remark follows
where no weights were loaded (they keep random values), and where BatchNorm layers among them still update their
statistics. Frozen random values become a warning when they make up at least `large` of the model and the run learns
almost nothing. That means the loss stays above `nothing` of the loss of a model that ignores its input, or above half
of that while the optimizer was given them too. Then they were meant to learn.

## Why it matters

A frozen layer never learns, and nothing in a loss curve says so. A freeze that was left over from an experiment, or
that hit a prefix too many, costs the capacity of what it covers.

## What else looks like this

- Fine-tuning with a frozen backbone, adapters, a teacher or target network, fixed position tables, frozen word
  vectors: intent.
- Training only biases: every layer is half frozen, by design.
- Parameters that learn but belong to no optimizer: `WIRE001`.

## What to do

Look at the list of names. Unfreeze with `module.requires_grad_(True)` before the optimizer is built. A frozen
BatchNorm also wants `module.eval()`, or its running statistics drift away from what was trained.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import facts, outline, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

# Layers of torch whose tensors are learned together; anything else may hold a constant as a parameter.
WHOLE = ("Linear", "Conv", "LSTM", "GRU", "RNN", "MultiheadAttention", "Bilinear")


@rule(
    "WIRE002",
    needs={"fact:model.frozen | fact:model.frozen_later": 1},
    says={
        "": "{count} parameters are frozen: {where}",
        "nothing": "every parameter of the model is frozen: nothing can learn",
        "part": "only a part of some layers is frozen: {where}",
        "intent": "{count} parameters in whole modules are frozen ({share:.0%} of the model): {where}",
        "scratch": "{count} parameters in whole modules are frozen ({share:.0%} of the model) though no weights were loaded: "
        "they keep their random values: {where}",
        "forgotten": "{count} parameters ({share:.0%} of the model) are frozen at random values{held}, and the loss stays at "
        "{left:.0%} of the loss of a model that ignores its input: {where}",
        "later": "{count} parameters ({share:.0%} of the model) were frozen at step {first}, after training had begun: {where}",
        "statistics": "frozen modules still update their BatchNorm statistics: {where}",
    },
    fix={
        "": "If this was not meant, set requires_grad_(True) on {where} before the optimizer is built.",
        "nothing": "Set requires_grad_(True) on the parameters you want to train, before the optimizer is built.",
        "forgotten": "Unfreeze them with module.requires_grad_(True), or load trained weights.",
        "statistics": "Call .eval() on the frozen part after every model.train(), or its statistics drift.",
    },
    confidence=Confidence.EXACT,
    explains=("GRAD004", "LOSS002", "ACTV002", "OPTM001"),
)
def frozen_unexpected(
    run: Run,
    *,
    common: float = 0.5,
    large: float = 0.2,
    most: float = 0.5,
    nothing: float = 0.9,  # [def] of what guessing costs: random features that were meant learn more than that
) -> Iterator[Evidence]:
    # [def] `common`: when more than half of the layers are frozen in part, it is a way of training (biases only), not a slip.
    later = {str(n): int(facts.number(s, 0)) for n, s in facts.table(run, "model.frozen_later").items()}
    if later:
        first, end = min(later.values()), run.steps[1] if run.steps else max(later.values())
        level = Severity.WARNING if _had_learned(run, later) and not _new_phase(run, later) else Severity.INFO
        seen = {"count": len(later), "share": outline.share(run, later)}
        yield Evidence(where=tuple(later), steps=(first, max(first, end)), say="later", severity=level, facts=seen)
    frozen = facts.strings(run, "model.frozen")
    if not frozen:
        return
    share = outline.share(run, frozen)
    if run.fact("model.trainable") == 0 or (share == 1.0 and run.fact("model.trainable") is None):
        yield Evidence(where=frozen, steps=run.steps, say="nothing", severity=Severity.CRITICAL, facts={"count": len(frozen)})
        return
    halves = _half_frozen(run, set(frozen), common)
    if halves:
        yield Evidence(where=halves, steps=run.steps, say="part", facts={"count": len(halves)})
    rest = tuple(n for n in frozen if n not in halves)
    if rest:
        modules = facts.strings(run, "model.frozen_modules")
        say = "scratch" if modules and _random(run, rest) else "intent" if modules and np.isfinite(share) else ""
        left = _left(run)
        if say == "scratch" and share >= large and (left > nothing or (left > most and _held(run))):
            say = "forgotten"
        yield Evidence(
            where=modules or rest,
            steps=run.steps,
            say=say,
            severity=Severity.WARNING if say == "forgotten" else Severity.INFO,
            facts={"count": len(rest), "share": share, "left": left, "held": " though the optimizer holds them" * _held(run)},
        )
        moving = _live_statistics(run, modules)
        if moving:
            yield Evidence(where=moving, steps=run.steps, say="statistics", severity=Severity.INFO)


def _had_learned(run: Run, later: dict[str, int]) -> bool:
    """Whether one of them had a gradient before it was frozen; believed where gradients were not recorded."""
    before = run.between(hi=max(later.values()) - 1)
    return not outline.gradients_seen(run) or bool(outline.with_gradient(before) & set(later))


def _new_phase(run: Run, later: dict[str, int], near: int = 2) -> bool:
    """Whether training began anew at the freeze: other weights were loaded, or an optimizer without history took over.

    The freeze may have been noticed some looks later: then no gradient was seen between the beginning and that step.
    """
    step = min(later.values())
    marks = {e.step for e in run.events_of("load", "retrained")} | set(regime.phase_starts(run))
    if any(abs(m - step) <= near for m in marks):
        return True
    last = max((m for m in marks if m <= step), default=None)
    if last is None or not outline.gradients_seen(run):
        return False
    return not _lively(run.between(lo=last, hi=step - 1), later)


def _lively(run: Run, names: dict[str, int]) -> bool:
    """Whether one of them got new gradients: what stays the same to the bit is left over from before the freeze."""
    for name, values in run.matrix("grad_norm/param").columns():
        known = values[np.isfinite(values) & (values > 0)]
        if name in names and len(known) and (len(known) == 1 or float(np.ptp(known)) > 0):
            return True
    return False


def _half_frozen(run: Run, frozen: set[str], common: float) -> tuple[str, ...]:
    kinds = facts.table(run, "model.param_module")
    layers: dict[str, list[str]] = {}
    for name in outline.shapes(run):
        if str(kinds.get(name, "")).startswith(WHOLE):
            layers.setdefault(outline.owner(name), []).append(name)
    mixed = [names for names in layers.values() if 0 < len(frozen & set(names)) < len(names)]
    if not mixed or len(mixed) > common * len(layers):
        return ()
    return tuple(n for names in mixed for n in names if n in frozen)


def _random(run: Run, names: tuple[str, ...]) -> bool:
    """Frozen at random values, as far as one can know: nothing loaded, no adapter, no embedding, no copy of a trained part."""
    known = "model.loaded" in run.facts or "finetune" in run.facts
    embeddings = set(facts.strings(run, "model.embeddings"))
    if not known or regime.finetune(run) or set(names) <= embeddings:
        return False
    return not outline.is_copy(run, names)


def _held(run: Run) -> bool:
    """Whether the optimizers hold the frozen parameters too."""
    given = sum(int(facts.number(g.get("params"), 0)) for g in facts.rows(run, "optimizer.groups"))
    return given >= len(outline.shapes(run)) > 0


def _left(run: Run, least: int = 100) -> float:
    """The loss of the last quarter, as a share of what a model loses that ignores its input; 0 where that is not known."""
    chance, loss = regime.chance_level(run), regime.curve(run).finite().values
    if chance is None or chance <= 0 or len(loss) < least:
        return 0.0
    return float(np.median(loss[-len(loss) // 4 :])) / chance


def _live_statistics(run: Run, modules: tuple[str, ...]) -> tuple[str, ...]:
    asleep = run.series("loop/eval_submodules")
    if not len(asleep) or np.any(asleep.values > 0):
        return ()
    return tuple(n for n, kind in outline.classes(run).items() if "BatchNorm" in kind and outline.inside(n, modules))
