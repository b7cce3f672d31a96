"""The diagnosis as Markdown, for pull requests, job summaries and chats."""

from __future__ import annotations

import re
from collections.abc import Sequence

from traindx.diagnosis import Diagnosis
from traindx.diagnosis import gates as gates_
from traindx.finding import Severity
from traindx.report import issues, profile
from traindx.report.words import ICON, safe, span

_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|~@-])")


def escaped(text: object) -> str:
    """Text from a log as Markdown shows it literally: no links, no mentions, no HTML."""
    return _MARKS.sub(r"\\\1", safe(text))


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """One section per run."""
    return "\n\n".join(_one(d) for d in diagnoses)


def gates(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """A line for every requirement; of several runs one for each that failed, with its name."""
    return [f"- **{result}** {escaped(what)}: {escaped(told)}" for result, what, told in gates_.sentences(diagnoses)]


def _one(d: Diagnosis) -> str:
    lines = [
        f"## traindx: {d.verdict} · {escaped(d.run.source or 'run')}",
        "",
        f"**{escaped(d.verdict_.headline or d.summary)}**",
        "",
    ]
    lines += [*gates([d]), ""] if d.gates else []
    lines += [f"Known from the baseline: {', '.join(sorted(d.known))}", ""] if d.known else []
    wrong = issues.issues(d)
    for place, i in enumerate(wrong, 1):
        sure = f" ({i.sure})" if i.sure else ""
        lines.append(f"{place}. {escaped(i.title)}{sure}: {escaped(i.why)}. **Do:** {escaped(i.do)}")
        lines += [f"   To confirm: `{i.confirm.partition('   ')[0]}`"] if i.confirm else []
    if not wrong and d.verdict_.why:
        lines += [escaped(d.verdict_.why), ""]
    if until := issues.until_then(d):
        lines += ["", escaped(f"Until then: {until}" if wrong else until), ""]
    for c in [c for c in issues.others(d) if c.possible]:
        lines.append(f"- {issues.others_title(d)}: {escaped(c.cause.title)} ({c.said}): {escaped(c.prescription)}")
    shown = [f for f in d.findings if f.severity > Severity.INFO] or list(d.findings[:3])
    if shown:
        lines += ["", "| | code | what | where | steps |", "|---|---|---|---|---|"]
        for f in shown[:30]:
            where = ", ".join(escaped(w) for w in f.where[:3])
            lines.append(
                f"| {ICON[f.severity]} | {f.code} | {escaped(issues.shortened(f.message))} | {where} | {span(f.steps, d.run)} |"
            )
    if read := profile.sentences(d.run):
        lines += ["", escaped(" ".join(read))]
    lines += ["", issues.checked(d)]
    return "\n".join(lines)
