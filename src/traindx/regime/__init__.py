"""In which regime a run was: warm-up, learning-rate jumps, seams, epochs, kinds of training (CATALOGUE 1.4).

Small questions about a run that many rules ask. Each reads facts first and derives the rest from the signals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from traindx import stats
from traindx.run import Floats, Run, Series

TRAIN, VAL = "loss/train", "loss/val"
NEW_CLASS = 5  # batches that were looked at without a class, at least, before it is a new one


@dataclass(frozen=True)
class LrJump:
    """The learning rate changed by a factor at once: a restart, a step decay, a resume with another rate."""

    step: int
    ratio: float  # new over old


def curve(run: Run, name: str = TRAIN, *, whole: bool = False) -> Series:
    """A signal as rules want it: finite, one value per step (the later record is believed), a running mean undone.

    A script that trains in phases (pre-training, then another model or task with a new optimizer) is judged by its last
    phase, unless the `whole` curve is asked for.
    """
    series = run.series(name).finite()
    if not whole and (phase := phase_start(run)) is not None:
        series = series.between(lo=phase)
    if len(series) > 1:
        last_of_step = np.append(np.diff(series.steps) > 0, True)
        series = series.where(last_of_step)
    if log_form(run, name) == "running-mean" and (per := records_per_epoch(run, name)):
        return Series(series.steps, stats.undo_running_mean(series.values, per), series.times)
    return series


def phase_start(run: Run) -> int | None:
    """The step at which the last phase of a script began: a fresh optimizer that no checkpoint explains; None without one."""
    starts = phase_starts(run)
    if not starts or not run.steps or resumed_at(run, starts[-1]):
        return None
    first, last = run.steps
    # A new optimizer for the same weights is a new phase only when it is long; another model is another run, however short.
    same = not starts[1:] or any(e.data.get("same_parameters") for e in run.events_of("retrained"))
    return starts[-1] if last - starts[-1] >= max(20, 0.1 * (last - first) if same else 0) else None


def phase_starts(run: Run) -> list[int]:
    """The steps at which one optimizer took over from another: folds, sweeps and stages in one process."""
    told, fresh = run.fact("optimizer.steps"), run.fact("optimizer.fresh_at_step")
    if not isinstance(fresh, int) or fresh <= 0:
        step = _handed_over(run)
        return [] if step is None else [step]
    if isinstance(told, list | tuple) and len(told) > 2 and run.steps and not adversarial(run):
        ends = np.cumsum([int(n) for n in told])
        if abs(int(told[0]) - fresh) <= 1 and abs(int(ends[-1]) - run.steps[1] - 1) <= len(told):
            return [int(step) for step in ends[:-1]]
    return [fresh]


def _handed_over(run: Run) -> int | None:
    """The step from which on the last of several optimizers worked alone: they followed each other, they did not take turns."""
    told = run.fact("optimizer.steps")
    if not isinstance(told, list | tuple) or len(told) < 2 or not run.steps or adversarial(run):
        return None
    before = sum(int(n) for n in told[:-1])
    return before if 0 < before < 0.9 * (run.steps[1] + 1) else None


def knows_stages(run: Run) -> bool:
    """Whether the loop itself was observed, so that another training in it would have been seen; a log tells no stages."""
    return "retrained" in (run.fact("watched") or ())


def resumed_at(run: Run, step: int) -> bool:
    """The same training continued from a checkpoint: a seam there, or a file saved before and the same learning rate."""
    if any(abs(e.step - step) <= 1 for e in run.events_of("resume", "incarnation")):
        return True
    if any(abs(e.step - step) <= 1 and e.data.get("alike") is False for e in run.events_of("retrained")):
        return False  # another head, or a part that is frozen now: another training, whatever was saved before
    saved = any(e.step <= step for e in run.events_of("checkpoint"))
    rate = lr(run)
    then, now = (float(v) for v in rate.at([step - 1, step])) if len(rate) else (1.0, 1.0)
    return saved and abs(now - then) <= 0.05 * abs(then)


def thrown_back(run: Run, steps: list[int], reach: int = 10) -> bool | None:
    """Whether the loss goes back, at these steps, at least half of the way to where the run began; None where it had hardly
    come away from there."""
    losses = curve(run, whole=True).finite()
    if len(losses) < 2 * reach:
        return None
    began, noise = float(np.median(losses.values[:reach])), stats.mad(np.diff(losses.values))
    turns = []
    for step in steps:
        before, after = losses.between(lo=step - reach, hi=step - 1).values, losses.between(lo=step, hi=step + reach).values[:1]
        if len(before) and len(after):  # the first loss after it is that of the weights as they were put there
            turns.append((began - float(np.median(before)), float(after[0] - np.median(before))))
    gained, lost = (float(v) for v in np.median(turns, axis=0)) if turns else (0.0, 0.0)
    return lost >= 0.5 * gained if gained > 3 * noise else None


def log_form(run: Run, name: str = TRAIN) -> str:
    """What the fact `log_form` says about a signal; "raw" when nothing is known."""
    fact = run.fact("log_form")
    if isinstance(fact, dict):
        return str(fact.get(name, "raw"))
    return str(fact) if isinstance(fact, str) else "raw"


def interval(run: Run, name: str = TRAIN) -> float:
    """Steps between two records of a signal."""
    fact = run.fact("log_interval")
    if name == TRAIN and isinstance(fact, int | float) and fact > 0:
        return float(fact)
    gaps = np.diff(run.series(name).steps)
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else 1.0


def steps_per_epoch(run: Run) -> int | None:
    """Optimizer steps in an epoch: the fact, the epoch events, or the `epoch` signal; None when nothing says so."""
    fact = run.fact("data.steps_per_epoch")
    if isinstance(fact, int | float) and fact >= 1:
        return int(fact)
    starts = sorted({e.step for e in run.events_of("epoch")})
    if len(starts) >= 3:
        return int(np.median(np.diff(starts))) or None
    epoch = run.series("epoch").finite()
    if len(epoch) < 2:
        return None
    turns = np.flatnonzero(np.diff(epoch.values) > 0) + 1
    if np.array_equal(epoch.values, np.round(epoch.values)):  # a whole number tells the place only where it changes
        epoch = epoch.where(np.isin(np.arange(len(epoch)), turns if len(turns) >= 2 else [0, *turns]))
    rises = np.diff(epoch.values) > 0  # a resume or a second log may take the count back
    if not rises.any():
        return None
    per = np.diff(epoch.steps)[rises].sum() / np.diff(epoch.values)[rises].sum()
    return round(per) if per >= 1 else None


def records_per_epoch(run: Run, name: str = TRAIN) -> int | None:
    """Records of a signal in an epoch; None when unknown or less than two."""
    per = steps_per_epoch(run)
    if per is None:
        return None
    records = round(per / interval(run, name))
    return records if records >= 2 else None


def logged_by_epoch(run: Run, name: str = TRAIN) -> bool:
    """Whether a signal has about one record per epoch, each a mean over many batches."""
    if run.fact("step_unit") == "epoch":
        return True
    per = steps_per_epoch(run)
    return per is not None and per > 1 and interval(run, name) >= 0.9 * per


def lr(run: Run) -> Series:
    """The learning rate, finite and not negative; empty when it was not recorded."""
    series = run.series("lr").finite()
    return series.where(series.values >= 0)


def peak_lr(run: Run) -> float:
    """The largest learning rate of the run; NaN when unknown."""
    rate = lr(run)
    return float(rate.values.max()) if len(rate) else math.nan


def warmup_end(run: Run) -> int | None:
    """The step at which a rising start of the learning rate ends; None without one (or without a recorded rate)."""
    rate = lr(run)
    if len(rate) < 3:
        return None
    falls = np.flatnonzero(np.diff(rate.values) < 0)
    top = int(falls[0]) if len(falls) else len(rate) - 1
    if rate.values[0] >= 0.9 * rate.values[top]:
        return None
    first = int(np.argmax(rate.values[: top + 1] >= 0.999 * rate.values[top]))
    if np.mean(np.diff(rate.values[: first + 1]) > 0) < 0.5:
        return None  # constant and then raised at once: a jump, not a warm-up
    return int(rate.steps[first])


def in_warmup(run: Run, at: int | None = None, look: int = 20) -> bool:
    """Whether the learning rate was still rising over the last `look` records before `at` (default: the end)."""
    rate = lr(run).between(hi=math.inf if at is None else at)
    tail = rate.values[-look:]
    return len(tail) >= 3 and tail[-1] > tail[0] * 1.001 and bool(np.all(np.diff(tail) >= 0))


def start(run: Run) -> int:
    """The first step that baselines may use: after warm-up where there was one."""
    end = warmup_end(run)
    if end is not None:
        return end
    return run.steps[0] if run.steps else 0


def lr_jumps(run: Run, least: float = 0.4, within: int = 5) -> list[LrJump]:
    """Where the learning rate changed by more than e^`least` within `within` steps or between two records (CATALOGUE 1.4).

    The smooth climb of a warm-up is not a jump; neither is a decay that is only coarsely logged but monotone and even.
    """
    rate = lr(run)
    keep = rate.values > 0
    steps, logs = rate.steps[keep], np.log(rate.values[keep])
    if len(logs) < 2:
        return []
    change = np.diff(logs)
    usual = float(np.median(np.abs(change[change != 0]))) if np.any(change != 0) else 0.0
    end = warmup_end(run)
    out: list[LrJump] = []
    for i in np.flatnonzero(np.abs(change) > least):
        smooth = np.count_nonzero(np.abs(change) > 0.3 * least) > 0.2 * len(change) and abs(change[i]) < 4 * usual
        rising = end is not None and steps[i + 1] <= end
        near = out and steps[i + 1] - out[-1].step <= within
        if not smooth and not rising and not near:
            out.append(LrJump(int(steps[i + 1]), float(np.exp(change[i]))))
    return out


def seams(run: Run) -> list[int]:
    """Steps at which the run was resumed, continued with another data set, or began to be told by another witness."""
    found = {e.step for e in run.events_of("resume", "incarnation", "attached") if e.step > 0}
    if isinstance(others := run.fact("data.joined_at"), list | tuple):
        found.update(int(step) for step in others if isinstance(step, int | float))
    if isinstance(run.fact("optimizer.fresh_at_step"), int):
        found.update(phase_starts(run))
    return sorted(found)


def joined_at(run: Run) -> list[int]:
    """The steps at which training began to draw from other data: another data set, or classes that were not there before."""
    told = run.fact("data.joined_at")
    found = {int(step) for step in told if isinstance(step, int | float)} if isinstance(told, list | tuple) else set()
    counts = run.matrix("batch/labels/class")
    seen = counts.values > 0
    for k in range(len(counts.names)) if len(counts) >= 2 * NEW_CLASS else ():
        first = int(np.argmax(seen[:, k]))
        later = counts.values[first:, k].mean()
        if first >= NEW_CLASS and later * first > 20 and seen[first, k]:  # so often it would have come by chance
            found.add(int(counts.steps[first]))
    return sorted(found)


def recovery(run: Run) -> int:
    """Steps that a curve is given after a jump before it is judged: max(50, 1 % of the run)."""
    span = run.steps
    return max(50, (span[1] - span[0]) // 100) if span else 50


def muted_after_jumps(run: Run, *, only_up: bool = False) -> list[tuple[int, int]]:
    """Stretches after learning-rate jumps (upward ones only, if asked) and resumes, where the loss is expected to jump."""
    length = recovery(run)
    at = [j.step for j in lr_jumps(run) if j.ratio > 1 or not only_up] + seams(run)
    return [(s - 1, s + length) for s in sorted(at)]


def is_muted(step: int, stretches: list[tuple[int, int]]) -> bool:
    return any(lo <= step <= hi for lo, hi in stretches)


def segments(run: Run, name: str = TRAIN) -> list[Series]:
    """A curve cut at learning-rate jumps and resume seams; every part has at least one record."""
    whole = curve(run, name)
    cuts = sorted({j.step for j in lr_jumps(run)} | set(seams(run)))
    edges = np.searchsorted(whole.steps, cuts)
    bounds = np.unique(np.concatenate([[0], edges, [len(whole)]]))
    return [
        Series(whole.steps[a:b], whole.values[a:b], None if whole.times is None else whole.times[a:b])
        for a, b in pairwise(bounds)
    ]


def may_be_negative(run: Run) -> bool:
    """Whether ratios and logarithms of the loss mean nothing: a negative loss was seen, or its kind allows one."""
    if run.fact("loss.may_be_negative"):
        return True
    return any(bool(np.any(run.series(n).finite().values < 0)) for n in (TRAIN, VAL))


def adversarial(run: Run) -> bool:
    return bool(run.fact("adversarial") or run.fact("optimizer.disjoint"))


def reinforcement(run: Run) -> bool:
    return bool(run.fact("rl"))


def curriculum(run: Run) -> bool:
    return bool(run.fact("curriculum"))


def finetune(run: Run) -> bool:
    """Whether training began from trained weights: the fact, loaded weights, adapters, or a first loss far below ln C."""
    if "finetune" in run.facts:
        return bool(run.fact("finetune"))
    if run.fact("model.loaded") or run.fact("model.adapters"):
        return True
    chance, losses = chance_level(run), curve(run)
    if len(losses) > 3 and losses.steps[0] > max(10 * float(np.median(np.diff(losses.steps))), 0.2 * losses.steps[-1]):
        return True  # a log that begins in the middle: the run continues from what was trained before
    first = losses.values[:5]
    return chance is not None and len(first) > 0 and float(np.median(first)) < 0.5 * chance


def adam_like(run: Run) -> bool | None:
    """Whether the optimizer normalises its steps (Adam and kin); None when it is unknown."""
    name = run.fact("optimizer.name")
    if not isinstance(name, str) or not name:
        return None
    scaled = (
        "adam",
        "lion",
        "lamb",
        "radam",
        "adafactor",
        "adamax",
        "sophia",
        "rmsprop",
        "adagrad",
        "adadelta",
        "shampoo",
        "muon",
    )
    return any(word in name.lower() for word in scaled)


def plain_loss(run: Run) -> bool:
    """Whether the training loss is the mean of one unweighted loss call, so that its level has a meaning."""
    return averaged(run) and unweighted(run) and added(run) == 1.0


def averaged(run: Run) -> bool:
    """Whether the loss is a mean, or a sum that is then divided by a count."""
    made = run.fact("loss.reduction")
    return made in (None, "mean") or (made == "sum" and bool(run.fact("loss.divided")))


def unweighted(run: Run) -> bool:
    """Whether it is made of one kind of unweighted loss call."""
    return not run.fact("loss.weighted") and len(run.matrix("loss/terms").names) < 2


def added(run: Run) -> float | None:
    """How many means the training loss adds up, 6 where one backward takes the losses of six letters; None where that changes.

    A sum over a batch counts as many as it has targets.
    """
    if not averaged(run):
        sizes = run.fact("loss.target_shape") if run.fact("loss.reduction") == "sum" else None
        return float(math.prod(int(n) for n in sizes)) if isinstance(sizes, list | tuple) and sizes else None
    each, whole = run.series("loss/token_mean").finite(), run.series(TRAIN).finite()
    _, a, b = np.intersect1d(each.steps, whole.steps, return_indices=True)
    kept = each.values[a] > 1e-6
    if kept.sum() < 5:
        return 1.0 if run.fact("loss.reduction") != "sum" else None
    times = whole.values[b][kept] / each.values[a][kept]
    usual, spread = float(np.median(times)), float(np.subtract(*np.quantile(times, (0.9, 0.1))))
    if 2 / 3 < usual < 3 / 2:
        return 1.0  # a penalty next to it, or means that are weighed otherwise
    return usual if spread < 0.1 * usual else None


def chance_level(run: Run) -> float | None:
    """The loss of a model that knows nothing: ln C for cross-entropy, ln 2 for binary; None when the kind is unknown."""
    kind = run.fact("loss.kind")
    classes = run.fact("loss.classes")
    if not plain_loss(run):
        return None
    if kind in ("ce", "nll") and isinstance(classes, int | float) and classes >= 2:
        return math.log(classes)
    return math.log(2) if kind in ("bce", "bce_logits") else None


def floors(run: Run) -> dict[str, float]:
    """The levels with a meaning for this run's loss, from its facts (CATALOGUE 2.9); empty when the loss is unknown."""
    kind = run.fact("loss.kind") or run.fact("loss.by_hand")
    if not plain_loss(run):
        return {}
    if kind in ("ce", "nll"):
        classes = run.fact("loss.classes")
        counts = class_counts(run)
        return stats.known_floors(
            classes=int(classes) if isinstance(classes, int | float) else None,
            prior=None if counts is None else list(counts),
            smoothing=float(run.fact("loss.smoothing") or 0.0),
        )
    if kind in ("bce", "bce_logits"):
        return stats.known_floors(prior=_pair(class_counts(run)), binary=True)
    if kind == "mse":
        known = target_variance(run)
        return stats.known_floors(target_var=None if known is None else known[0])
    if kind == "contrastive":
        size = run.series("batch/size").finite().values
        return stats.known_floors(batch=int(np.median(size)) if len(size) else None)
    return {}


