"""The data contain invalid values: batches hold NaN, infinities, or values far outside everything seen before.

## What it sees

Counts of NaN and infinite entries in the inputs and targets of each training batch, and of samples with a value beyond
50 robust deviations of the first 2,000 samples. Whole-number fields (ids, classes) have no deviation and are left out.
One non-finite entry is enough; extremes need three samples. Extremes become a warning where the loss or the gradient
norm of those steps stands out. The same holds where they alone make the deviation of the inputs and the run does not
learn. Also one input that makes up more than 2 % of finely measured samples and comes with several labels. That happens
when unreadable files are replaced by a blank picture.

## Why it matters

One NaN in a batch makes the loss NaN, the gradients NaN and, after one update, every weight NaN. A single extreme value
does the same more slowly: it dominates the gradient of its batch.

## What else looks like this

- NUMR001: the batch was clean and an operation made the NaN. Here the batch itself holds it.
- Missing values that the code masks out on purpose: the loss stays finite on those steps, and the finding is only a remark.
- Heavy-tailed features (counts, prices): extremes without any effect on the loss are a remark too, and not worth one where
  every twentieth sample has them.
- Inputs of few possible values (answers, counts): the commonest one comes with several labels by nature. Quiet.

## What to do

Drop or repair the named samples, and check the reader that made them (division by a zero range, a log of zero, a failed
decode). If a step with them was taken and the weights are not finite now, go back to a checkpoint from before that step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from traindx import breakdown, course, facts, ranks, regime, stats
from traindx.finding import Blind, Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Ints, Run, Series


@rule(
    "DATA001",
    needs={
        "batch/input_nonfinite | rank/input_nonfinite | batch/input_extreme | fact:data.bad_samples | fact:data.commonest | "
        "fact:origin": 1
    },
    says={
        "nonfinite": "NaN or infinite values in {some}, first at step {first}{named}",
        "guarded": "NaN or infinite values in {some}, first at step {first}; the guard skipped their updates and "
        "the weights are clean{named}",
        "skipped": "NaN or infinite values in {some} that were checked; the script skips batches "
        "whose loss is not finite{named}",
        "replayed": "the batch of step {first}, which broke the loss, holds NaN or infinite values{named}",
        "rank": "a batch of {where} holds NaN or infinite values at step {first}; the other ranks' batches are fine",
        "masked": "NaN or infinite values in {some}, although the loss stayed finite{named}",
        "extreme": "{samples:.0f} samples hold a value more than 50 standard deviations away from earlier ones{named}",
        "harmful": "{samples:.0f} samples hold a value more than 50 standard deviations away, and at their steps the "
        "{signal} is {z:.0f} standard deviations off{named}",
        "owning": "{samples:.0f} samples hold an extreme value (inputs reach from {low:.6g} to {high:.6g} and usually vary "
        "by {usual:.2g}): it may stand for 'missing'{named}",
        "blank": "{share:.0%} of the samples have exactly the same input, with {labels} different labels: it may stand "
        "for samples that could not be read{named}",
        "odd": "{samples} samples are {kind}{named}",
    },
    fix={
        "": "Look at these samples, then drop or repair them. Let your reader check that values are finite and in range.",
        "owning": "Replace the code by NaN when reading, then fill or drop these values before scaling.",
        "blank": "Find where your reader substitutes this input, and drop those samples instead.",
        "guarded": "Drop or repair these samples. Nothing has to be repeated.",
        "skipped": "Drop or repair these samples when you read them; then there is nothing to skip.",
        "replayed": "Drop or repair this sample, and check every batch for finite values. Resume from before that step.",
        "nonfinite": "Drop or repair these samples; if a step was taken with them, resume from before that step.",
    },
    severity=Severity.CRITICAL,
    confidence=Confidence.EXACT,
    explains=(
        *("NUMR001", "NUMR002", "NUMR003", "LOSS001", "LOSS006", "LOSS007", "GRAD002", "GRAD003", "LOSS005"),
        "NUMR008",
        "OPTM002",  # one value far out makes one step far too large
    ),
    at="dataset",
)
def invalid_values(
    run: Run,
    *,
    least_extreme: int = 3,  # CATALOGUE DATA001
    common: float = 0.05,  # [def] of the samples: a feature that is mostly zero and sometimes not, told only where it does harm
    stands_out: float = 6.0,  # robust deviations of loss or gradient norm that count as an effect (2.4)
) -> Iterator[Evidence]:
    yield from _nonfinite(run)
    yield from _extreme(run, least_extreme, stands_out, common)
    if blank := _blank(run):
        yield blank
        return
    for kind in ("constant", "empty"):
        samples = _samples(run, kind)
        if samples:
            yield Evidence(
                {"samples": len(samples), "kind": kind, "named": _named(samples)},
                tuple(samples),
                say="odd",
                severity=Severity.INFO,
            )


def _on_ranks(run: Run) -> Iterator[Evidence]:
    """Batches of one rank that are not finite, where the lowest rank's are: by its count, or by the replay of the step."""
    counts = run.matrix("rank/input_nonfinite")
    if not (counts.values > 0).any() and facts.table(run, "origin").get("blame") == "batch":
        broke = [e for e in run.events_of("nonfinite") if e.data.get("what") == "loss" and e.data.get("rank") is not None]
        for event in broke[:1]:
            name = str(event.data["rank"])
            told = {"batches": 1, "entries": 1.0}
            yield Evidence(told, (ranks.label(name),), (event.step, event.step), "rank", rank=ranks.number(name))
    for name, values in counts.columns():
        hit = np.flatnonzero(values > 0)
        if len(hit):
            steps = (int(counts.steps[hit[0]]), int(counts.steps[hit[-1]]))
            facts_ = {"batches": len(hit), "entries": float(values[hit].sum())}
            yield Evidence(facts_, (ranks.label(name),), steps, "rank", rank=ranks.number(name))


