"""Posterior collapse: the latent code of a VAE carries nothing.

## What it sees

`vae/kl_active`, the share of latent dimensions whose divergence from the prior exceeds 0.01 nats, below `dead` over
the last third of a run of at least `steps` steps. A few active dimensions (below `few`) are info: a code that is
larger than the data needs leaves most of itself unused.

## Why it matters

When every dimension equals the prior the decoder ignores the code: it generates from nothing and reconstructs the
average.

## What else looks like this

- KL annealing: early on the divergence is free and large, then falls; only the last third counts.
- A latent space that is simply too large: reconstruction is fine.

## What to do

Warm the KL weight up over 10,000 to 50,000 steps, free bits of 0.1 to 0.5, a weaker decoder.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "SPEC003",
    needs={"vae/kl_active": 20},
    says={
        "": "{active:.0%} of the latent dimensions carry information: the posterior has collapsed onto the prior",
        "few": "only {active:.0%} of the latent dimensions carry information",
    },
    fix="Warm up the KL weight, use free bits of 0.1 to 0.5, or a weaker decoder.",
    explains=("LOSS003", "LOSS009"),
    at="loss",
)
def vae_posterior_collapse(run: Run, *, dead: float = 0.02, few: float = 0.2, steps: int = 200) -> Iterator[Evidence]:
    # CATALOGUE: 80 % of the dimensions below .01; [def] that is common and harmless in generous codes, all of them is not.
    active = run.series("vae/kl_active").finite()
    if len(active) < 20 or active.steps[-1] - active.steps[0] < steps:
        return
    late = active.values[-max(len(active) // 3, 5) :]
    top = float(np.quantile(late, 0.9))
    if top < few:
        at = (int(active.steps[-len(late)]), int(active.steps[-1]))
        collapsed = top <= dead
        severity = Severity.WARNING if collapsed else Severity.INFO
        yield Evidence(steps=at, say="" if collapsed else "few", severity=severity, facts={"active": float(np.median(late))})
