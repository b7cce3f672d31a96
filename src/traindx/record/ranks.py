"""What all ranks of a run saw, side by side: `rank/*` signals made of each rank's own files, offline."""

from __future__ import annotations

from collections.abc import Mapping

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
BEHIND = 20  # steps that a dead rank must lie behind the others to be called lost


def merge_ranks(runs: Mapping[int, Run]) -> Run:
    """The lowest rank's run, with the other ranks' loss, times and fingerprints beside its own."""
    ranks = sorted(runs)
    first = runs[ranks[0]]
    notes = list(_completeness(runs))
    if len(ranks) == 1:
        return first.with_(notes=notes)
    signals = {}
    for name, own in MERGED.items():
        found = {r: runs[r].series(own) for r in ranks if len(runs[r].series(own))}
        if len(found) >= 2:
            signals[name] = side_by_side(found)
    times = {r: own_time(runs[r]) for r in ranks}
    if sum(len(t) > 0 for t in times.values()) >= 2:
        signals["rank/step_time"] = side_by_side({r: t for r, t in times.items() if len(t)})
    for rank in ranks[1:]:
        notes += [f"rank {rank}: {note}" for note in runs[rank].notes]
    return first.with_(signals=signals, events=_lost(runs), notes=notes)


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


def _lost(runs: Mapping[int, Run]) -> list[Event]:
    """Ranks that ended without a word well before the others."""
    ends = {r: run.steps[1] for r, run in runs.items() if run.steps}
    if not ends:
        return []
    newest = max(ends.values())
    return [
        Event(end, "rank_lost", {"rank": r, "last_step": end})
        for r, end in sorted(ends.items())
        if newest - end > BEHIND and runs[r].fact("ended") == "killed"
    ]
