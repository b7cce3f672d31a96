"""What a table of many runs needs to know of one: plain values, so that a row can be kept and read again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from traindx import facts
from traindx.diagnosis import Diagnosis, gates
from traindx.diagnosis.posterior import RATE
from traindx.finding import Severity
from traindx.run import Run, Series
from traindx.settings import FAIL_ON

MEASURED = ("loss/", "accuracy/", "metric/", "time/step")  # signals that runs are ranked by
MOST_MEASURED = 200
VERDICTS = ("restart", "fix-and-resume", "fix-evaluation", "stop-keep-best", "cannot-tell", "wait", "healthy")  # worst first
_NOT_SETTING = re.compile(
    r"(^|[._-])(id|dir|path|host|date|time|logdir|tags?|notes?)$|^((run|exp|experiment)[._-]?)?name$|(^|\.)out(put)?$", re.I
)


@dataclass(frozen=True)
class Row:
    """One run of a sweep."""

    source: str
    kind: str
    label: str  # the name that its tracker gave it; empty without one
    settings: Mapping[str, Any]
    metrics: Mapping[str, tuple[float, float, bool | None]]  # signal → best, last, whether more is better
    columns: Mapping[str, str]  # the log's own names of signals
    verdict: str
    headline: str
    rank: tuple[int, int, int]  # worst first
    fails: tuple[str, ...]  # the values of --fail-on that it fails on
    signals: int
    running: bool = False
    unread: tuple[str, ...] = ()  # files of settings that could not be read


def row(d: Diagnosis) -> Row:
    """The row of a diagnosis."""
    run = d.run
    measured = {
        name: (gates.measured(run, name)[0], signal.last, gates.rises(run, name))
        for name, signal in list(run.signals.items())[:MOST_MEASURED]
        if isinstance(signal, Series) and name.startswith(MEASURED) and len(signal.finite())
    }
    return Row(
        run.source,
        run.kind,
        str(run.fact("name") or ""),
        settings_of(run),
        measured,
        {str(k): str(v) for k, v in facts.table(run, "columns").items() if v in measured},
        d.verdict,
        d.verdict_.headline or d.summary,
        rank(d),
        tuple(word for word in FAIL_ON if gates.exit_code([d], word)),
        len(run.signals),
        run.fact("ended") == "running",
        tuple(note for note in run.notes if note.startswith("the settings in ")),
    )


def rank(d: Diagnosis) -> tuple[int, int, int]:
    """A key that puts the worst first: its alarm, its verdict, its number of alarms."""
    worst = 2 - list(Severity).index(d.gravity or Severity.INFO)
    verdict = VERDICTS.index(d.verdict) if d.verdict in VERDICTS else 0
    return worst, verdict, -sum(f.severity.value != "info" for f in d.findings)


def settings_of(run: Run) -> dict[str, Any]:
    """The hyper-parameters of a run: those its log holds, the options of its command, its optimizer and first rate."""
    found: dict[str, Any] = dict(facts.table(run, "hparams"))
    argv = run.fact("argv")
    found.update(options(argv if isinstance(argv, Sequence) and not isinstance(argv, str) else ()))
    if isinstance(name := run.fact("optimizer.name"), str) and not any("opt" in k for k in found):
        found["optimizer"] = name
    rate = run.series("lr").finite().values
    if len(rate) and rate[0] == np.max(rate) and not any(RATE.search(k) for k in found):  # a warm-up cut short tells no rate
        found["lr"] = float(f"{rate[0]:.6g}")
    return {k: v for k, v in found.items() if not _NOT_SETTING.search(k) and isinstance(v, str | int | float | bool | None)}


def options(argv: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """`--lr 0.1`, `--lr=0.1`, `lr=0.1` and flags of a command line."""
    words = [str(w) for w in argv]
    for i, word in enumerate(words):
        key, eq, value = word.lstrip("-").partition("=")
        plain = key.replace(".", "").replace("-", "").replace("_", "")
        if not plain.isalnum() or (not eq and not word.startswith("-")) or key[0].isdigit():
            continue
        if not eq:
            after = words[i + 1] if i + 1 < len(words) else "-"
            value = "true" if after.startswith("-") and number(after) is None else after
        yield key.replace("-", "_"), value if (n := number(value)) is None else n


def number(value: Any) -> float | None:
    """A setting as a number, where it is one."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
