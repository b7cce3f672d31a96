"""TensorBoard event files: scalars, tensors of one number, histograms as moments, hyper-parameters; several files of one run.

Checksums of all records are verified. Pictures, sounds, graphs and texts are counted and left alone.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from traindx.errors import NothingReadable
from traindx.importers import aliases, hparams
from traindx.importers.events import Decoded
from traindx.importers.source import Source
from traindx.importers.table import Log, Options, Track, clean_name
from traindx.importers.tensors import Histogram
from traindx.importers.tfrecord import HEADER, Records, checksum

SHELL = 128  # bytes: an event file that was opened and never written to is shorter
_STAMP = re.compile(r"tfevents\.(\d{9,11})")


def can_read(source: Source) -> bool:
    """Whether the file is framed as event files are (its name may be anything), or at least is called one."""
    if len(source.head) >= 12:
        length, crc = HEADER.unpack_from(source.head, 0)
        if length < 1 << 40 and checksum(source.head[:8]) == crc:
            return True
    return "tfevents" in source.stem


def read(source: Source, options: Options) -> list[Log]:
    """The run of one event file."""
    source.refuse_known()
    return [read_many([source], source.name)]


def read_many(sources: list[Source], name: str, decoded: Decoded | None = None) -> Log:
    """One log of event files that belong together, in the order in which they were begun."""
    found = decoded or Decoded()
    log = Log("tensorboard", name, shared=False)
    for source in sorted(sources, key=_begun):
        _decode(source, found, log)
    _scalars(found, log)
    _histograms(found, log)
    log.hparams = _settings(found)
    if found.odd:
        log.damage(f"{found.odd} events that could not be understood were skipped")
    if found.lost:
        log.damage(f"{found.lost} points beyond the limits were skipped")
    if not log.tracks and not log.matrices:
        raise NothingReadable(f"{name}: {_nothing(found, sources)}")
    return log


def _begun(source: Source) -> tuple[int, str]:
    stamp = _STAMP.search(source.stem)
    return (int(stamp[1]) if stamp else 0, source.name)


def _decode(source: Source, found: Decoded, log: Log) -> None:
    with source.open() as file:
        records = Records(file, source.size)
        for chunk in records.chunks():
            found.add(chunk)
    if records.damaged:
        log.damage(
            f"{source.stem}: {records.damaged} damaged records, the first near byte {records.first_damage}, were skipped"
        )
    if records.cut:
        log.damage(f"{source.stem}: the last record is cut off and was skipped")
    if records.large:
        log.notes.append(f"{source.stem}: {records.large} records of more than 32 MB were stepped over unread")


def _nothing(found: Decoded, sources: list[Source]) -> str:
    size = sum(s.size for s in sources)
    if found.seen == 0 and size > SHELL:
        return f"not one whole record in {size} bytes: the file is cut off, damaged, or no event file"
    there = ", ".join(f"{n} {what}" for what, n in sorted(found.other.items()))
    there = there or (f"{len(found.texts)} texts" if found.texts else "nothing else")
    return (
        f"{size} bytes of events without a single scalar (there are {there}); an empty shell, or a run that logged no numbers"
    )


def _scalars(found: Decoded, log: Log) -> None:
    for tag, parts in found.scalars.items():
        rows, steps, times, values = (np.concatenate([p[i] for p in parts]) for i in range(4))
        if len(parts) > 1 and np.any(np.diff(rows) < 0):
            order = np.argsort(rows, kind="stable")
            rows, steps, times, values = rows[order], steps[order], times[order], values[order]
        name = clean_name(tag.decode("utf-8", "replace")) or "unnamed"
        while name in log.tracks:
            name += "_2"
        log.tracks[name] = Track(rows, steps.astype(np.float64), values, times)


def _settings(found: Decoded) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, text in found.texts.items():
        if text.lstrip().startswith("{"):
            out.update(hparams.from_json(text))
        elif name.endswith("text_summary") and "|" in text:
            out.update(_markdown(text))
    out.update(found.hparams)
    return out


def _markdown(text: str) -> dict[str, Any]:
    """Hyper-parameters in a Markdown table of two columns."""
    rows = re.findall(r"^\|\s*([\w./-]{1,60})\s*\|\s*([^|]{1,200}?)\s*\|\s*$", text, re.M)
    return {key: value for key, value in rows if not set(key) <= {"-", ":"}}


# -- histograms

_MOMENTS = ("mean", "std", "maxabs", "norm")


def _histograms(found: Decoded, log: Log) -> None:
    """Moments of histogram summaries as per-parameter tables, where the tag says what was counted."""
    used = 0
    for tag, entries in found.histograms.items():
        family, per, name = _family(tag)
        if not family:
            log.unused.append(tag)
            continue
        used += 1
        rows = np.array([e[0] for e in entries], np.int64)
        steps = np.array([float(e[1]) for e in entries])
        for moment, values in _moments([e[2] for e in entries]).items():
            signal = f"{family}_{moment}/{per}"
            if (family, moment) in (("act", "norm"),):
                signal = "act_rms/module"
            log.matrices.setdefault(signal, {})[name] = Track(rows, steps, values)
    if used:
        log.notes.append(
            f"{used} histograms of {len(found.histograms)} were taken for weights, gradients or activations by their tags"
        )


def _family(tag: str) -> tuple[str, str, str]:
    """What a histogram counts: (weight, grad or act), per what, and of which tensor."""
    have = set(aliases.words(tag))
    if have & {"grad", "grads", "gradient", "gradients"}:
        bare = re.sub(r"(?i)(^|[/_.])(grads?|gradients?)(?=$|[/_.])", "", tag).strip("/_.")
        return "grad", "param", bare or tag
    if have & {"activation", "activations", "act", "output", "outputs"}:
        return "act", "module", re.sub(r"(?i)(^|[/_.])(activations?|act|outputs?)(?=$|[/_.])", "", tag).strip("/_.") or tag
    if have & {"weight", "weights", "bias", "biases", "kernel", "param", "params", "parameters", "parameter"}:
        return "weight", "param", re.sub(r"(?i)^(weights?|params?|parameters?)[/_.](?=.)", "", tag)
    return "", "", ""


def _moments(found: list[Histogram]) -> dict[str, Any]:
    count = np.array([max(h.count, 1.0) for h in found])
    total, squares = np.array([h.total for h in found]), np.array([h.squares for h in found])
    with np.errstate(all="ignore"):
        mean = total / count
        spread = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    peak = np.array([max(abs(h.low), abs(h.high)) for h in found])
    norm = np.sqrt(np.maximum(squares, 0.0))
    return {"mean": mean, "std": spread, "maxabs": peak, "norm": norm}