def _replayed(run: Run) -> Iterator[Evidence]:
    """A batch of the loader's that was not looked at while it trained, and broke the step when it was made again."""
    origin, broke = facts.table(run, "origin"), [e.step for e in run.events_of("nonfinite") if e.data.get("what") == "loss"]
    if origin.get("blame") == "batch" and origin.get("op") == "input" and broke:
        if not breakdown.from_loader(run):
            raise Blind("what broke a step was seen in the model only: no loader is known", "data.loader")
        samples = [f"sample {origin['sample_in_data']}"] if "sample_in_data" in origin else []
        samples = samples or ([f"row {origin['sample']}"] if origin.get("sample") is not None else [])
        yield Evidence({"batches": 1, "named": _named(samples)}, tuple(samples), (broke[0], broke[0]), "replayed")


def _nonfinite(run: Run) -> Iterator[Evidence]:
    bad = run.series("batch/input_nonfinite")
    bad = bad.where(bad.values > 0)  # NaN compares false: a count that was not taken
    if not len(bad):
        on_ranks = list(_on_ranks(run))
        yield from on_ranks or _replayed(run)
        return
    loss = run.series("loss/train")
    seen = np.isin(loss.steps, bad.steps)
    broken = bool(np.any(~np.isfinite(loss.values[seen]))) or not seen.any() or bool(run.events_of("nonfinite"))
    samples = _samples(run, "nonfinite")
    if skipped := breakdown.guarded(run):  # the guard looks at every step, the batches at some
        steps = [e.step for e in run.events_of("skip_guard")]
        count = max(skipped, len(bad))
        numbers = {"batches": count, "some": _some(count), "entries": math.nan, "named": _named(samples)}
        yield Evidence(numbers, tuple(samples), (min(steps), max(steps)), "guarded", Severity.WARNING)
        return
    say, severity = ("nonfinite", Severity.CRITICAL) if broken else ("masked", Severity.INFO)
    if not broken and any(e.data.get("how") == "skipped" for e in run.events_of("nan_hidden")):
        say, severity = "skipped", Severity.WARNING
    yield Evidence(
        {
            "batches": len(bad),
            "some": _some(len(bad)),
            "entries": float(bad.values[np.isfinite(bad.values)].sum()),
            "named": _named(samples),
        },
        tuple(samples),
        (int(bad.steps[0]), int(bad.steps[-1])),
        say,
        severity,
    )


