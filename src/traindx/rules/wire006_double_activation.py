"""An activation is applied twice: the loss applies softmax or sigmoid to outputs that already went through one.

## What it sees

What went into the loss function, over at least `batches` batches. It looks for probabilities in a cross-entropy,
sigmoid values in a cross-entropy or `BCEWithLogits`, and anything but log-probabilities in `nll_loss` or `kl_div`. Rows
that sum to one are a fact. Values that merely stay inside [0, 1] are one only if the last activation is known to be a
sigmoid; otherwise it takes `patience` batches, because logits may start there.

## Why it matters

Softmax of a softmax cannot get below ln(e + C − 1) − 1, 1.46 for ten classes, however good the model is. Gradients
shrink by a factor of C and more: learning is slow, probabilities are useless, and accuracy may still look fine.

## What else looks like this

- `nll_loss` after `log_softmax`, `kl_div` with log-probabilities of a student: right.
- Probabilities as *targets* (distillation, mixup): right.
- Cross-entropy after `log_softmax`: harmless, the second one changes nothing; info.
- `BCELoss` after a sigmoid: right but fragile for large logits; info.
- A softmax inside attention has nothing to do with it: only the loss call is looked at.

## What to do

Feed the raw outputs of the last linear layer to the loss and apply softmax or sigmoid only where probabilities are
shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run

SQUASHED = ("sigmoid", "hardsigmoid", "softmax")


@rule(
    "WIRE006",
    needs={"fact:loss.kind": 1},
    says={
        "softmax": "softmax outputs go into a cross-entropy, which applies softmax again: the loss cannot fall below {floor}",
        "sigmoid": "sigmoid outputs go into {loss}, which expects logits: the loss cannot fall below {floor}",
        "nll": "nll_loss got {what} instead of log-probabilities",
        "kl": "kl_div got probabilities as its input instead of log-probabilities",
        "log-softmax": "log_softmax outputs go into a cross-entropy: harmless, but one of the two is enough",
        "bce": "BCELoss works on probabilities: BCEWithLogitsLoss on the raw outputs is stabler",
    },
    fix={
        "softmax": "Remove the softmax before the loss: cross_entropy wants logits.",
        "sigmoid": "Remove the sigmoid before the loss: {loss} wants logits.",
        "nll": "Use cross_entropy on logits, or log_softmax before nll_loss. In Keras: from_logits=True.",
        "kl": "Pass log-probabilities as the first argument: kl_div(log_softmax(student), softmax(teacher)).",
        "log-softmax": "Drop the log_softmax, or use nll_loss.",
        "bce": "Drop the sigmoid and use BCEWithLogitsLoss.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=("LOSS011", "ACTV005", "ACTV003", "LOSS002", "LOSS003", "LOSS009", "LOSS010", "OPTM001", "GRAD001", "EVAL010"),
    at="model",
)
def double_activation(
    run: Run,
    *,
    batches: int = 3,  # CATALOGUE: three batches of rows that sum to one
    patience: int = 10,  # [def] logits that start inside [0, 1] leave it once the model learns
) -> Iterator[Evidence]:
    evidence = _look(run, patience)
    if evidence is None:
        return
    checked = int(facts.number(run.fact("loss.checked_batches"), batches))
    if checked < batches and evidence.severity is not Severity.INFO and not (evidence.say == "kl" and _below_zero(run)):
        raise Unsure(f"only {checked} batches were checked", needs_steps=batches - checked)
    yield evidence


def _look(run: Run, patience: int) -> Evidence | None:
    kind, head = run.fact("loss.kind"), str(facts.table(run, "model.head_activation").get("kind", ""))
    classes = facts.number(run.fact("loss.classes"))
    made = facts.table(run, "code.sites").get("activation")
    where = (*((made,) if isinstance(made, str) else ()), *facts.strings(run, "loss.site"))
    if kind == "ce" and classes != 1:
        if run.fact("loss.probabilities"):
            return Evidence(where=where, steps=run.steps, say="softmax", facts={"floor": _floor(classes)})
        if run.fact("loss.log_probabilities"):
            return Evidence(where=where, steps=run.steps, say="log-softmax", severity=Severity.INFO)
    if kind in ("ce", "bce_logits") and run.fact("loss.unit_interval") and classes != 1:
        name = "cross_entropy" if kind == "ce" else "BCEWithLogits"
        floor = _floor(classes) if kind == "ce" else f"{math.log1p(math.exp(-1)):.3f} for a positive, 0.693 for a negative"
        sure = _sure(run, head, patience)
        return (
            Evidence(where=where, steps=run.steps, say="sigmoid", confidence=sure, facts={"loss": name, "floor": floor})
            if sure
            else None
        )
    if kind in ("nll", "kl"):
        return _not_logarithms(run, str(kind), head, where)
    if kind == "bce" and head in SQUASHED:
        return Evidence(where=where, steps=run.steps, say="bce", severity=Severity.INFO)
    return None


def _sure(run: Run, head: str, patience: int) -> Confidence | None:
    if head in SQUASHED:
        return Confidence.EXACT
    lo, hi = facts.pair(run.fact("loss.input_range"))
    checked = facts.number(run.fact("loss.checked_batches"), 0)
    return Confidence.STRONG if not head and checked >= patience and hi - lo > 0.05 else None


def _not_logarithms(run: Run, kind: str, head: str, where: tuple[str, ...]) -> Evidence | None:
    if run.fact("loss.log_probabilities"):
        return None
    _, highest = facts.pair(run.fact("loss.input_range"))
    positive = highest > 1e-4  # a log-probability is at most zero
    if kind == "kl":
        seen = positive and (run.fact("loss.probabilities") or _below_zero(run))
        return Evidence(where=where, steps=run.steps, say="kl") if seen else None
    if not positive and (run.fact("loss.log_probabilities") is None or head == "log_softmax"):
        return None  # logarithms of probabilities along another axis: WIRE009 looks at that
    what = "probabilities" if run.fact("loss.probabilities") else "raw outputs"
    sure = Confidence.EXACT if positive else Confidence.STRONG
    return Evidence(where=where, steps=run.steps, say="nll", confidence=sure, facts={"what": what})


def _below_zero(run: Run) -> bool:
    """Whether the loss ends below zero, where no divergence of two distributions can be."""
    late = run.series("loss/train").finite().values[-20:]
    return len(late) >= 10 and bool((late < 0).all())


def _floor(classes: float) -> str:
    """What is left when a softmax (or sigmoid) output is as good as it can be: logits of one 1 and C − 1 zeros."""
    return f"{math.log(math.e + classes - 1) - 1:.4f}" if math.isfinite(classes) and classes >= 2 else "ln(e + C - 1) - 1"
