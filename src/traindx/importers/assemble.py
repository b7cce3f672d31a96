"""From a log to runs: runs are cut apart, columns get their meaning, and what was guessed is said in the notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from traindx.importers import curves, hparams
from traindx.importers.columns import Columns
from traindx.importers.curves import Seam, Stretch
from traindx.importers.table import Log, Options, Track
from traindx.run import Event, Floats, Run, Series

MOST_RUNS = 1000  # of one file


def runs_of(log: Log, options: Options | None = None) -> list[Run]:
    """Every run in a log, in the order of writing; a log without numbers gives none."""
    options = options or Options()
    _drop_unplaceable(log)
    if not log.tracks and not log.matrices:
        return (
            [Run({}, dict(log.facts), tuple(log.events), tuple(log.notes), log.source, log.kind)]
            if log.events or log.facts
            else []
        )
    _sort_if_needed(log)
    parts = _stretches(log)
    if len(parts) > MOST_RUNS:
        log.damage(f"{len(parts) - MOST_RUNS} of {len(parts)} runs in this file were skipped")
        parts = parts[-MOST_RUNS:]
    factor, unit = _scale(log)
    out = []
    for part in parts:
        run = _run(log, part, options, factor, unit)
        if run.signals:
            out.append(run)
    return _numbered(out)


def _numbered(runs: list[Run]) -> list[Run]:
    if len(runs) < 2:
        return runs
    return [
        replace(
            run,
            source=f"{run.source}#{i}",
            notes=(*run.notes, f"the file holds {len(runs)} runs one after another; this is number {i}"),
        )
        for i, run in enumerate(runs, 1)
    ]


def _drop_unplaceable(log: Log) -> None:
    """Leave out records whose place is no number or beyond what a step can be."""
    lost = 0
    for name, track in list(log.tracks.items()):
        fine = np.isfinite(track.x) & (np.abs(track.x) < 2.0**53)
        if not fine.all():
            lost += int((~fine).sum())
            log.tracks[name] = track.where(fine)
    log.tracks = {name: track for name, track in log.tracks.items() if len(track)}
    if lost:
        log.damage(f"{lost} records with an impossible step were skipped")


def _master(log: Log) -> tuple[Any, Floats]:
    """Rows and positions of the counter that tells runs apart."""
    if log.shared:
        rows = np.concatenate([t.rows for t in log.tracks.values()])
        x = np.concatenate([t.x for t in log.tracks.values()])
        unique, index = np.unique(rows, return_index=True)
        return unique, x[index]
    longest = max(log.tracks.values(), key=len)
    return longest.rows, longest.x


def _sort_if_needed(log: Log) -> None:
    if not log.tracks:
        return
    rows, x = _master(log)
    if not curves.unsorted(x):
        return
    log.notes.append("the records were not in the order of their steps (shuffled, or several writers); they were sorted")
    order = np.argsort(x, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    for name, track in log.tracks.items():
        if log.shared:
            place = rank[np.searchsorted(rows, track.rows)]
        else:
            place = np.argsort(np.argsort(track.x, kind="stable"), kind="stable")
        again = np.argsort(place, kind="stable")
        sorted_track = track.where(again)
        sorted_track.rows = place[again] if log.shared else np.sort(track.rows)
        log.tracks[name] = sorted_track


def _stretches(log: Log) -> list[Stretch]:
    if not log.tracks:
        return [Stretch(0, 1 << 62)]
    rows, x = _master(log)
    return curves.stretches(rows, x, 1 << 62)


def _scale(log: Log) -> tuple[float, str]:
    """By what positions are multiplied to become whole steps, and what a step then is."""
    if not log.tracks:
        return 1.0, log.unit
    x = np.concatenate([t.x for t in log.tracks.values()])
    if np.all(x == np.round(x)):
        return 1.0, log.unit
    if log.unit != "epoch":
        log.notes.append("the counter has fractions; steps are counted in thousandths of it")
        return 1000.0, log.unit
    log.notes.append("the axis is a fraction of an epoch; steps are counted in thousandths of an epoch")
    return 1000.0, "epoch/1000"


def _run(log: Log, part: Stretch, options: Options, factor: float, unit: str) -> Run:
    tracks = {name: _clipped(track, part, factor, log.shared) for name, track in log.tracks.items()}
    tracks = {name: track for name, track in tracks.items() if len(track)}
    columns = Columns(log, tracks, options)
    columns.work()
    signals = columns.signals()
    signals |= _clipping(signals, hparams.clip_limit(log.hparams))
    facts: dict[str, Any] = {**hparams.facts(log.hparams, unit), **columns.facts, **log.facts}
    facts["step_unit"] = unit
    if log.hparams:
        facts["hparams"] = hparams.redacted(log.hparams)
    first, last = _span(signals)
    events = [e for e in log.events if first <= e.step <= last or len(log.events) == 1]
    events += [_resume(seam, factor) for seam in part.seams]
    events += columns.events
    notes = [*log.notes, *columns.notes, *(_seam_note(seam, factor) for seam in part.seams)]
    return Run(signals, facts, tuple(sorted(events, key=lambda e: e.step)), tuple(dict.fromkeys(notes)), log.source, log.kind)


def _clipping(signals: Mapping[str, Any], limit: float | None) -> dict[str, Series]:
    """The norm before clipping and the limit, where a log holds the gradient norm and either a column or a setting the limit.

    Norms that pile up at the limit were taken after clipping and say nothing about those before.
    """
    norm = signals.get("grad_norm")
    column = next((s for n, s in signals.items() if n.startswith("metric/train/") and hparams.is_clip_limit(n)), None)
    bound = float(np.nanmedian(column.values)) if column is not None and len(column) else limit
    if norm is None or not bound or not bound > 0:
        return {}
    values = norm.values[np.isfinite(norm.values)]
    if len(values) and np.mean(np.abs(values - bound) < 0.01 * bound) > 0.1 and values.max() < 1.01 * bound:
        return {}
    return {"clip/norm": norm, "clip/threshold": Series(norm.steps, np.full(len(norm), bound), norm.times)}


def _span(signals: Mapping[str, Any]) -> tuple[float, float]:
    ends = [(s.steps[0], s.steps[-1]) for s in signals.values() if len(s)]
    return (min(a for a, _ in ends), max(b for _, b in ends)) if ends else (-np.inf, np.inf)


def _clipped(track: Track, part: Stretch, factor: float, shared: bool) -> Track:
    """The records of one run on one track, seams fixed, in order; several of one step are left to `columns`."""
    inside = track.where(slice(*np.searchsorted(track.rows, (part.start, part.stop))))
    if part.seams:
        inside = inside.where(curves.after_seams(inside.rows, inside.x, part.seams))
    if len(inside) > 1 and np.any(np.diff(inside.x) < 0):
        inside = inside.where(np.argsort(inside.x, kind="stable"))
    inside.x = np.round(inside.x * factor)
    return inside


def _resume(seam: Seam, factor: float) -> Event:
    step, before = round(seam.step * factor), round(seam.before * factor)
    return Event(step, "resume", {"previous_last_step": before, "steps_repeated": max(0, before - step + 1)})


def _seam_note(seam: Seam, factor: float) -> str:
    return (
        f"the steps go back from {round(seam.before * factor)} to {round(seam.step * factor)}: "
        "the run was resumed there, and the later records are believed"
    )