def _extreme(run: Run, least: int, stands_out: float, common: float) -> Iterator[Evidence]:
    far = run.series("batch/input_extreme").finite()
    far = far.where(far.values > 0)
    total = float(far.values.sum())
    if total < least:
        return
    samples = _samples(run, "extreme")
    values = {"samples": _each_once(run, total), "named": _named(samples)}
    listed = [
        int(facts.number(r.get("step"), far.steps[0]))
        for r in facts.rows(run, "data.bad_samples")
        if r.get("kind") == "extreme"
    ]
    steps = (min([int(far.steps[0]), *listed]), int(far.steps[-1]))  # those of the first 2,000 are judged together
    signal, z = max(((s, _height(run, s, far.steps)) for s in ("loss/train", "grad_norm")), key=lambda p: p[1])
    if z > stands_out:
        say = "harmful"
        yield Evidence({**values, "signal": signal, "z": z}, tuple(samples), steps, say, Severity.WARNING, Confidence.STRONG)
    elif owned := _owning(run):
        yield Evidence({**values, **owned}, tuple(samples), steps, "owning", Severity.CRITICAL, Confidence.STRONG)
    elif _share(run, total) < common:
        yield Evidence(values, tuple(samples), steps, "extreme", Severity.INFO, Confidence.STRONG)


def _each_once(run: Run, drawn: float) -> float:
    """How many samples they are: the same ones come again in every epoch, which shows where their indexes are known."""
    rows = [r for r in facts.rows(run, "data.bad_samples") if r.get("kind") == "extreme"]
    known = [i for r in rows for i in r.get("indexes") or ()]
    return float(len(set(known))) if len(set(known)) < len(known) else drawn


def _owning(run: Run, times: float = 20.0) -> dict[str, float]:
    """Extremes that make the deviation of the inputs by themselves, in a run that does not learn."""
    told, usual = facts.table(run, "data.input_stats"), facts.number(run.fact("data.usual_spread"), 0.0)
    std, low, high = (facts.number(told.get(k)) for k in ("std", "min", "max"))
    if not (usual > 0 and std > times * usual and math.isfinite(low) and math.isfinite(high)) or course.learned(run).yes:
        return {}
    return {"usual": usual, "low": low, "high": high}


def _blank(run: Run, share: float = 0.02) -> Evidence | None:
    told = facts.table(run, "data.commonest")
    part, labels = facts.number(told.get("share"), 0.0), facts.number(told.get("labels"), 0.0)
    if part < share or labels < 2 or run.fact("data.continuous") is not True or run.fact("rl") or run.fact("adversarial"):
        return None
    if regime.moving_targets(run):
        return None  # a state that is met again, with what it is worth by now
    samples = _samples(run, "constant")
    values = {"share": part, "labels": int(labels), "named": _named(samples)}
    return Evidence(values, tuple(samples), None, "blank", Severity.WARNING)


def _share(run: Run, count: float) -> float:
    """The share of the samples looked at, the first record of which tells of 2,000; 0 where their number is not known."""
    looked, sizes = run.series("batch/input_extreme").finite(), run.series("batch/size").finite().values
    return count / (2_000 + len(looked) * float(np.median(sizes))) if len(sizes) else 0.0


def _height(run: Run, name: str, steps: Ints) -> float:
    """Median height of a signal on some steps, in robust deviations of what came before them."""
    series: Series = regime.curve(run, name)
    z = stats.robust_z(series.values)[np.isin(series.steps, steps)]
    return float(np.median(z)) if len(z) else 0.0


def _samples(run: Run, kind: str) -> list[str]:
    """The samples by their index in the data set, else by their place in a batch."""
    found: list[str] = []
    for row in facts.rows(run, "data.bad_samples"):
        if row.get("kind") == kind:
            indexes, places = (v if isinstance(v, list | tuple) else () for v in (row.get("indexes"), row.get("samples")))
            field, at = str(row.get("field", "batch")), f" in the batch of step {row.get('step')}" if "step" in row else ""
            found += [f"{field} of sample {i}" for i in indexes] or [f"{field} row {i}{at}" for i in places] or [field]
    return list(dict.fromkeys(found))


def _some(batches: int) -> str:
    return f"{batches} batch{'es' if batches != 1 else ''}"


def _named(samples: list[str]) -> str:
    return f": {', '.join(samples[:3])}" if samples else ""
