"""The policy has collapsed: entropy is gone early, updates leap, or the value function explains nothing.

## What it sees

It looks for:

- policy entropy below `left` of its start within the first quarter of the run;
- a median approximate KL per update above `kl` over the last looks;
- an explained variance of the value function below zero in the last third;
- a mean return that has lost half of its gain for the last seventh of the run.

## Why it matters

A policy without entropy does not explore: what it has not tried by then it never will. Updates with a large KL leave
the region where their estimates hold.

## What else looks like this

- Entropy that falls late, or while the return rises to a height that it keeps: the task is solved. Then it is a remark.
- Differential entropy of continuous actions may be negative: then it is not judged.

## What to do

Three times the entropy bonus, a third of the learning rate, a clip range of 0.1, a KL target; normalise advantages
and returns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traindx import stats
from traindx.finding import Evidence, Severity
from traindx.rule import rule
from traindx.run import Run
from traindx.stats.persistence import finite_median


@rule(
    "SPEC004",
    needs={"rl/entropy | rl/kl | rl/explained_variance | rl/return": 20},
    says={
        "entropy": "the policy's entropy fell to {share:.0%} of its start within the first quarter of the run",
        "kl": "updates move the policy by a KL of {kl:.2g}, more than {limit:g}",
        "value": "the value function explains nothing (explained variance {variance:.2f})",
        "return": "the mean return fell from {best:.4g} (step {best_step}) to {now:.4g} and stays there: {lost:.0%} of its "
        "progress is lost",
    },
    fix={
        "entropy": "Multiply the entropy bonus by 3 and divide the learning rate by 3.",
        "kl": "Divide the learning rate by 3, clip at 0.1, or stop updates at a KL target.",
        "return": "Go back to the policy of step {best_step}; divide the learning rate by 3, clip at 0.1, and raise the "
        "entropy bonus.",
        "value": "Normalise returns, train the value function longer or with its own learning rate.",
    },
    at="loss sum",
)
def rl_entropy_collapse(run: Run, *, left: float = 0.05, kl: float = 0.1, lost: float = 0.5) -> Iterator[Evidence]:
    # CATALOGUE: 5 % of the first entropy early, .1 KL per update.
    fallen = _fallen(run, lost)
    if fallen is not None:
        yield fallen
    entropy = run.series("rl/entropy").finite()
    if len(entropy) >= 20 and np.all(entropy.values > -1e-9):
        first = finite_median(entropy.values[:5])
        end = entropy.steps[0] + (entropy.steps[-1] - entropy.steps[0]) / 4  # of the run, not of its records
        quarter = entropy.values[: max(int((entropy.steps <= end).sum()), 5)]
        low = finite_median(quarter[-5:])
        if first > 0 and low < left * first:
            at = int(entropy.steps[int(np.argmax(entropy.values < left * first))])
            severity = Severity.INFO if _solved(run) else None
            yield Evidence(steps=(at, int(entropy.steps[-1])), say="entropy", facts={"share": low / first}, severity=severity)
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


def _solved(run: Run, tenths: int = 10) -> bool:
    """The return rose clearly, and stands where it was highest: a policy that knows what to do need not try other things."""
    paid = run.series("rl/return").finite().values
    if len(paid) < 4 * tenths:
        return False
    levels = np.array([np.median(part) for part in np.array_split(paid, tenths)])
    rise, scatter = float(levels.max() - np.median(paid[: len(paid) // 40 + 1])), float(np.ptp(levels[-3:]))
    return rise > 0 and levels.max() - levels[-1] <= 0.05 * rise and scatter <= 0.1 * rise


def _fallen(run: Run, lost: float) -> Evidence | None:
    """The return had been good and is gone: through the whole last seventh of the run, beyond what it scatters."""
    paid = run.series("rl/return").finite()
    if len(paid) < 40:
        return None
    width = max(5, len(paid) // 15)
    levels = np.median(np.lib.stride_tricks.sliding_window_view(paid.values, width), axis=1)
    end = len(levels) - max(width, len(paid) // 7)
    best = int(np.argmax(levels[:end])) if end > 0 else 0
    start, high, late = float(levels[0]), float(levels[best]), levels[end:]
    gained = high - start
    # returns wander: what they scatter about their own slow course, not from one record to the next, is the measure
    scatter = float(np.std(paid.values - stats.running_median(paid.values, len(paid) // 5 | 1)))
    if end <= 0 or not gained > 3 * scatter or high - float(np.max(late)) <= lost * gained:
        return None
    steps = (int(paid.steps[best + width // 2]), int(paid.steps[-1]))
    now = float(np.median(late))
    return Evidence({"best": high, "best_step": steps[0], "now": now, "lost": (high - now) / gained}, steps=steps, say="return")
