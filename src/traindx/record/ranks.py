"""What all ranks of a run saw, side by side: `rank/*` signals made of each rank's own files, offline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from traindx.run import Event, Matrix, Run, Series

# Merged name ← each rank's own signal.
MERGED = {
    "rank/loss": "loss/train",
    "rank/params": "rank/fingerprint",
    "rank/grads": "rank/grad_fingerprint",
    "rank/batch": "batch/fingerprint",
    "rank/tokens": "batch/valid_targets",
    "rank/grad_norm": "grad_norm",
}
TOLD = ("origin", "origins", "unstable_forms", "replay.failed", "exception", "memory.oom")  # facts any rank may have
SHARED = ("nonfinite", "hang", "exception", "oom", "nan_hidden", "autograd_error", "sensor_off", "traindx_off")
BEHIND = 20  # steps that a dead rank must lie behind the others to be called lost


def merge_ranks(runs: Mapping[int, Run]) -> Run:
    """The lowest rank's run, with the other ranks' loss, times and fingerprints beside its own."""
    ranks = sorted(runs)
    first = runs[ranks[0]]
    notes = list(_completeness(runs))
    if len(ranks) == 1:
        return first.with_(notes=notes)
    signals: dict[str, Matrix] = {}
    facts: dict[str, Any] = {"ranks": _spread(runs)}
    for name, own in MERGED.items():
        found = {r: runs[r].series(own) for r in ranks if len(runs[r].series(own))}
        if len(found) >= 2:
            signals[name] = side_by_side(found)
    times = {r: own_time(runs[r]) for r in ranks}
    if sum(len(t) > 0 for t in times.values()) >= 2:
        signals["rank/step_time"] = side_by_side({r: t for r, t in times.items() if len(t)})
    for rank in ranks[1:]:
        notes += [f"rank {rank}: {note}" for note in runs[rank].notes]
    for key in TOLD:  # what one rank alone found out
        who = next((r for r in _by_first_trouble(runs) if runs[r].fact(key) is not None), None)
        if who is not None:
            facts[key] = runs[who].fact(key)
    return replace(first, events=()).with_(signals=signals, facts=facts, events=[*_told(runs), *_lost(runs)], notes=notes)


def side_by_side(series: Mapping[int, Series]) -> Matrix:
    """One column per rank over all steps that any of them recorded; NaN where a rank has none."""
    steps = np.unique(np.concatenate([s.steps for s in series.values()]))
    table = np.full((len(steps), len(series)), np.nan)
    for i, own in enumerate(series.values()):
        table[np.searchsorted(steps, own.steps), i] = own.values
    return Matrix(steps, tuple(str(r) for r in series), table)


def own_time(run: Run) -> Series:
    """Step time without backward, where ranks wait for one another; the whole step time when that is not known."""
    step, backward = run.series("time/step"), run.series("time/backward")
    if not len(step) or not len(backward):
        return step
    waited = backward.at(step.steps)
    return Series(step.steps, np.where(np.isfinite(waited), step.values - waited, step.values))


def _completeness(runs: Mapping[int, Run]) -> list[str]:
    """Ranks that should be there and are not, and ranks that disagree about how many there are."""
    sizes = {r: run.fact("world_size") for r, run in runs.items() if isinstance(run.fact("world_size"), int)}
    if not sizes:
        return []
    notes = []
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"rank {r}: {n}" for r, n in sorted(sizes.items())[:8])
        notes.append(f"the ranks disagree about how many they are ({told})")
    world = max(sizes.values())
    missing = [r for r in range(min(world, 100_000)) if r not in runs]
    if missing and len(runs) > 1:
        listed = ", ".join(map(str, missing[:10])) + ("…" if len(missing) > 10 else "")
        notes.append(f"{len(missing)} of {world} ranks wrote nothing: {listed}")
    return notes


def _told(runs: Mapping[int, Run]) -> list[Event]:
    """The lowest rank's events, and those of the others that concern everybody, each with its rank."""
    lowest = min(runs)
    out = [
        Event(e.step, e.kind, {**e.data, "rank": r} if e.kind in SHARED else e.data, e.time)
        for r, run in runs.items()
        for e in run.events
        if r == lowest or e.kind in SHARED
    ]
    return sorted(out, key=lambda e: e.step)


def _by_first_trouble(runs: Mapping[int, Run]) -> list[int]:
    """Ranks, the one whose own loss broke first before the others: an all-reduce hands a NaN on to everybody."""

    def key(rank: int) -> tuple[int, int, int]:
        broke = [(e.step, e.data.get("what") != "loss") for e in runs[rank].events if e.kind == "nonfinite"]
        step, other = min(broke, default=(1 << 62, True))
        return step, int(other), rank

    return sorted(runs, key=key)


def _spread(runs: Mapping[int, Run]) -> dict[str, dict[str, float | int | str | None]]:
    """Per rank: steps, mean and spread of its loss, median step time, how it ended."""
    out: dict[str, dict[str, float | int | str | None]] = {}
    for rank, run in runs.items():
        loss, own = run.series("loss/train").finite().values, own_time(run).finite().values
        ended = run.fact("ended")
        out[str(rank)] = {
            "last_step": run.steps[1] if run.steps else None,
            "loss_mean": float(np.mean(loss)) if len(loss) else None,
            "loss_std": float(np.std(loss)) if len(loss) else None,
            "step_time": float(np.median(own)) if len(own) else None,
            "ended": str(ended) if ended is not None else None,
        }
    return out


def _lost(runs: Mapping[int, Run]) -> list[Event]:
    """Ranks that ended without a word, well before the others or while these could still say how they ended."""
    ends = {r: run.steps[1] for r, run in runs.items() if run.steps}
    if not ends:
        return []
    newest = max(ends.values())
    told = any(run.fact("ended") in ("exception", "closed", "exit") for run in runs.values())
    return [
        Event(end, "rank_lost", {"rank": r, "last_step": end})
        for r, end in sorted(ends.items())
        if (newest - end > BEHIND or told) and runs[r].fact("ended") == "killed"
    ]
