"""Labels have nothing to do with their inputs.

## What it sees

Two tests that need no training. The first asks whether neighbours in input space share labels. It compares a
nearest-neighbour and a linear probe on a sketch of the first samples (at least 300; token ids as counts) with the same
on permuted labels. The second is the trial `label-info`: do true labels give a more consistent gradient than permuted
ones? One of them must find nothing, *and* the model must fail on data it was not trained on. That means validation
accuracy at the majority share, or validation loss at the entropy of the labels. Of texts, whose order may matter, the
model must also have memorised its own labels. A third needs no probe: of the inputs that came again in a later pass, as
many came with another label as if labels were drawn again each time.

## Why it matters

Inputs and labels that were shuffled apart, joined on the wrong key or shifted by a row still train: the loss falls slowly
as the network memorises noise. Nothing that it learns holds for a new sample.

## What else looks like this

- OPTM001: the learning rate is too small; the probes find the labels informative.
- ACTV005: the network gives the same answer to every input.
- Parity-like tasks and modular arithmetic: no neighbour and no first step knows anything, and yet it can be learned. The
  finding stays at warning until the trial has been run, and is withdrawn once validation leaves chance.
- DATA008: labels are right in training and validation is prepared differently.

## What to do

Print ten samples with their labels and look. Rebuild the pairs from one table with one shuffle. If the trial reports an
offset, the labels are shifted by that many rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from traindx import course, facts, regime, stats
from traindx.course import Learned, State
from traindx.finding import Confidence, Evidence, Severity, Unsure
from traindx.rule import rule
from traindx.run import Run


@rule(
    "DATA004",
    needs={"fact:data.label_probe | fact:trial.label_info | fact:data.met_again | accuracy/val | loss/val": 3},
    says={
        "": "similar inputs do not have similar labels ({score:.3f}; shuffled labels give {null:.3f}; {n:.0f} "
        "samples), and {skill}",
        "trial": "the true labels give gradients no more consistent than shuffled labels do (z {z:.1f}), and {skill}",
        "apart": "{conflicts:.0f} of {again:.0f} repeated inputs came with another label, as many as by chance, and "
        "{skill}: inputs and labels are shuffled separately",
        "offset": "labels fit the inputs only when shifted by {offset:.0f} rows (z {offset_z:.1f}; unshifted {z:.1f})",
        "nothing": "the training loss fell from {first:.4g} to {late:.4g}, but the validation loss (best {best:.4g}) never "
        "was below that of an untrained network: the model memorises and does not generalise",
        "memorised": "training accuracy reached {train:.0%} while {skill}: the model memorises and does not generalise",
    },
    fix={
        "": "Print some samples with their labels and check them. Then rebuild the pairs with one shuffle.",
        "apart": "Shuffle inputs and labels with one permutation (or shuffle indices), in the function that makes the batches.",
        "offset": "Shift the labels back by {offset:.0f} rows and rebuild the pairs.",
    },
    severity=Severity.WARNING,
    confidence=Confidence.STRONG,
    explains=("DATA010", "GRAD005", "LOSS002", "LOSS003", "LOSS008", "LOSS009", "LOSS011", "EVAL004", "EVAL007", "EVAL005"),
    unless=("rl", "adversarial"),
    at="loader target",
)
def labels_uninformative(
    run: Run,
    *,
    z: float = 3.0,  # CATALOGUE 2.17: true labels 11 … 17, shuffled −1.4 … −.3; the clinic's shuffled ones reach 2.1
    least_samples: int = 300,  # the spread of permuted labels states the power; below this it has little
    least_steps: int = 100,  # before failing on new data means anything
    memorised: float = 0.3,  # train accuracy above validation accuracy
    most_common: float = 0.7,  # share of the largest class above which accuracy of a probe says nothing
) -> Iterator[Evidence]:
    found = course.learned(run)
    trial, probe = facts.table(run, "trial.label_info"), facts.table(run, "data.label_probe")
    trial_z, offset_z = facts.number(trial.get("z")), facts.number(trial.get("offset_z"))
    if abs(trial_z) < z and abs(offset_z) > 5 and facts.number(trial.get("offset"), 0.0) != 0:
        values = {"offset": facts.number(trial.get("offset")), "offset_z": offset_z, "z": trial_z}
        yield Evidence(values, say="offset", severity=Severity.CRITICAL)
        return
    on_new = len(facts.accuracy(run)) >= 3 or len(run.series("loss/val").finite()) >= 3
    if found.state is State.GOT_WORSE or (on_new and found.yes and found.low > course.SOME):
        return  # what was learned once, too, shows that there is something to learn
    if apart := _apart(run, found):
        yield apart
        return
    shares = [facts.majority(run, part)[1] for part in ("train", "val")]
    common = next((s for s in shares if math.isfinite(s)), math.nan)
    lopsided = common > most_common  # always answering one class is then as good as any probe
    empty_probe = not lopsided and _probe_z(probe, least_samples) < z
    if abs(trial_z) < z:
        severity = Severity.CRITICAL if empty_probe else Severity.INFO
        confidence = Confidence.STRONG if empty_probe else Confidence.SUGGESTIVE
        yield Evidence({"z": trial_z, "skill": found.reasons[0]}, say="trial", severity=severity, confidence=confidence)
    elif empty_probe:
        steps = run.steps or (0, 0)
        if not found.no or steps[1] - steps[0] < least_steps:
            raise Unsure("the probe finds no label information; the run is too short to show it", needs_steps=least_steps)
        if facts.takes_tokens(run) and not _by_heart(run):
            raise Unsure(
                "counts of words say nothing of the labels, their order may; `traindx trial label-info train.py` can tell"
            )
        numbers = {k: facts.number(probe.get(k)) for k in ("score", "n")}
        yield Evidence({**numbers, "null": facts.number(probe.get("null_mean")), "skill": found.reasons[0]}, steps=steps)
    elif lopsided and probe and found.no:
        raise Unsure(f"{found.reasons[0]}; {common:.0%} of the labels are one class, and a probe cannot tell")
    elif not probe and not trial:
        yield from _memorised(run, found, memorised) if len(facts.accuracy(run)) >= 3 else _for_nothing(run)


def _apart(run: Run, found: Learned, near: float = 0.8, least: int = 30) -> Evidence | None:
    """Inputs change their labels from pass to pass as often as labels that are drawn anew: a shuffle of one of the two."""
    counts = np.array([*facts.counts(run.fact("data.class_counts")).values()])
    clash, again = (facts.number(run.fact(k), 0.0) for k in ("data.conflicts", "data.met_again"))
    stuck = run.series("batch/repeat").finite().values  # the same inputs again and again: DATA012
    if again < least or len(counts) < 2 or not found.no or (len(stuck) > 0 and float(np.mean(stuck)) > 0.5):
        return None
    drawn = 1 - float(np.sum((counts / counts.sum()) ** 2))
    if clash / again < near * drawn:
        return None
    values = {"conflicts": clash, "again": again, "skill": found.reasons[0]}
    return Evidence(values, steps=run.steps, say="apart", severity=Severity.CRITICAL)


def _probe_z(probe: Mapping[str, Any], least: int) -> float:
    """How far the probe is above permuted labels, in deviations; infinite when there is no fair probe."""
    if facts.number(probe.get("n"), 0.0) < least:
        return math.inf
    score, mean, spread = (facts.number(probe.get(k)) for k in ("score", "null_mean", "null_sd"))
    return (score - mean) / spread if math.isfinite(score - mean) and spread > 1e-6 else math.inf


def _for_nothing(run: Run, least: int = 5) -> Iterator[Evidence]:
    """Of two curves alone: training falls clearly below its first losses, validation never does."""
    train, val = regime.curve(run).finite().values, run.series("loss/val").finite().values
    if regime.log_form(run) != "raw" or regime.logged_by_epoch(run) or len(train) < 100 or len(val) < least:
        return
    first, late = float(np.median(train[:5])), float(np.median(train[-max(20, len(train) // 10) :]))
    noise = stats.noise_sigma(train)
    if late < first - max(0.05 * abs(first), 2 * noise) and np.min(val) > first - 0.02 * abs(first) > 0:
        values = {"first": first, "late": late, "best": float(np.min(val))}
        yield Evidence(values, steps=run.steps, say="nothing", confidence=Confidence.SUGGESTIVE)


def _by_heart(run: Run, share: float = 0.95) -> bool:
    """Whether training is well below knowing only how frequent the answers are: the network learns, if nothing that holds."""
    reference, train = regime.floors(run).get("prior"), regime.curve(run).finite().values
    return (
        reference is not None and len(train) >= 10 and float(np.median(train[-max(5, len(train) // 10) :])) < share * reference
    )


def _memorised(run: Run, found: Learned, gap: float) -> Iterator[Evidence]:
    train, val = facts.accuracy(run, "train").values, facts.accuracy(run).values
    if not found.no or len(val) < 3:
        return
    late = float(np.median(train[-max(5, len(train) // 10) :])) if len(train) else math.nan
    if not late - float(np.median(val[-3:])) > gap:
        raise Unsure(f"{found.reasons[0]}; whether the labels are to blame, `traindx trial label-info train.py` can tell")
    yield Evidence({"train": late, "skill": found.reasons[0]}, say="memorised", confidence=Confidence.SUGGESTIVE)
