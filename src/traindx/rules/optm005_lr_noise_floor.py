"""The loss is at the noise floor of its learning rate: the loss cannot fall further at the current learning rate.

## What it sees

After `traindx trial anneal train.py`: a fork whose learning rate decays to zero drops training *and* validation clearly more
than a fork that continues. Before the trial it is a hypothesis: the loss is flat while the learning rate is at half of
its peak or more.

## Why it matters

The run is not finished and not stuck: the gain is waiting for the decay.

## What else looks like this

- LOSS008: the anneal drops training only; generalisation is the limit.
- LOSS009, LOSS011: neither drops; the model or the data allow no better.
- A lower rate looks better for a while in any run, so a control fork is made, and the advice is when to decay, not
  that the rate was wrong.

## What to do

Start a cosine or linear decay to 0–10 % now, or wait for the planned one; average the weights; a larger batch does the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Muted, Severity
from traindx.regime.curves import plateau, progress
from traindx.rule import rule
from traindx.run import Run


@rule(
    "OPTM005",
    needs={"fact:trial.anneal | loss/train": 24},
    says={
        "": "annealing the learning rate changes training by {train:+.0%} and validation by {val:+.0%} against "
        "{control:+.0%} without",
        "suspected": "the loss is flat at {level:.4g} while the learning rate is still at {share:.0%} of its peak: it may "
        "have reached its noise floor",
    },
    fix={
        "": "Start the decay to zero now, or at the planned time; expect at least this gain.",
        "suspected": "Run `traindx trial anneal train.py`. If it lowers both training and validation loss, start the decay.",
    },
    severity=Severity.INFO,
    explains=("LOSS003", "LOSS005"),
    unless=("rl", "adversarial"),
)
def lr_noise_floor(
    run: Run,
    *,
    drop: float = 0.05,  # the fork must gain this much more than its control
    high: float = 0.5,  # of the peak rate
) -> Iterator[Evidence]:
    told = facts.table(run, "trial.anneal")
    if told:
        train, control = facts.number(told.get("train")), facts.number(told.get("train_continued"), 0.0)
        val, val_control = facts.number(told.get("val")), facts.number(told.get("val_continued"), 0.0)
        both = train < control - drop and (val != val or val < val_control - drop)
        if both and told.get("significant", True):
            numbers = {"train": train, "val": val if val == val else 0.0, "control": control}
            yield Evidence(numbers, steps=run.steps, severity=Severity.WARNING)
        return
    if regime.in_warmup(run):
        raise Muted("the learning rate is still rising")
    rate, series = regime.lr(run), regime.curve(run)
    done = progress(series)
    flat = plateau(series)
    if flat is None or done is None or done.gain < 4 or not len(rate) or rate.last < high * regime.peak_lr(run):
        return
    if not regime.may_be_negative(run) and flat.level < 0.05 * done.first:
        return  # nothing left to gain
    numbers = {"level": flat.level, "share": rate.last / regime.peak_lr(run)}
    span = (int(series.steps[flat.start]), int(series.steps[-1]))
    yield Evidence(numbers, steps=span, say="suspected", confidence=Confidence.SUGGESTIVE)
