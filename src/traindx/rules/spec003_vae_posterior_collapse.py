"""The latent code is ignored: the latent code of a VAE carries nothing.

## What it sees

`vae/kl_active`, the share of latent dimensions whose divergence from the prior exceeds 0.01 nats, below `dead` over the
last third of a run of at least `steps` steps. A few active dimensions (below `few`) are info: a code that is larger
than the data needs leaves most of itself unused. In a log with both terms of the loss, reconstruction and KL, it
watches the KL term. It fires if the term fell to less than `share` of its own peak and stayed there. Whatever its
weight, a code in use keeps its divergence.

## Why it matters

When every dimension equals the prior the decoder ignores the code: it generates from nothing and reconstructs the
average.

## What else looks like this

- KL annealing: early on the divergence is free and large, then falls, to a tenth perhaps; only the last third counts.
- Distillation, whose KL term may well go to zero: it has no reconstruction term.
- A latent space that is simply too large: reconstruction is fine.

## What to do

Warm the KL weight up over 10,000 to 50,000 steps, free bits of 0.1 to 0.5, a weaker decoder.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "SPEC003",
    needs={"vae/kl_active | loss/terms": 20},
    says={
        "": "{active:.0%} of the latent dimensions carry information: the posterior has collapsed onto the prior",
        "few": "only {active:.0%} of the latent dimensions carry information",
        "term": "the KL term fell from {peak:.3g} to {now:.2g} and stayed there: the posterior has collapsed onto the prior",
    },
    fix="Warm up the KL weight, use free bits of 0.1 to 0.5, or a weaker decoder.",
    explains=("LOSS003", "LOSS009"),
    at="loss weight",
)
def vae_posterior_collapse(
    run: Run,
    *,
    dead: float = 0.02,
    few: float = 0.2,
    steps: int = 200,
    share: float = 2e-3,  # [def] annealing and training leave a tenth of the peak, a collapse almost nothing
) -> Iterator[Evidence]:
    # CATALOGUE: 80 % of the dimensions below .01; [def] that is common and harmless in generous codes, all of them is not.
    active = run.series("vae/kl_active").finite()
    if not len(active):
        yield from _by_term(run, share)
        return
    if len(active) < 20 or active.steps[-1] - active.steps[0] < steps:
        return
    late = active.values[-max(len(active) // 3, 5) :]
    top = float(np.quantile(late, 0.9))
    if top < few:
        at = (int(active.steps[-len(late)]), int(active.steps[-1]))
        collapsed = top <= dead
        severity = Severity.WARNING if collapsed else Severity.INFO
        yield Evidence(steps=at, say="" if collapsed else "few", severity=severity, facts={"active": float(np.median(late))})


def _by_term(run: Run, share: float) -> Iterator[Evidence]:
    terms = dict(run.matrix("loss/terms").columns())
    kl = next((v for n, v in terms.items() if set(n.lower().split("_")) & {"kl", "kld", "kldiv"}), None)
    if kl is None or not any("rec" in n.lower() for n in terms):
        raise Blind("neither the latent code nor a KL term with a reconstruction was recorded", "vae/kl_active")
    known = np.isfinite(kl)
    at, seen = run.matrix("loss/terms").steps[known], kl[known]
    if len(seen) < 20:
        return
    late = seen[-max(len(seen) // 3, 5) :]
    peak, now = float(np.max(seen)), float(np.quantile(late, 0.9))
    if peak > 0 and now < share * peak:
        since = min(int(np.flatnonzero(seen >= share * peak)[-1]) + 1, len(seen) - 1)
        span = (int(at[since]), int(at[-1]))
        yield Evidence({"peak": peak, "now": float(np.median(late))}, steps=span, say="term", confidence=Confidence.STRONG)
