"""The output layer does not fit the loss: the loss cannot measure, or the head cannot say, what the targets ask for.

## What it sees

Exact shapes, ranges and kinds at the loss call. It looks for a cross-entropy over one class (always zero) and for the
class axis in the wrong place. More than `unreachable` of the targets may lie outside what the last activation can
produce (tanh and targets beyond ±1, ReLU and negative targets). Also a bounded activation on logits, or a regression
loss on whole numbers that are most likely class ids (0 … K−1, every class about equally frequent, or as many outputs as
there are values). As info: a summed loss, binary losses on one-hot targets.

## Why it matters

Each of these trains without an error and stops at a level that no learning rate can pass.

## What else looks like this

- A ReLU head for targets that are never negative: fine, nothing is out of reach.
- Counts, ages, ratings under MSE: whole numbers, but not evenly frequent; info with the question.
- Least-squares GANs: MSE on 0 and 1 by design.
- Softmax before the loss: `WIRE006`. Labels out of range: `DATA003`.

## What to do

Pair them rightly: class ids with cross-entropy and C logits; independent labels with BCEWithLogits; unbounded targets
with a linear head; (N, C, L) for cross-entropy over sequences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run

REGRESSION = ("mse", "l1", "huber")
LOGITS = ("ce", "bce_logits")
BOUNDED = ("tanh", "relu", "relu6", "hardtanh", "softsign", "softplus")  # a sigmoid or softmax there is WIRE006


@rule(
    "WIRE007",
    needs={"fact:loss.kind": 1},
    says={
        "one-class": "a cross-entropy over one class is always zero: nothing can be learned from it",
        "axis": "the class axis seems to be in the wrong place: inputs of shape {shape} with {classes} classes",
        "torn": "outputs of shape {shape} are reshaped to rows of {classes} without moving the class axis last: each row "
        "mixes positions and classes",
        "either-axis": "cross_entropy takes axis 1 of the outputs {shape} for the {classes} classes, but the script "
        "takes the last axis: its accuracy {reported:.3g} is not that of axis 1 ({recomputed:.3g})",
        "unreachable": "{share:.0%} of the targets lie outside what a {activation} head can produce ({lo:g} to {hi:g})",
        "bounded-logits": "the outputs go through {activation} before a loss that expects unbounded logits",
        "class-ids": "{loss} loss on whole-number targets 0 to {top}, all about equally frequent: these look like class ids",
        "one-output-each": "{loss} loss between {unique} outputs and whole-number targets 0 to {top}: these look like class "
        "ids, and every output is trained to equal them",
        "whole-numbers": "{loss} loss on {unique} different whole-number targets: they may be class ids or counts",
        "sum": "the loss is summed, not averaged: gradients grow with the batch size",
        "one-hot": "a binary loss per class on one-hot targets: classes that exclude each other usually want cross-entropy",
    },
    fix={
        "one-class": "Use BCEWithLogitsLoss for one output, or give the head two.",
        "axis": "cross_entropy wants (N, C) or (N, C, L…): permute or flatten the outputs.",
        "torn": "Give cross_entropy the outputs of shape {shape} as they are, or permute the classes to the end "
        "before reshaping.",
        "either-axis": "cross_entropy wants (N, C, L): transpose the outputs before the loss, or flatten them to (N·L, C).",
        "unreachable": "Use a linear head, or scale the targets into [{lo:g}, {hi:g}].",
        "bounded-logits": "Remove the {activation} after the last linear layer.",
        "class-ids": "Use cross_entropy with one output per class.",
        "one-output-each": "Use cross_entropy on the outputs and the class ids as they are.",
        "whole-numbers": "If they are classes, use cross_entropy with one output per class.",
        "sum": "Use reduction='mean', unless the sum is part of the method.",
        "one-hot": "Use cross_entropy if exactly one class is right; keep BCE if labels are independent.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS002", "LOSS003", "LOSS009", "LOSS011", "ACTV003", "ACTV005", "EVAL004", "LOSS010"),
    at="criterion",
)
def loss_head_mismatch(
    run: Run,
    *,
    unreachable: float = 0.01,  # CATALOGUE: more than 1 % of the targets
    even: float = 0.3,  # [def] rarest over most frequent value; counts and ratings have tails, class ids seldom
) -> Iterator[Evidence]:
    kind, where = run.fact("loss.kind"), facts.strings(run, "loss.site")
    if kind == "ce" and run.fact("loss.classes") == 1:
        yield Evidence(where=where, steps=run.steps, say="one-class")
        return
    axis = facts.table(run, "loss.wrong_class_axis")
    if axis:
        shown = {"shape": tuple(axis.get("shape") or ()), "classes": axis.get("classes", "?")}
        say, sure = ("torn", Confidence.EXACT) if axis.get("torn") else ("axis", Confidence.STRONG)
        yield Evidence(where=where, steps=run.steps, say=say, confidence=sure, facts=shown)
    yield from _either(run, where)
    yield from _head(run, str(kind), where, unreachable)
    if kind in REGRESSION and not regime.adversarial(run):
        yield from _class_ids(run, str(kind), where, even)
    if run.fact("loss.reduction") == "sum" and not regime.averaged(run):
        yield Evidence(where=where, steps=run.steps, say="sum", severity=Severity.INFO)
    if kind in ("bce", "bce_logits") and run.fact("loss.target_one_hot"):
        yield Evidence(where=where, steps=run.steps, say="one-hot", severity=Severity.INFO)


def _either(run: Run, where: tuple[str, ...], least: float = 0.03) -> Iterator[Evidence]:
    """Two axes could be the classes, and the script's own accuracy is better along the other one than along the loss's."""
    reported, recomputed = facts.pair(facts.table(run, "eval.metric_recomputed").get("accuracy"))
    if facts.either_axis(run) and reported > recomputed + least:
        shape = tuple(run.fact("loss.input_shape"))
        seen = {"shape": shape, "classes": shape[1], "reported": reported, "recomputed": recomputed}
        yield Evidence(where=where, steps=run.steps, say="either-axis", confidence=Confidence.STRONG, facts=seen)


def _head(run: Run, kind: str, where: tuple[str, ...], limit: float) -> Iterator[Evidence]:
    head = facts.table(run, "model.head_activation")
    name, (lo, hi) = str(head.get("kind", "")), facts.pair(head.get("range"))
    share = facts.number(run.fact("loss.unreachable_share"), 0.0)
    places = (*where, *((str(head["module"]),) if head.get("module") else ()))
    if kind in LOGITS and name in BOUNDED:
        yield Evidence(
            where=places, steps=run.steps, say="bounded-logits", severity=Severity.WARNING, facts={"activation": name}
        )
    elif kind in (*REGRESSION, "bce", "bce_logits") and share > limit:
        if kind not in REGRESSION:
            name, lo, hi = "binary", 0.0, 1.0
        lo, hi = -math.inf if math.isnan(lo) else lo, math.inf if math.isnan(hi) else hi
        severity = Severity.CRITICAL if share > 0.1 else Severity.WARNING
        seen = {"share": share, "activation": name or "bounded", "lo": lo, "hi": hi}
        yield Evidence(where=places, steps=run.steps, say="unreachable", severity=severity, facts=seen)


def _class_ids(run: Run, kind: str, where: tuple[str, ...], even: float) -> Iterator[Evidence]:
    unique = int(facts.number(run.fact("loss.target_unique"), 0))
    lo, hi = facts.pair(run.fact("loss.target_range"))
    if not run.fact("loss.target_integral") or not 3 <= unique <= 100 or math.isnan(lo):
        return
    counts = regime.class_counts(run)
    complete = lo == 0 and hi == unique - 1
    if counts is not None and len(counts) == unique:
        evenness = float(np.min(counts) / np.max(counts))
    else:
        evenness = facts.number(run.fact("loss.target_evenness"), 0.0)
    if complete and evenness > even:
        shown = {"loss": kind, "top": unique - 1}
        yield Evidence(
            where=where, steps=run.steps, say="class-ids", severity=Severity.WARNING, confidence=Confidence.STRONG, facts=shown
        )
    elif complete and list(run.fact("loss.input_shape") or [1])[-1] == unique:
        shown = {"loss": kind, "unique": unique, "top": unique - 1}
        yield Evidence(
            where=where,
            steps=run.steps,
            say="one-output-each",
            severity=Severity.WARNING,
            confidence=Confidence.STRONG,
            facts=shown,
        )
    elif complete:
        shown = {"loss": kind, "unique": unique}
        yield Evidence(where=where, steps=run.steps, say="whole-numbers", confidence=Confidence.SUGGESTIVE, facts=shown)
