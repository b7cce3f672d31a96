"""One loss term dominates the gradient while another stays flat.

## What it sees

Where the gradients of the terms on the shared weights were measured (a trial): one term holds more than 95 % of the
norm while another term's own loss is flat. Where only the terms' values were seen: one term makes up more than 99.9 %
of a plain sum while another has not even halved. That is a warning; no measurement is needed to see which term
dominates. Or it is more than 95 % of the sum and falls while another has not moved from its first level, which is a
hint.

## Why it matters

The weak term is decoration: it is computed and never optimised.

## What else looks like this

- Auxiliary terms that are meant to be tiny: a z-loss, a load-balancing term, a KL that is being warmed in.
- A term that has already reached its floor.

## What to do

Weight the terms so that their gradients are alike, learn the weights (uncertainty weighting, GradNorm), or project
conflicting gradients.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Confidence, Evidence, Unsure
from traindx.regime.curves import falls, progress
from traindx.rule import rule
from traindx.run import Floats, Matrix, Run, Series


@rule(
    "GRAD006",
    needs={"loss/terms": 8},
    says={
        "": "the term '{owner}' makes {share:.0%} of the gradient, while {where} stays flat at {level:.3g}",
        "scale": "the term '{owner}' is {share:.2%} of the summed loss; {where} only went from {start:.3g} to {level:.3g}",
        "value": "the term '{owner}' is {share:.0%} of the loss and falls while {where} has not moved from {level:.3g}",
    },
    fix="Raise the weight of {where} until its gradient is comparable, or learn the weights.",
    explains=("DATA011", "EVAL004", "EVAL007"),  # of a term that is starved nothing else is to be expected
    at="loss sum",
)
def loss_term_imbalance(
    run: Run,
    *,
    share: float = 0.95,  # CATALOGUE GRAD006
    dwarfs: float = 0.999,  # of the plain sum: no gradient needs to be measured to see who owns it
) -> Iterator[Evidence]:
    terms = run.matrix("loss/terms")
    if len(terms.names) < 2:
        return
    if terms.steps[-1] - terms.steps[0] < 50:
        raise Unsure("too few steps", needs_steps=50)
    span = (int(terms.steps[0]), int(terms.steps[-1]))
    gradients = run.matrix("grad_terms/term")
    measured = len(gradients) >= 3 and set(gradients.names) >= set(terms.names)
    held = _shares(gradients, terms.names) if measured else _shares(terms, terms.names)
    owner = int(np.argmax(held))
    if held[owner] < share or not _falls(terms.column(terms.names[owner])):
        return
    if not measured and held[owner] > dwarfs and _summed(run, terms):
        yield from _dwarfed(terms, owner, float(held[owner]), span)
        return
    for i, name in enumerate(terms.names):
        series = terms.column(name).finite()
        done = progress(series)
        if i == owner or done is None or done.now == 0 or not done.stands:  # a term that is nothing is no level
            continue
        numbers = {"owner": terms.names[owner], "share": float(held[owner]), "level": done.now}
        sure = Confidence.STRONG if measured else Confidence.SUGGESTIVE
        yield Evidence(numbers, (name,), span, "" if measured else "value", confidence=sure)


def _shares(table: Matrix, names: tuple[str, ...]) -> Floats:
    values = np.abs(np.column_stack([table.column(n).values for n in names]))
    values = values[np.isfinite(values).all(axis=1)]
    total = values.sum(axis=1, keepdims=True)
    keep = total[:, 0] > 0
    return np.asarray(np.median(values[keep] / total[keep], axis=0)) if keep.any() else np.zeros(len(names))


def _summed(run: Run, terms: Matrix) -> bool:
    """The training loss is the plain sum of the terms, without weights that would balance them."""
    total = run.series("loss/train").at(terms.steps)
    parts = np.sum(terms.values, axis=1)
    keep = np.isfinite(total) & np.isfinite(parts) & (np.abs(parts) > 0)
    return bool(keep.sum() >= 5) and float(np.median(np.abs(total[keep] / parts[keep] - 1))) < 0.02


def _dwarfed(terms: Matrix, owner: int, share: float, span: tuple[int, int]) -> Iterator[Evidence]:
    for i, name in enumerate(terms.names):
        done = progress(terms.column(name).finite())
        if i != owner and done is not None and done.now > 0 and done.relative < 0.5:
            numbers = {"owner": terms.names[owner], "share": share, "start": done.first, "level": done.now}
            yield Evidence(numbers, (name,), span, "scale")


def _falls(series: Series) -> bool:
    values = series.finite().values
    done = progress(series.finite())
    if done is not None and done.relative > 0.5 and done.now < done.first - 2 * done.sigma:
        return True
    return len(values) >= 12 and falls(values)