def class_counts(run: Run) -> Floats | None:
    """Targets per class over the run, from the facts or the batches; None when unknown."""
    fact: Any = run.fact("data.class_counts")
    if isinstance(fact, dict):
        fact = list(fact.values())
    if isinstance(fact, list | tuple) and len(fact) > 1:
        return np.asarray(fact, dtype=np.float64)
    table = run.matrix("batch/labels/class")
    return np.nansum(table.values, axis=0) if len(table) >= 20 and len(table.names) > 1 else None


def _pair(counts: Floats | None) -> list[float] | None:
    return list(counts) if counts is not None and len(counts) == 2 else None


def target_variance(run: Run) -> tuple[float, float] | None:
    """Variance of the regression target over the run, within batches plus between their means, and its standard error."""
    spread, centre = run.series("batch/label_std").finite().values, run.series("batch/label_mean").finite().values
    if len(spread) < 5 or len(centre) < 5:
        return None
    return float(np.mean(spread**2) + np.var(centre)), float(np.std(spread**2, ddof=1) / math.sqrt(len(spread)))


def moving_targets(run: Run) -> bool:
    """Whether the same inputs come with ever new numbers to be predicted: values that are bootstrapped from the model itself,
    which is also asked what to do next.

    Each time a target network is renewed the loss jumps, and should.
    """
    seen, clashes = run.fact("data.seen"), run.fact("data.conflicts")
    known = seen.get("train", 0) if isinstance(seen, dict) else 0
    regression = run.fact("loss.kind") in ("mse", "l1", "huber")
    clash = isinstance(clashes, int) and known >= 5 and clashes >= 0.5 * known
    return regression and (clash or bool(run.fact("acts")))


