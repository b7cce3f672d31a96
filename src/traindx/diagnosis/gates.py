"""Gates: what a team requires of a run, in one line each, and how a run fares against its baseline.

    val_acc >= 0.93                     the best accuracy of validation
    last:loss/train < 0.1               the last value
    time/step <= 1.2 * baseline         the median, against that of the baseline runs

The grammar is NAME OP NUMBER [* baseline]. It is parsed; nothing is ever evaluated as code.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from traindx import facts
from traindx.course.metrics import SCALES
from traindx.diagnosis import Diagnosis
from traindx.diagnosis.gate import Gate
from traindx.errors import UsageError
from traindx.finding import Confidence, Severity
from traindx.run import Run, Series

EXAMPLES = "'val_acc >= 0.93', 'last:loss/train < 0.1' or 'time/step <= 1.2 * baseline'"
_GRAMMAR = re.compile(
    r"\s*(?P<last>last:)?\s*(?P<name>[^\s<>=*]+)\s*(?P<op>[<>]=?)\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)"
    r"\s*(?P<baseline>\*\s*baseline)?\s*",
    re.I,
)
_OPERATORS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_RISES = {word for names in SCALES for word in names.split()}
_SAME = {"acc": "accuracy", "eval": "val", "valid": "val", "validation": "val", "dev": "val", "training": "train"}
MOST_TOLD = 20  # requirements that failed, of several runs
_PARTS = ("val", "test", "other", "train")  # where a name says nothing of the part, the first of these that has it


@dataclass(frozen=True)
class Requirement:
    """One line of the grammar."""

    text: str
    name: str
    op: str
    number: float
    last: bool = False
    of_baseline: bool = False


def parse(text: str) -> Requirement:
    """A requirement, or an error that says how one is written.

    >>> parse("time/step <= 1.2 * baseline").of_baseline
    True
    """
    found = _GRAMMAR.fullmatch(text)
    if found is None:
        raise UsageError(f"cannot read the requirement {text!r}: write NAME OP NUMBER [* baseline], such as {EXAMPLES}")
    last, based = found["last"] is not None, found["baseline"] is not None
    return Requirement(" ".join(text.split()), found["name"], found["op"], float(found["number"]), last, based)


def needed(requirements: Iterable[Requirement], baselines: bool, new_only: bool) -> None:
    """Refuse a baseline that nothing uses, and what needs one where there is none."""
    wanting = next((r.text for r in requirements if r.of_baseline), "--new-only" if new_only else None)
    if wanting and not baselines:
        raise UsageError(f"'{wanting}' needs a baseline: --baseline PATH")
    if baselines and not wanting:
        raise UsageError(
            "--baseline is used by nothing: add --new-only, or a requirement such as 'time/step <= 1.2 * baseline'"
        )


def judged(diagnosis: Diagnosis, requirements: Sequence[Requirement], baselines: Sequence[Run] = ()) -> Diagnosis:
    """The diagnosis with the answer to every requirement."""
    return replace(diagnosis, gates=tuple(_gate(diagnosis.run, r, baselines) for r in requirements))


def against(diagnosis: Diagnosis, baselines: Sequence[Diagnosis]) -> Diagnosis:
    """The diagnosis with those codes marked as known that a baseline has too, at least as badly."""
    before: dict[str, Severity] = {}
    for f in (f for d in baselines for f in d.findings if f.confidence is not Confidence.SUGGESTIVE):
        before[f.code] = max(f.severity, before.get(f.code, f.severity))
    mine = {f.code: max(g.severity for g in diagnosis.findings if g.code == f.code) for f in diagnosis.findings}
    known = {code for code, severity in mine.items() if code in before and severity <= before[code]}
    if any(d.verdict == "restart" for d in baselines):
        known.add("restart")
    return replace(diagnosis, known=frozenset(known))


def find(run: Run, name: str) -> str | None:
    """The series a person means by a name."""
    return meant([n for n, s in run.signals.items() if isinstance(s, Series) and len(s)], facts.table(run, "columns"), name)


def meant(names: Sequence[str], columns: Mapping[str, Any], name: str) -> str | None:
    """Which of the names a person means: that very one, a column of the log, or the same words in another order."""
    if name in names:
        return name
    if columns.get(name) in names:
        return str(columns[name])
    wanted = _words(name)
    hits = [n for n in names if _words(n) - {"metric"} == wanted]
    if not hits and not wanted & set(_PARTS):
        hits = [n for part in _PARTS for n in names if _words(n) - {"metric"} == wanted | {part}]
    return hits[0] if hits else None


def _words(name: str) -> frozenset[str]:
    return frozenset(_SAME.get(w, w) for w in re.findall(r"[a-z]+\d*|\d+", name.lower()))


def rises(run: Run, signal: str) -> bool | None:
    """Whether more of this signal is better; None where nobody told."""
    told = facts.table(run, "metrics.direction").get(signal)
    if told in ("up", "down"):
        return bool(told == "up")
    words = _words(signal)
    if words & {"loss", "error", "perplexity", "ppl", "wer", "cer", "mse", "mae", "rmse"}:
        return False
    return True if words & _RISES or "accuracy" in words else None


def measured(run: Run, signal: str, *, last: bool = False, op: str = ">") -> tuple[float, str]:
    """The number that stands for a signal, and in words what it is: metrics by their best, everything else by its median."""
    series = run.series(signal)
    if last:
        return series.last, f"the last {signal}"
    finite = series.finite()
    if not len(finite):
        return math.nan, signal
    if not signal.startswith(("loss/", "accuracy/", "metric/")):
        return float(np.median(finite.values)), f"the median {signal}"
    up = rises(run, signal)
    up = op.startswith(">") if up is None else up
    at = int(np.argmax(finite.values) if up else np.argmin(finite.values))
    return float(finite.values[at]), f"the best {signal} (step {int(finite.steps[at])})"


def _gate(run: Run, r: Requirement, baselines: Sequence[Run]) -> Gate:
    signal = find(run, r.name)
    if signal is None:
        there = [n for n, s in run.signals.items() if isinstance(s, Series) and n.startswith(("loss/", "accuracy/", "metric/"))]
        told = f"; there are {', '.join(sorted(there)[:8])}" if there else ""
        return Gate(r.text, "cannot-tell", f"'{r.name}' was not recorded{told}")
    value, what = measured(run, signal, last=r.last, op=r.op)
    limit, limited = r.number, ""
    if r.of_baseline:
        before = [measured(b, n, last=r.last, op=r.op)[0] for b in baselines if (n := find(b, r.name))]
        if len(before) < len(baselines) or not np.isfinite(before).all():
            return Gate(r.text, "cannot-tell", f"a baseline has no number for '{r.name}'", signal)
        limit = r.number * float(np.median(before))
        band = f", {min(before):.4g} to {max(before):.4g} in {len(before)} runs" if len(before) > 1 else ""
        limited = f" ({r.number:g} × {float(np.median(before)):.4g}{band})"
    elif told := _other_unit(run, signal, value, limit):
        return Gate(r.text, "cannot-tell", f"{what} is {told}", signal, value, limit)
    if math.isnan(value):
        return Gate(r.text, "failed", f"{what} is not a number", signal, value, limit)
    if _OPERATORS[r.op](value, limit):
        return Gate(r.text, "passed", f"{what} is {value:.4g}", signal, value, limit)
    gap = f"{abs(value - limit):.3g} too {'low' if r.op.startswith('>') else 'high'}"
    return Gate(r.text, "failed", f"{what} is {value:.4g}, {gap}; the limit is {limit:.4g}{limited}", signal, value, limit)


def _other_unit(run: Run, signal: str, value: float, limit: float) -> str:
    """That one of two numbers is a percentage and the other a share; nothing where both are the same."""
    if not _words(signal) & (_RISES | {"accuracy"}):
        return ""
    if 0 < limit <= 1 < 1.5 < value:
        return f"{value:.4g}, a percentage, and {limit:g} is a share: write {limit * 100:g}"
    recorded = run.series(signal).finite().values
    if 1.5 < limit <= 100 and len(recorded) and recorded.min() >= 0 and recorded.max() <= 1:
        return f"{value:.4g}, a share, and {limit:g} is a percentage: write {limit / 100:g}"
    return ""


def sentences(diagnoses: Sequence[Diagnosis]) -> Iterator[tuple[str, str, str]]:
    """Result, requirement and what was measured. Of several runs those that pass are counted, of the others the first told."""
    every = [(d.run.source, g) for d in diagnoses for g in d.gates]
    if len(diagnoses) == 1:
        yield from ((g.result, g.requirement, g.message) for _, g in every)
        return
    for result in ("failed", "cannot-tell"):
        these = [(source, g) for source, g in every if g.result == result]
        yield from ((result, f"{g.requirement} of {source}", g.message) for source, g in these[:MOST_TOLD])
        if len(these) > MOST_TOLD:
            yield result, f"{len(these) - MOST_TOLD} more", "--format json holds all"
    for requirement, count in Counter(g.requirement for _, g in every if g.result == "passed").items():
        yield "passed", requirement, f"{count} of {len(diagnoses)} runs"


def exit_code(diagnoses: Sequence[Diagnosis], fail_on: str | None) -> int:
    """1 when a gate failed or a run is as grave as `fail_on`; 4 when a requirement could not be evaluated."""
    results = {g.result for d in diagnoses for g in d.gates}
    if "failed" in results or any(_trips(d, fail_on) for d in diagnoses):
        return 1
    return 4 if "cannot-tell" in results else 0


def _trips(d: Diagnosis, fail_on: str | None) -> bool:
    if fail_on in (None, "never"):
        return False
    if d.verdict == "restart" and "restart" not in d.known:
        return True  # to continue with it wastes the run, however mild its findings
    if fail_on != "restart" and d.crashed:
        return True
    return fail_on != "restart" and any(
        f.severity >= Severity(fail_on) for f in d.fresh if f.confidence is not Confidence.SUGGESTIVE
    )
