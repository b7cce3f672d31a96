"""Policy collapse: entropy is gone early, updates leap, or the value function explains nothing.

## What it sees

Policy entropy below `left` of its start within the first quarter of the run; a median approximate KL per update above
`kl` over the last looks; an explained variance of the value function below zero in the last third.

## Why it matters

A policy without entropy does not explore: what it has not tried by then it never will. Updates with a large KL leave
the region where their estimates hold.

## What else looks like this

- Entropy that falls late, when the task is solved: fine.
- Differential entropy of continuous actions may be negative: then it is not judged.

## What to do

Three times the entropy bonus, a third of the learning rate, a clip range of 0.1, a KL target; normalise advantages
and returns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median


@rule(
    "SPEC004",
    needs={"rl/entropy | rl/kl | rl/explained_variance": 20},
    says={
        "entropy": "the policy's entropy fell to {share:.0%} of its start within the first quarter of the run",
        "kl": "updates move the policy by a KL of {kl:.2g}, more than {limit:g}",
        "value": "the value function explains nothing (explained variance {variance:.2f})",
    },
    fix={
        "entropy": "Raise the entropy bonus by three, lower the learning rate by three.",
        "kl": "Lower the learning rate by three, clip at 0.1, or stop updates at a KL target.",
        "value": "Normalise returns, train the value function longer or with its own learning rate.",
    },
)
def rl_entropy_collapse(run: Run, *, left: float = 0.05, kl: float = 0.1) -> Iterator[Evidence]:
    # CATALOGUE: 5 % of the first entropy early, .1 KL per update.
    entropy = run.series("rl/entropy").finite()
    if len(entropy) >= 20 and np.all(entropy.values > -1e-9):
        first = finite_median(entropy.values[:5])
        end = entropy.steps[0] + (entropy.steps[-1] - entropy.steps[0]) / 4  # of the run, not of its records
        quarter = entropy.values[: max(int((entropy.steps <= end).sum()), 5)]
        low = finite_median(quarter[-5:])
        if first > 0 and low < left * first:
            at = int(entropy.steps[int(np.argmax(entropy.values < left * first))])
            yield Evidence(steps=(at, int(entropy.steps[-1])), say="entropy", facts={"share": low / first})
    moved = run.series("rl/kl").finite()
    usual = finite_median(moved.values[-20:])
    if len(moved) >= 20 and usual > kl:
        steps = (int(moved.steps[-20]), int(moved.steps[-1]))
        yield Evidence(steps=steps, say="kl", facts={"kl": usual, "limit": kl})
    explained = run.series("rl/explained_variance").finite()
    late = explained.values[-max(len(explained) // 3, 10) :]
    if len(explained) >= 30 and finite_median(late) < 0:
        steps = (int(explained.steps[-len(late)]), int(explained.steps[-1]))
        yield Evidence(steps=steps, say="value", severity=Severity.INFO, facts={"variance": finite_median(late)})