def renewed_at(run: Run, step: int, reach: int = 10) -> bool:
    """Whether a network that is not trained itself was given new weights just before this step: the targets are others now."""
    return any(
        0 < e.step <= step <= e.step + reach and e.data.get("what") == "model" and "digest" not in e.data
        for e in run.events_of("load")
    )


BATCH_FEATURES = ("batch/input_mean", "batch/input_std", "batch/length", "batch/size", "batch/label_mean", "batch/pad_share")


def data_changed(run: Run, lo: int, hi: int, window: int = 50, limit: float = 4.0) -> bool:
    """Whether the batches looked different after step `hi` than before step `lo`: a harder source, longer sequences."""
    for series in (_targets(run), *(run.series(name).finite() for name in BATCH_FEATURES)):
        before, after = series.between(hi=lo).values[-window:], series.between(lo=hi).values[:window]
        if len(before) < 5 or len(after) < 5:
            continue
        gap = abs(float(np.median(after) - np.median(before)))
        if gap > limit * max(stats.mad(before), stats.mad(after), 1e-6 * abs(float(np.median(before)))):
            return True
    return False


def _targets(run: Run) -> Series:
    """Targets per batch: grows with the sequences where each position has one."""
    table = run.matrix("batch/labels/class")
    return Series(table.steps, np.nansum(table.values, axis=1)) if len(table) else run.series("batch/labels/class")


