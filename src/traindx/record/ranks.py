"""What all ranks of a run saw, side by side: `rank/*` signals made of each rank's own files, offline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from traindx.record import endings, flight
from traindx.run import Event, Matrix, Run, Series

# Merged name ← each rank's own signal.
MERGED = {
    "rank/loss": "loss/train",
    "rank/lr": "lr",
    "rank/params": "rank/fingerprint",
    "rank/grads": "rank/grad_fingerprint",
    "rank/buffers": "rank/buffer_fingerprint",
    "rank/input_nonfinite": "batch/input_nonfinite",
    "rank/batch": "batch/fingerprint",
    "rank/tokens": "batch/targets",
    "rank/token_loss": "loss/target_mean",
    "rank/grad_norm": "grad_norm",
    "rank/compute": "time/ddp_compute",
    "rank/comm": "time/ddp_comm",
}
TOLD = ("origin", "origins", "replay.failed", "exception", "memory.oom")  # facts any rank may have
SHARED = ("nonfinite", "hang", "exception", "oom", "nan_hidden", "autograd_error", "sensor_off", "traindx_off", "collectives")


def merge_ranks(
    runs: Mapping[int, Run], launch: Mapping[str, Any] | None = None, dumps: Mapping[int, flight.Entries] | None = None
) -> Run:
    """The lowest rank's run, with the other ranks' loss, times and fingerprints next to its own.

    `launch` is what the launcher knows of their ends, `dumps` what flight recorders kept of their collectives.
    """
    runs, notes = _of_one_launch(runs)
    if launch:  # the launcher has gone: whoever has not said how it ended was ended
        runs = {r: run.with_(facts={"ended": "killed"}) if run.fact("ended") == "running" else run for r, run in runs.items()}
    ranks = sorted(runs)
    first = runs[ranks[0]]
    notes += _completeness(runs)
    if len(ranks) == 1:
        return first.with_(notes=notes)
    if any(run.fact("attached.guessed") for run in runs.values()):
        why = "no optimizer counts its updates, so that the ranks, which were attached to one after the other, are not compared"
        return first.with_(notes=(*notes, why))
    signals: dict[str, Matrix | Series] = {}
    facts: dict[str, Any] = {"ranks": _spread(runs)}
    for name, own in MERGED.items():
        found = {r: runs[r].series(own) for r in ranks if len(runs[r].series(own))}
        if len(found) >= 2:
            signals[name] = side_by_side(found)
    times = {r: own_time(runs[r]) for r in ranks}
    if sum(len(t) > 0 for t in times.values()) >= 2:
        signals["rank/step_time"] = side_by_side({r: t for r, t in times.items() if len(t)})
    whole = _whole_norms(runs)
    if whole:
        signals |= whole
        kind = first.fact("distributed")
        notes.append(f"gradient norms are made offline of the shards that {len(ranks)} ranks hold ({kind})")
    if (unequal := _unequal_gradients(runs)) is not None and not whole:
        facts["ranks.unequal_gradients"] = unequal
    for rank in ranks[1:]:
        notes += [f"rank {rank}: {note}" for note in runs[rank].notes]
    for key in TOLD:  # what one rank alone found out
        who = next((r for r in _by_first_trouble(runs) if runs[r].fact(key) is not None), None)
        if who is not None:
            facts[key] = runs[who].fact(key)
    events = [*_told(runs), *endings.lost(runs, launch or {}), *_apart_in_collectives(runs, dumps or {})]
    return replace(first, events=()).with_(signals=signals, facts=facts, events=events, notes=notes)


def _of_one_launch(runs: Mapping[int, Run]) -> tuple[dict[int, Run], list[str]]:
    """The ranks that took part in the latest launch: after an elastic restart there may be fewer of them than before."""
    begun = {r: float(t) for r, run in runs.items() if isinstance(t := run.fact("started"), int | float)}
    if not begun:
        return dict(runs), []
    newest = max(begun, key=lambda r: begun[r])
    world = runs[newest].fact("world_size")
    size = world if isinstance(world, int) and world > newest else max(runs) + 1
    again = bool(runs[newest].events_of("resume"))  # a rank that did not come back after a restart belongs to the launch before
    gone = {r for r, run in runs.items() if r >= size or (again and begun.get(r, np.inf) <= _last_heard(run) < begun[newest])}
    if not gone:
        return dict(runs), []
    listed = ", ".join(map(str, sorted(gone)[:10])) + ("…" if len(gone) > 10 else "")
    return (
        {r: run for r, run in runs.items() if r not in gone},
        [f"ranks {listed} took part in an earlier launch only, and are left out: {size} ranks trained last"],
    )


def _last_heard(run: Run) -> float:
    """When a rank recorded its last loss; never is later than everything."""
    times = run.series("loss/train").times
    known = times[np.isfinite(times)] if times is not None else np.empty(0)
    return float(known[-1]) if len(known) else float("inf")


def since(runs: Mapping[int, Run]) -> float:
    """When the latest launch began."""
    return max((float(t) for run in runs.values() if isinstance(t := run.fact("started"), int | float)), default=0.0)


def side_by_side(series: Mapping[int, Series]) -> Matrix:
    """One column per rank over all steps that any of them recorded; NaN where a rank has none."""
    steps = np.unique(np.concatenate([s.steps for s in series.values()]))
    table = np.full((len(steps), len(series)), np.nan)
    for i, own in enumerate(series.values()):
        table[np.searchsorted(steps, own.steps), i] = own.values
    return Matrix(steps, tuple(str(r) for r in series), table)


def _whole_norms(runs: Mapping[int, Run]) -> dict[str, Matrix | Series]:
    """Norms of whole gradients from those of their shards, at steps that all ranks recorded; no rank may be missing."""
    parts = [run.matrix("shard_norm/param") for run in runs.values()]
    world = next(iter(runs.values())).fact("world_size")
    if any(not len(p) for p in parts) or len(parts) != world:
        return {}
    steps = parts[0].steps
    for part in parts[1:]:
        steps = np.intersect1d(steps, part.steps)
    if not len(steps):
        return {}
    names = tuple(dict.fromkeys(n for p in parts for n in p.names))
    square, heard = np.zeros((len(steps), len(names))), np.zeros((len(steps), len(names)), bool)
    for part in parts:
        rows = part.values[np.searchsorted(part.steps, steps)]
        places = [names.index(n) for n in part.names]
        square[:, places] += np.where(np.isnan(rows), 0.0, rows) ** 2
        heard[:, places] |= ~np.isnan(rows)
    each = np.sqrt(np.where(heard, square, np.nan))
    return {"grad_norm/param": Matrix(steps, names, each), "grad_norm": Series(steps, np.sqrt(square.sum(axis=1)))}


def _unequal_gradients(runs: Mapping[int, Run], rounding: float = 1e-5, most: int = 8) -> dict[str, Any] | None:
    """The parameters whose gradient norms differ between ranks at steps that all recorded, when those of others do not."""
    tables = [run.matrix("grad_norm/param") for run in list(runs.values())[:most]]
    tables = [t for t in tables if len(t)]
    if len(tables) < 2:
        return None
    steps = reduce(np.intersect1d, (t.steps for t in tables))
    names = [n for n in tables[0].names if all(n in t.names for t in tables)]
    if not len(steps) or not names:
        return None
    each = np.stack([t.values[np.searchsorted(t.steps, steps)][:, [t.place[n] for n in names]] for t in tables])
    apart = each.max(axis=0) - each.min(axis=0) > rounding * np.abs(each).max(axis=0)  # NaN is no difference
    differ = apart.any(axis=0)
    if not differ.any() or differ.all():
        return None
    return {"names": [n for n, d in zip(names, differ, strict=True) if d][:50], "differ": int(differ.sum()), "of": len(names)}


def own_time(run: Run) -> Series:
    """Time of a step in which this rank waited for no other; the whole step time when that is not known."""
    own = run.series("time/own")
    if len(own):
        return own
    step, backward = run.series("time/step"), run.series("time/backward")
    both = np.intersect1d(step.steps, backward.steps)
    return Series(both, step.at(both) - backward.at(both)) if len(both) else step


def _apart_in_collectives(runs: Mapping[int, Run], dumps: Mapping[int, flight.Entries]) -> list[Event]:
    """Where the ranks' collectives do not fit, from what each noted of its flight recorder, and from dumps."""
    tails = dict(dumps)
    for rank, run in runs.items():
        for event in run.events_of("collectives"):
            entries = event.data.get("entries")
            if isinstance(entries, list) and rank not in tails:
                tails[rank] = [e for e in entries if isinstance(e, dict) and isinstance(e.get("seq"), int)]
    problem = flight.compared(tails)
    if problem is None:
        return []
    at = max((run.steps[1] for run in runs.values() if run.steps), default=0)
    return [Event(at, "collective_mismatch", problem)]


def _completeness(runs: Mapping[int, Run]) -> list[str]:
    """Ranks that should be there and are not, and ranks that disagree about how many there are."""
    empty = [r for r, run in sorted(runs.items()) if not run.signals] if len(runs) > 1 else []
    notes = [f"rank {r} left no numbers: its disk refused them, or it made no step" for r in empty]
    sizes = {r: run.fact("world_size") for r, run in runs.items() if isinstance(run.fact("world_size"), int)}
    if not sizes:
        return notes
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
