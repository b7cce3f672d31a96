"""BatchNorm statistics do not fit the data: running statistics do not describe the data the network sees.

## What it sees

Four ways, the surest first. The loss of *training* batches in eval mode against train mode (`eval/train_in_eval`): more
than e^`log_ratio` times as high. The distance of batch means and variances from the running ones, late in the run. It
must exceed `mean_gap` and three times what a batch of this size gives by chance. A momentum of a half or more, by which
the running statistics are those of the last batch or two (other libraries count it the other way round: their 0.99 is
0.01 here): a warning where the validation loss jumps about or is far above training. And batches of one to four
samples, which make the statistics useless; info, a warning where BatchNorm got a single sample.

## Why it matters

Training is fine and every evaluation is wrong: eval mode normalises with statistics that belong to other weights or
other data.

## What else looks like this

- Overfitting: the eval-mode loss of training batches is fine.
- The first steps, where statistics lag behind by design: not looked at.
- Batches that differ as a whole, as under one random shift for all of a batch. A run without any evaluation gets a remark.
- Training in eval mode: `WIRE005`. Validation in train mode: `EVAL009`. Dropout also changes the train-mode loss.

## What to do

Recompute the statistics over 200 training batches; momentum 0.1; SyncBatchNorm or GroupNorm for small batches per
device; freeze them when fine-tuning. The weights are fine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Floats, Run
from traindx.stats.persistence import finite_median

LAG = 40  # steps after which statistics of the usual momentum of .1 have followed to within .9**40 = 1.5 %


@rule(
    "ACTV008",
    subject="batch-norm",
    needs={"bn_mean_gap/module | eval/train_in_eval | event:batch_size_one | fact:model.batchnorm_momentum": 1},
    says={
        "eval": "the same training batches cost {ratio:.1f}× as much in eval mode: the running statistics do not fit",
        "gap": "batch statistics of {where} differ from the running ones by {gap:.2f} standard deviations ({chance:.2f} "
        "would be chance)",
        "momentum": "momentum is {momentum:.3g} in {where}: the running statistics reflect only the last batch or two, so "
        "evaluation depends on which came last",
        "small": "BatchNorm is trained on batches of {size:.0f}: its statistics are mostly noise",
        "one": "BatchNorm got a batch of one sample in training mode {often}",
    },
    fix={
        "": "Recompute the running statistics over 200 training batches in train mode; use momentum 0.1.",
        "momentum": "Set momentum to {kept:.2g} (the share of the newest batch); recompute the statistics before evaluating.",
        "small": "Use GroupNorm or SyncBatchNorm, or freeze the statistics.",
        "one": "Use drop_last=True for the training loader.",
    },
    explains=("EVAL007", "LOSS008", "EVAL002", "EVAL006"),
)
def batchnorm_mismatch(
    run: Run,
    *,
    log_ratio: float = 0.5,  # [x] healthy -.17, stale or polluted +.63 to +3.0
    mean_gap: float = 0.14,  # [x] healthy .02, faulty .14-1.3
    forgets: float = 0.5,  # momentum; [def] at a half the last two batches make up three quarters
    var_gap: float = 0.3,  # [x] healthy .04, faulty .14-1.3; the variance of small batches is noisier
) -> Iterator[Evidence]:
    yield from _in_eval_mode(run, log_ratio)
    size = finite_median(run.series("batch/size").values[-200:])
    yield from _gaps(run, size, mean_gap, var_gap)
    hasty = list(_hasty(run, forgets))
    yield from hasty
    if facts.has_layer(run, "BatchNorm") and size <= 4 and not hasty:
        yield Evidence(steps=run.steps, say="small", severity=Severity.INFO, facts={"size": size})
    for event in run.events_of("batch_size_one")[:1]:
        count = int(facts.number(event.data.get("count"), 1))
        yield Evidence(steps=(event.step, event.step), say="one", confidence=Confidence.EXACT, facts={"count": count})


def _hasty(run: Run, forgets: float, apart: float = 1.5) -> Iterator[Evidence]:
    """Running statistics that forget; harmful where evaluations show it, harmless where batches are all alike."""
    told = facts.table(run, "model.batchnorm_momentum")
    fast = {n: m for n, v in told.items() if forgets <= (m := facts.number(v, 0.0)) < 1}
    if not fast:
        return
    val, train = run.series("loss/val").finite().values, run.series("loss/train").finite().values
    late = val[len(val) // 2 :]
    level = finite_median(train[-max(10, len(train) // 10) :]) if len(train) else math.nan
    shows = (
        len(late) >= 2 and bool((late > 0).all()) and (late.max() > apart * late.min() or finite_median(late) > apart * level)
    )
    momentum = max(fast.values())
    values = {"momentum": momentum, "kept": min(0.1, 1 - momentum)}
    severity = Severity.WARNING if shows else Severity.INFO
    yield Evidence(values, tuple(fast), run.steps, "momentum", severity, Confidence.EXACT)


def _in_eval_mode(run: Run, log_ratio: float) -> Iterator[Evidence]:
    measured = run.series("eval/train_in_eval").finite()
    if len(measured) < 3 or not facts.has_layer(run, "BatchNorm"):
        return
    trained = np.array([finite_median(run.series("loss/train").between(s - 20, s).values) for s in measured.steps])
    ok = (trained > 0) & (measured.values > 0)
    if np.count_nonzero(ok) < 3:
        return
    rho = np.log(measured.values[ok] / trained[ok])
    error = float(rho.std(ddof=1)) / math.sqrt(len(rho))
    if rho.mean() > log_ratio and rho.mean() > 5 * error:
        steps = (int(measured.steps[0]), int(measured.steps[-1]))
        yield Evidence(steps=steps, say="eval", facts={"ratio": float(np.exp(rho.mean()))})


def _gaps(run: Run, size: float, mean_gap: float, var_gap: float) -> Iterator[Evidence]:
    means, variances = run.matrix("bn_mean_gap/module"), run.matrix("bn_var_gap/module")
    start = run.steps[0] if run.steps else 0
    if len(means) < 5 or not math.isfinite(size) or size < 2:
        return
    # Median of |N(0, 1/B)| is .67/√B; running statistics add a little, convolutions average over positions as well.
    chance = 0.67 / math.sqrt(size)
    late = means.steps >= start + max(LAG, (int(means.steps[-1]) - start) // 5)
    for fresh in regime.phase_starts(run):  # another model, whose statistics begin anew (a fold, a seed)
        late &= (means.steps < fresh) | (means.steps >= fresh + LAG)
    seen = int(np.count_nonzero(late))
    if seen < 3:
        return
    off: dict[str, float] = {}
    at = np.isin(variances.steps, means.steps[late])
    for name, values in means.columns():
        gap = _usual(values[late])
        spread: Floats = variances.column(name).values[at] if name in variances.place else np.empty(0)
        wide = _usual(spread[-5:]) if len(spread) else 0.0
        if gap > max(mean_gap, 3 * chance) or wide > max(var_gap, 3 * 1.41 * chance):
            off[name] = max(gap, wide)
    if off:
        where = tuple(sorted(off, key=lambda n: -off[n]))
        steps = (int(means.steps[late][0]), int(means.steps[-1]))
        # Batches that differ as a whole (one random shift for all of a batch) lie apart as well: without an evaluation that
        # uses the running statistics there is nothing to be wrong.
        harm = None if run.events_of("evaluation") or len(run.series("loss/val")) else Severity.INFO
        yield Evidence({"gap": off[where[0]], "chance": chance}, where, steps, "gap", harm)


def _usual(values: Floats) -> float:
    """The median; of a few readings every one must lie apart."""
    return finite_median(values) if len(values) >= 5 else float(np.min(values))
