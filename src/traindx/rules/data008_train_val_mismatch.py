"""Validation differs from training: validation inputs are prepared differently, or come from elsewhere.

## What it sees

Mean, deviation and range of training and validation inputs, over all and per channel or feature, from at least 100
samples each. It fires at a mean more than half a deviation away, a deviation three times larger or smaller, or a range
ten times wider (0 … 255 against 0 … 1). And the class counts: a class that is common in validation and absent from
training, or classes that make up half of training and are absent from validation. Of tokens: ids that are frequent in
one part and rare in the other, although the frequencies themselves agree, as when each part got a vocabulary of its
own. For a squared error: validation is above a hundred times the variance of the training targets in every evaluation,
while training is below it. That happens when only the training targets were scaled. For classes: a probe without a
network finds that training labels follow from their inputs, and the model learns them. In validation nothing of it
holds, and the loss is above chance.

## Why it matters

The model is examined on inputs it has never learned to read. The validation loss is bad from the first evaluation, training
looks perfect, and every cure for overfitting makes it worse.

## What else looks like this

- LOSS008: the gap opens with time; here it is there from the first evaluation.
- ACTV008: training batches are bad in eval mode too; the data are the same.
- Augmentation of training only: it moves the statistics a little, not by half a deviation. Noise added on purpose can
  treble the deviation: compare training samples *with the validation transforms*.
- Class-balanced sampling of training: other class shares are meant; only a class that is missing altogether is a warning.
- A second stage of training on other data: validation is compared with the last quarter of training too, and must differ
  from both.
- Validation text of another kind: words differ, but the commonest ones do not; half of all tokens must have other ids.
- A split by time: the drift is real. While the validation loss has fallen by nine tenths of what the training loss has,
  the model reads these inputs too. Differences below `grave` deviations are then a remark.

## What to do

Use one preprocessing function with one set of constants (those of the training set) for training, validation and
deployment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traindx import facts, regime
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.regime.curves import progress
from traindx.rule import rule
from traindx.run import Floats, Run


@rule(
    "DATA008",
    subject="evaluation",
    needs={
        "fact:data.val_input_stats | fact:data.val_channel_stats | fact:data.val_class_counts | fact:data.token_shift | "
        "batch/label_std | fact:data.label_probe": 1
    },
    says={
        "range": "validation inputs span {val_range}, training inputs {train_range}: {factor:.0f} times apart",
        "scale": "the standard deviation of validation inputs is {val_std:.3g}, that of training inputs {train_std:.3g}",
        "shift": "the mean of validation inputs is {val_mean:.3g}, that of training inputs {train_mean:.3g}: {shift:.1f} "
        "standard deviations apart",
        "feature": "{where}: validation differs from training by {shift:.1f} standard deviations in {count} of {features} "
        "features",
        "classes": "{where}: {share:.0%} of the validation targets, none of {n:.0f} training targets",
        "unexamined": "{where}: {share:.0%} of the training targets, none of {n:.0f} validation targets",
        "prior": "class shares differ: {where}",
        "target": "the validation loss is {times:.2g} times the variance of the training targets at every evaluation, while "
        "training is at {level:.3g}: validation targets are on another scale",
        "unread": "training labels can be learned ({score:.0%}; {null:.0%} by chance), but validation accuracy "
        "({accuracy:.0%}) is no better than the most frequent class ({share:.0%}): validation seems to be "
        "prepared differently",
        "tokens": "{distance:.0%} of the validation tokens have other frequencies than in training, although the two lists "
        "of frequencies agree: they seem to be encoded with different vocabularies",
    },
    fix={
        "": "Prepare training and validation with one function and the training set's constants.",
        "classes": "Split so that every class is in both parts; check that both use one label table.",
        "unexamined": "Split at random or stratified; shuffle data that are sorted by class first.",
        "unread": "Send a few training samples through the validation code and compare inputs, order and labels.",
        "tokens": "Build the vocabulary once, from the training text, and encode both parts with it; decode a batch to see.",
        "target": "Transform the validation targets with the constants of the training targets, or transform predictions back.",
        "prior": "No action needed if you resample training on purpose; otherwise use a stratified split.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.STRONG,
    explains=("EVAL007", "LOSS008", "LOSS012", "EVAL004", "ACTV008", "EVAL006"),
    at="val_loader given",
)
def train_val_mismatch(
    run: Run,
    *,
    shift: float = 0.5,  # training deviations; CATALOGUE DATA008
    scale: float = 3.0,  # noise added as augmentation rarely trebles the deviation
    span: float = 10.0,
    grave: float = 2.0,  # deviations: the model reads something it has never seen
    least_samples: int = 100,
    apart: float = 0.55,  # total variation; other kinds of text in one table: up to .52, two alphabetical tables: from .65
) -> Iterator[Evidence]:
    train, val = facts.table(run, "data.input_stats"), facts.table(run, "data.val_input_stats")
    found = list(_whole(run, train, val, shift, scale, span, grave, least_samples))
    if not found:
        found = list(_features(run, shift, grave, least_samples))
    yield from found
    yield from _classes(run)
    yield from _tokens(run, apart)
    if not found:
        yield from _targets(run)
        yield from _unread(run)
    enough = min(facts.number(t.get("n"), 0.0) for t in (train, val)) >= least_samples
    if not found and train and val and not enough:
        raise Unsure(f"needs {least_samples} samples of training and validation each")


def _late(run: Run, name: str, part: float = 0.25) -> Floats:
    """Mean of a batch statistic over the last quarter of the run, per column: a second stage may train on other data.

    Fast steps are looked at ever more seldom: where nobody looked so late, the last two looks after the first quarter.
    """
    first, last = run.steps or (0, 0)
    signal = run.signals.get(name)
    if signal is None:
        return np.empty(0)
    values = signal.between(last - part * (last - first)).values
    if len(values) < 2:
        values = signal.between(first + part * (last - first)).values[-2:]
    if len(values) < 2 or not np.isfinite(values).all():
        return np.empty(0)
    return np.asarray(values.reshape(len(values), -1).mean(axis=0))


def _whole(
    run: Run,
    train: Mapping[str, Any],
    val: Mapping[str, Any],
    shift: float,
    scale: float,
    span: float,
    grave: float,
    least: int,
) -> Iterator[Evidence]:
    t, v = ({k: facts.number(d.get(k)) for k in ("mean", "std", "min", "max", "n")} for d in (train, val))
    if not (t["n"] >= least and v["n"] >= least and t["std"] > 0 and math.isfinite(v["std"])):
        return
    wide = [max(abs(d["min"]), abs(d["max"])) for d in (t, v)]
    factor = max(wide) / min(wide) if min(wide) > 0 else 1.0
    ratio = max(v["std"] / t["std"], t["std"] / v["std"]) if v["std"] > 0 else math.inf
    moved = abs(v["mean"] - t["mean"]) / t["std"]
    late_mean, late_std = _late(run, "batch/input_mean"), _late(run, "batch/input_std")
    if len(late_mean) == 1 and len(late_std) == 1 and late_std[0] > 0 and v["std"] > 0:
        moved = min(moved, abs(v["mean"] - float(late_mean[0])) / t["std"])
        ratio = min(ratio, max(v["std"] / float(late_std[0]), float(late_std[0]) / v["std"]))
    usual = run.series("batch/input_std").finite().values
    if len(usual) and (typical := float(np.median(usual))) > 0 and v["std"] > 0:  # a few broken samples are not the scale
        ratio = min(ratio, max(v["std"] / typical, typical / v["std"]))
    mild = Severity.INFO if _carries_over(run) else Severity.WARNING
    severity = Severity.CRITICAL if ratio >= span or moved >= grave else mild
    if factor >= span and ratio >= scale:  # a lone outlier widens the range, not the deviation
        values = {"factor": factor, "val_range": _span(v), "train_range": _span(t)}
        yield Evidence(values, say="range", severity=severity)
    elif ratio >= scale:
        yield Evidence({"val_std": v["std"], "train_std": t["std"], "ratio": ratio}, say="scale", severity=severity)
    elif moved > shift:
        yield Evidence({"shift": moved, "val_mean": v["mean"], "train_mean": t["mean"]}, say="shift", severity=severity)


def _features(run: Run, shift: float, grave: float, least: int) -> Iterator[Evidence]:
    train, val = facts.table(run, "data.channel_stats"), facts.table(run, "data.val_channel_stats")
    means, spreads, others = (facts.numbers(d.get(k)) for d, k in ((train, "mean"), (train, "std"), (val, "mean")))
    if not len(means) or not len(means) == len(spreads) == len(others):
        return
    n = min(
        (facts.number(facts.table(run, k).get("n"), 0.0) for k in ("data.input_stats", "data.val_input_stats")), default=0.0
    )
    # With 64 features tried, chance reaches about 3.5 standard errors of a mean of the smaller part.
    limit = max(shift, 5.0 / math.sqrt(max(n, 1.0))) if n else math.inf
    moved = _moved(means, spreads, others)
    late = _late(run, "batch/channel_mean")
    if len(late) == len(means):
        moved = np.minimum(moved, _moved(late, spreads, others))
    away = np.flatnonzero(moved > limit)
    if n < least or not len(away):
        return
    order = away[np.argsort(-moved[away])]
    worst = float(moved[order[0]])
    # One feature of many drifts in honest data; a preprocessing fault moves several, or one beyond everything seen.
    several = len(away) >= max(2, 0.1 * len(moved)) or worst > grave * 2
    staged = bool(run.fact("finetune")) or facts.number(run.fact("optimizer.count"), 1.0) > 1  # other data came before
    loud = several and not staged and not _other_mix(run) and not (worst < grave and _carries_over(run))
    severity = Severity.WARNING if loud else Severity.INFO
    where = tuple(f"feature {i}" for i in order)
    yield Evidence({"shift": worst, "count": len(away), "features": len(moved)}, where, None, "feature", severity)


def _carries_over(run: Run, share: float = 0.9, least: int = 3) -> bool:
    """Whether validation profits from nearly all that training has learned: inputs so far apart are read all the same."""
    train, val = progress(regime.curve(run).finite()), run.series("loss/val").finite().values
    if train is None or train.drop <= 0 or len(val) < least:
        return False
    return train.first - float(np.median(val[-max(least, len(val) // 5) :])) >= share * train.drop


def _other_mix(run: Run, apart: float = 0.2) -> bool:
    """Whether training is resampled: features that go with the class then have another mean by intent."""
    train, val = facts.counts(run.fact("data.class_counts")), facts.counts(run.fact("data.val_class_counts"))
    n, m = sum(train.values()), sum(val.values())
    far = n and m and any(abs(train.get(c, 0.0) / n - val.get(c, 0.0) / m) > apart for c in {*train, *val})
    return bool(far) or "Weighted" in str(facts.table(run, "data.loader").get("sampler") or "")


def _moved(means: Floats, spreads: Floats, others: Floats) -> Floats:
    # a constant feature that is not 0 has the rounding of its mean for a deviation
    varies = spreads > np.maximum(1e-12, 1e-5 * np.abs(means))
    # one that hardly ever varies, as a pixel at the rim, is no measure of its own: a hundredth would be many deviations
    usual = float(np.median(spreads[varies])) if varies.any() else 0.0
    safe = np.where(varies, np.maximum(spreads, 0.1 * usual), np.nan)
    return np.nan_to_num(np.abs(others - means) / safe, nan=0.0, posinf=0.0)


def _classes(run: Run, common: float = 0.05, least: int = 500, apart: float = 0.2) -> Iterator[Evidence]:
    train, val = facts.counts(run.fact("data.class_counts")), facts.counts(run.fact("data.val_class_counts"))
    n, m = sum(train.values()), sum(val.values())
    if facts.takes_tokens(run) or n < least or m < 50 or facts.labels_in_clumps(run):
        return
    lost = {c: k / n for c, k in train.items() if k / n >= common and not val.get(c)}
    if sum(lost.values()) >= 0.5:
        where = tuple(f"class {c}" for c in sorted(lost, key=lambda c: -lost[c]))
        yield Evidence({"share": sum(lost.values()), "n": m}, where, None, "unexamined", Severity.WARNING, Confidence.EXACT)
        return
    if len(val) < 2:
        return
    absent = {c: k / m for c, k in val.items() if k / m >= common and train.get(c, 0.0) == 0}
    if absent:
        where = tuple(f"class {c}" for c in sorted(absent, key=lambda c: -absent[c]))
        yield Evidence({"share": sum(absent.values()), "n": n}, where, None, "classes", Severity.WARNING, Confidence.EXACT)
        return
    gaps = {c: (val.get(c, 0.0) / m, train.get(c, 0.0) / n) for c in {*val, *train}}
    far = {c: g for c, g in gaps.items() if abs(g[0] - g[1]) > apart}
    if far:
        where = tuple(f"class {c} {v:.0%} in validation, {t:.0%} in training" for c, (v, t) in sorted(far.items()))
        yield Evidence({}, where, None, "prior", Severity.INFO)


def _tokens(run: Run, apart: float) -> Iterator[Evidence]:
    told = facts.table(run, "data.token_shift")
    distance, by_rank = (facts.number(told.get(k), 0.0) for k in ("distance", "sorted"))
    if distance > apart and by_rank < 0.5 * distance:  # where ranks differ as well, one part is padded, or other text
        yield Evidence({"distance": distance}, ("inputs",), None, "tokens")


def _span(d: Mapping[str, float]) -> str:
    return f"{d['min']:.3g} … {d['max']:.3g}"


def _targets(run: Run, times: float = 100.0, least: int = 3) -> Iterator[Evidence]:
    """A squared error that no guess within the range of the training targets makes, while training is below their variance."""
    spread, val = regime.target_variance(run), run.series("loss/val").finite()
    train = regime.curve(run).finite().values
    if run.fact("loss.kind") != "mse" or spread is None or spread[0] <= 0 or len(val) < least or len(train) < 20:
        return
    level, ratio = float(np.median(train[-max(3, len(train) // 10) :])), float(np.min(val.values)) / spread[0]
    if regime.plain_loss(run) and level < spread[0] and ratio > times:
        at = (int(val.steps[0]), int(val.steps[-1]))
        yield Evidence({"times": ratio, "level": level}, ("loss/val",), at, "target", Severity.CRITICAL)


def _unread(run: Run, z: float = 5.0, gain: float = 0.15, learned: float = 0.7, above: float = 1.05) -> Iterator[Evidence]:
    """What is learned holds within the training set, judged without the network, and for nothing in validation.

    Where batches are normalised, their statistics are the likelier reason (ACTV008).
    """
    probe = facts.table(run, "data.label_probe")
    score, null, spread, n = (facts.number(probe.get(k)) for k in ("score", "null_mean", "null_sd", "n"))
    val, loss = facts.accuracy(run).values, run.series("loss/val").finite()
    prior, train = regime.floors(run).get("prior"), regime.curve(run).finite().values
    _, share, count = facts.majority(run)
    telling = probe.get("kind") == "class" and n >= 300 and score - null > max(gain, z * spread)
    if not telling or prior is None or len(val) < 3 or len(loss) < 3 or len(train) < 20 or not count > 0:
        return
    late, now = float(np.median(val[-3:])), float(np.median(train[-max(5, len(train) // 10) :]))
    fails = late <= share + 2 * math.sqrt(share * (1 - share) / count) and float(np.median(loss.values[-3:])) > above * prior
    if fails and now < learned * prior and not any("BatchNorm" in kind for kind in facts.layers(run)):
        values = {"score": score, "null": null, "accuracy": late, "share": share}
        yield Evidence(values, ("loss/val",), (int(loss.steps[0]), int(loss.steps[-1])), "unread")