def sound_norm(run: Run, before: int | None = None, least: int = 10) -> float | None:
    """The 95 % quantile of the gradient norms before a step, and before the loss left its start upwards for good; None where
    too few came before. A norm from after the onset is no norm to clip at.
    """
    loss = run.series(TRAIN)
    hi = before if before is not None else (run.steps[1] + 1 if run.steps else 0)
    if len(loss) > 1:
        start = float(np.nanmedian(loss.values[:3])) if np.isfinite(loss.values[:3]).any() else math.inf
        off = ~(loss.values <= start + max(0.5 * abs(start), 1e-12))
        lasting = off & np.r_[off[1:], off[-1]] & np.r_[off[2:], off[-1], off[-1]][: len(off)]
        if lasting.any():
            hi = min(hi, int(loss.steps[int(np.argmax(lasting))]))
    norm = run.series("grad_norm").between(hi=hi - 1).finite().values
    norm = norm[norm > 0]
    norm = norm[norm <= 10 * np.median(norm)] if len(norm) else norm  # a climb that began before the loss noticed
    return float(np.quantile(norm, 0.95)) if len(norm) >= least else None


def clip_advice(run: Run, before: int | None = None) -> str:
    """What to do about gradients that grow: the rate first, then the norm to clip at where sound ones were seen."""
    norm = sound_norm(run, before)
    at = f"{norm:.3g}, the 95 % quantile of the norms before it began" if norm is not None else "1.0"
    return f"Divide the learning rate by 10; if bursts remain, clip gradients at {at}."


def planned_steps(run: Run) -> int | None:
    """Steps the run was meant to take, where that is known."""
    fact = run.fact("budget.planned_steps")
    return int(fact) if isinstance(fact, int | float) and 0 < fact < math.inf else None


def losses_at(run: Run, steps: Any, name: str = TRAIN, half: float = 0.5) -> Floats:
    """The training loss near each of `steps`: the median of records within half a gap on both sides, else the latest known."""
    series = curve(run, name)
    wanted = np.asarray(steps, dtype=np.float64)
    if not len(series) or not len(wanted):
        return np.full(len(wanted), np.nan)
    gap = float(np.median(np.diff(wanted))) if len(wanted) > 1 else 0.0
    lo = np.searchsorted(series.steps, wanted - half * gap, side="left")
    hi = np.searchsorted(series.steps, wanted + half * gap, side="right")
    latest = series.at(wanted)
    y = series.values
    near = [np.median(y[a:b]) if b > a + 1 else y[a] if b > a else v for a, b, v in zip(lo, hi, latest, strict=True)]
    return np.array(near)
