"""The diagnosis as Markdown, for pull requests, job summaries and chats."""

from __future__ import annotations

import re
from collections.abc import Sequence

from traindx.diagnosis import Diagnosis
from traindx.finding import Severity, Status
from traindx.report import profile
from traindx.report.words import ICON, safe, span

_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~@-])")


def escaped(text: object) -> str:
    """Text from a log as Markdown shows it literally: no links, no mentions, no HTML."""
    return _MARKS.sub(r"\\\1", safe(text)).replace("\n", " ")


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """One section per run."""
    return "\n\n".join(_one(d) for d in diagnoses)


def _one(d: Diagnosis) -> str:
    lines = [f"## traindx: {d.verdict} · {escaped(d.run.source or 'run')}", "", f"**{escaped(d.summary)}**", ""]
    told = [
        f"Apart from that: {d.verdict_.besides}" if d.verdict_.besides else "",
        d.verdict_.start,
        f"Waiting: {d.verdict_.waiting}." if d.verdict_.waiting else "",
    ]
    if any(told):
        lines += [escaped(" ".join(filter(None, told))), ""]
    for c in d.likely[:3]:
        lines.append(f"- {escaped(c.cause.title)} ({c.said}): {escaped(c.prescription)}")
    shown = [f for f in d.findings if f.severity > Severity.INFO] or list(d.findings[:3])
    if shown:
        lines += ["", "| | code | what | where | steps |", "|---|---|---|---|---|"]
        for f in shown[:30]:
            where = ", ".join(escaped(w) for w in f.where[:3])
            lines.append(f"| {ICON[f.severity]} | {f.code} | {escaped(f.message)} | {where} | {span(f.steps)} |")
    if read := profile.sentences(d.run):
        lines += ["", escaped(" ".join(read))]
    counts = {s: len(d.with_status(s)) for s in (Status.CLEAR, Status.UNSURE, Status.BLIND)}
    lines += ["", f"{counts[Status.CLEAR]} clear, {counts[Status.UNSURE]} unsure, {counts[Status.BLIND]} blind"]
    return "\n".join(lines)
