"""The diagnosis as a fragment of HTML for notebooks: no scripts, style scoped to itself."""

from __future__ import annotations

from pathlib import Path

from traindx.diagnosis import Diagnosis
from traindx.finding import Severity
from traindx.report import charts
from traindx.report.html import text
from traindx.report.words import ICON, span

STYLE = Path(__file__).with_name("style.css")


def fragment(d: Diagnosis) -> str:
    """Verdict, causes, findings and the loss curve; the style applies inside `.traindx` only."""
    style = STYLE.read_text(encoding="utf-8").replace(":root", ".traindx").replace("body {", ".traindx {")
    scoped = f"<style>@scope (.traindx) {{ {style.replace('.traindx', ':scope')} }}</style>"
    causes = "".join(
        f"<p><b>{text(c.cause.title)}</b> <span class=soft>{c.words}, {c.probability:.0%}</span><br>{text(c.prescription)}</p>"
        for c in d.causes[:2]
        if c.probability >= 0.2
    )
    rows = "".join(
        f"<tr><td class='icon {f.severity.value}'>{ICON[f.severity]}</td><td>{f.code}</td><td>{text(f.message)}</td><td>{span(f.steps)}</td></tr>"
        for f in d.findings[:10]
        if f.severity > Severity.INFO or len(d.findings) < 4
    )
    curve = charts.line_chart(
        [charts.trace("train", d.run.series("loss/train"), "a"), charts.trace("val", d.run.series("loss/val"), "b")],
        title="loss",
        height=180,
    )
    return (
        f'{scoped}<div class="traindx"><span class="badge {d.verdict}">{d.verdict.replace("-", " ")}</span> <b>{text(d.summary)}</b>'
        f"{curve}{causes}<table>{rows}</table></div>"
    )
