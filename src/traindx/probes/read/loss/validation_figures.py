"""What an evaluation comes to, in plain numbers: the worst samples, slices, calibration, figures next to those reported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from traindx.probes.read.loss import class_figures
from traindx.probes.read.loss.batch_sums import Score

MOST_WORDS = 50  # different values of a column that are slices of their own
_MEASURED = ("length", "brightness", "contrast")  # properties that we take ourselves


def worst(rows: Tensor) -> list[dict[str, Any]]:
    """The worst samples, worst first, as plain numbers."""
    out = []
    for loss, place, target, guess in rows.T.tolist():
        known = {"target": target, "predicted": guess} if target == target else {}
        whole = {k: int(v) if v == int(v) else float(f"{v:.6g}") for k, v in known.items() if math.isfinite(v)}
        out.append({"sample": int(place), "loss": float(f"{loss:.6g}")} | whole)
    return out


def table(score: Score) -> tuple[Tensor, Tensor] | None:
    if not score.logits or len({t.shape[1] for t in score.logits}) != 1:
        return None
    return torch.cat(score.logits), torch.cat(score.targets)


def calibrated(flat: list[float], marks: list[float], loss: float | None) -> dict[str, float]:
    targets = np.array(marks).astype(np.int64)
    logits = np.array(flat).reshape(len(targets), -1)
    logits, targets = logits[targets >= 0], targets[targets >= 0]
    if len(targets) < 100 or not np.isfinite(logits).all():
        return {}
    degree, gain = class_figures.temperature(logits, targets)
    return {"eval/temperature": degree} | ({"eval/nll_tempered": loss - gain} if loss is not None else {})


def probes(seen: list[tuple[int, Tensor]]) -> dict[str, Any]:
    """The first samples of the evaluations that began with the same ones: their targets, and what was predicted each time."""
    targets = seen[0][1][0]
    same = [(step, told[1]) for step, told in seen if torch.equal(told[0].cpu(), targets.cpu())]
    return {"targets": targets.tolist(), "steps": [s for s, _ in same], "predicted": [p.tolist() for _, p in same]}


def sliced(score: Score, words: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    names = set.intersection(*(set(t) for t in score.traits))
    each = torch.cat(score.each).double().cpu().numpy()
    groups = {n: torch.cat([t[n] for t in score.traits]).double().cpu().numpy() for n in sorted(names)}
    groups = {n: g for n, g in groups.items() if np.isfinite(g).all()}
    good = np.isfinite(each)
    named = {n: list(words[n]) for n in groups if n in words}
    for name in groups.keys() - named.keys() - set(_MEASURED):
        few, place = np.unique(groups[name], return_inverse=True)
        if len(few) <= MOST_WORDS and (few == np.round(few)).all():
            named[name], groups[name] = [f"{v:g}" for v in few], place.astype(np.float64)
    return class_figures.slices(each[good], {n: g[good] for n, g in groups.items()}, named)[:12]


class Told(NamedTuple):
    """What a script said of the right answers of one evaluation: counted, as a mean over batches, and in print."""

    number: int  # of the evaluation, from 0 on
    hits: tuple[float, int] | None  # right, of how many
    mean: float | None
    claimed: tuple[float, float] | None  # and half its last digit


class Counted(NamedTuple):
    """That, next to the sums of the same predictions."""

    said: Told
    sums: Mapping[str, Tensor]


Pair = tuple[float, float]  # reported, recomputed
Sums = Mapping[str, float]


def counted_oddly(seen: Iterable[Counted], least: int = 3) -> tuple[str, list[float]] | None:
    """How the script comes to other right answers than the predictions give, when one way explains every evaluation: "half", a
    threshold of .5 on logits; "padded", ignored positions that count; "so far", never reset; "of means", over batches of
    different sizes. And the last [reported, recomputed]."""
    rows = [(c.said, {k: float(v) for k, v in c.sums.items()}) for c in seen]
    ways = {
        "half": [_half(said, sums) for said, sums in rows],
        "padded": [_padded(said, sums) for said, sums in rows],
        "so far": _so_far(rows),
        "of means": [_printed(said, said.mean, sums) for said, sums in rows],
    }
    for how, pairs in ways.items():
        odd = [p for p in pairs if p is not None and abs(p[0] - p[1]) > 1e-9]
        if None not in pairs and len(odd) >= least:
            return how, list(odd[-1])
    return None


def _half(said: Told, sums: Sums) -> Pair | None:
    if said.hits is None or "half" not in sums or said.hits[1] != round(sums["rows"]):
        return None
    right, count = said.hits
    return (right / count, sums["hits"] / count) if abs(right - sums["half"]) < 0.5 else None


def _padded(said: Told, sums: Sums) -> Pair | None:
    if said.hits is None or not 0 < sums["rows"] < sums.get("places", 0.0) == said.hits[1]:
        return None
    return _printed(said, said.hits[0] / said.hits[1], sums)


def _so_far(rows: list[tuple[Told, dict[str, float]]]) -> list[Pair | None]:
    """Against the sums over this and all evaluations before, which must all have been seen."""
    if [said.number for said, _ in rows] != list(range(len(rows))):
        return [None]
    hits, count = (np.cumsum([sums[k] for _, sums in rows]) for k in ("hits", "rows"))
    return [_printed(said, h / n, sums) for (said, sums), h, n in zip(rows, hits, count, strict=True)]


def _printed(said: Told, value: float | None, sums: Sums, fine: float = 0.01) -> Pair | None:
    """What was printed, when it is this value; equal to what the predictions give where that may be meant as well."""
    if not sums["rows"] or (value is None and said.claimed is not None):
        return None
    right = sums["hits"] / sums["rows"]
    if value is None or said.claimed is None:
        return right, right  # nothing was said
    share, half = said.claimed
    half = max(half, 1e-6)
    if abs(share - value) > half:
        return None
    return (right, right) if half > fine or abs(share - right) <= half else (share, right)


def both(kind: str, reported: Any, score: Score, rows: int | None = None) -> list[float] | None:
    """[reported, recomputed]; `rows`: what was reported is about so many answers, and only comparable with as many."""
    sums = {k: float(v) for k, v in score.sums.items()}
    top, bottom = ("hits", "rows") if kind == "accuracy" else ("loss", "weight")
    if not sums.get(bottom) or (kind == "loss" and not score.own_loss) or rows not in (None, round(sums[bottom])):
        return None
    said = float(reported)
    if kind == "accuracy" and said > 1.5:
        said /= 100.0  # a percentage
    return [said, sums[top] / sums[bottom]]
