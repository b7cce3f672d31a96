"""The diagnosis as one self-contained HTML file: works offline, from a mail and on paper; readable without scripts.

Verdict first, then the story with its evidence drawn, then vital signs, then everything that was recorded to explore.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
import time
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

import numpy as np

from traindx import __version__
from traindx.diagnosis import Diagnosis
from traindx.finding import Severity
from traindx.record import diary
from traindx.report import charts, narrative, vitals
from traindx.report.depth import depth_map
from traindx.report.explore import figures
from traindx.report.narrative import text
from traindx.report.preflight import looked_at
from traindx.report.stills import chapters
from traindx.report.words import ICON, read_as, safe
from traindx.run import Run

HERE = Path(__file__).parent


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """The page; several runs become sections with a table of contents on top."""
    body = "".join(_run(d, i) for i, d in enumerate(diagnoses))
    if len(diagnoses) > 1:
        body = _contents(diagnoses) + body
    title = f"{safe(diagnoses[0].verdict)}: {safe(diagnoses[0].run.source, 80)} · traindx"
    return page(title, f"<main>{body}{_foot()}</main>", figures(diagnoses[0].run))


def page(title: str, body: str, plots: Sequence[dict[str, object]] = ()) -> str:
    """A whole document with our style, a strict content policy and, when there are plots, the embedded chart library."""
    style = (HERE / "style.css").read_text(encoding="utf-8")
    scripts, hashes = _scripts(plots)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {hashes}"
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{escape(policy)}; base-uri 'none'; form-action 'none'\">"
        f'<meta name="referrer" content="no-referrer"><link rel="icon" href="data:,"><title>{escape(title)}</title><style>{style}</style></head>'
        f"<body>{body}{scripts}</body></html>"
    )


@cache
def _packed() -> str:
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


def _scripts(plots: Sequence[dict[str, object]]) -> tuple[str, str]:
    """The data and the library as inert blocks, and one small script that unpacks them; the policy names it by its hash."""
    loader = (HERE / "explore.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(loader.encode()).digest()).decode()
    blocks = ""
    if plots:
        data = json.dumps(plots, allow_nan=False).replace("<", "\\u003c")
        blocks = (
            f'<script type="application/json" id="traindx-figures">{data}</script>'
            f'<script type="text/plain" id="traindx-plotly">{_packed()}</script>'
        )
    return f"{blocks}<script>{loader}</script>", f"'sha256-{digest}' blob:"


def _contents(diagnoses: Sequence[Diagnosis]) -> str:
    rows = "".join(
        f'<tr><td><a href="#run{i}">{text(d.run.source, 80) or "run"}</a></td>'
        f"<td>{narrative.badge(d.verdict)}</td><td>{text(d.summary, 160)}</td></tr>"
        for i, d in enumerate(diagnoses)
    )
    return f'<h1>{len(diagnoses)} runs, worst first</h1><div class="scroll"><table>{rows}</table></div>'


def _run(d: Diagnosis, index: int) -> str:
    body = (
        f'<section id="run{index}">{narrative.head(d)}{narrative.causes(d)}{narrative.findings(d)}{depth_map(d)}'
        f"{narrative.ruled_out(d)}{_vitals(d)}{chapters(d)}{looked_at(d.run.fact('data.samples'))}{_interactive(d.run) if index == 0 else ''}"
        f"{narrative.not_looked(d)}{_about(d)}</section>"
    )
    return _anchored(body, f"run{index}-" if index else "")


_ANCHOR = re.compile(r'( id="|href="#)([A-Z]{4}[0-9]{3}")')


def _anchored(body: str, prefix: str) -> str:
    """Every place of a code once, under a name that no other run of the page has; what comes from a log holds no bare quote."""
    met: set[str] = set()

    def named(found: re.Match[str]) -> str:
        kind, name = found.groups()
        if kind == ' id="':
            if name in met:
                return ""
            met.add(name)
        return f"{kind}{prefix}{name}"

    return _ANCHOR.sub(named, body)


def _vitals(d: Diagnosis) -> str:
    """Now, healthy, warning, indicates; the sign in front says whether a finding speaks of it."""
    rows = "".join(
        f'<tr><td>{_sign(d, v.signal)}</td><th scope="row">{v.name}</th><td class="trend">{charts.sparkline_svg(v.series)}</td>'
        f"<td class=num><b>{text(v.now)}</b><br><span class='soft small'>{text(v.began)}</span></td><td data-is=healthy>{v.healthy}</td><td data-is=warning>{v.warning}</td><td data-is=indicates>{v.indicates}</td></tr>"
        for v in vitals.signs(d.run)
    )
    head = "<tr><th></th><th>sign</th><th>trend</th><th>now</th><th>healthy</th><th>warning</th><th>indicates</th></tr>"
    return f'<h2>Vital signs</h2><div class="scroll"><table class="vitals"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _sign(d: Diagnosis, signal: str) -> str:
    series = d.run.series(signal)
    if not len(series):
        return '<span class="soft" title="not recorded">–</span>'
    told = [
        f
        for f in d.findings
        if any(s == signal or s.startswith(f"{signal}/") for s in f.signals) and f.severity > Severity.INFO
    ]
    if told:
        worst = max(told, key=lambda f: f.severity)
        return f'<span class="icon {worst.severity.value}" title="{worst.code}">{ICON[worst.severity]}</span>'
    if not np.isfinite(series.last):
        return '<span class="icon critical" title="ends not finite">✖</span>'
    if d.worst is not None and d.worst > Severity.INFO:
        return '<span class="soft" title="no finding speaks of it">·</span>'
    return '<span class="icon good" title="no finding speaks of it">✔</span>'


def _interactive(run: Run) -> str:
    if not run.signals:
        return ""
    return (
        '<div class="interactive"><h2>Explore every signal</h2><p class="soft small needs-script">The still pictures above need no scripts; this part does.</p>'
        '<div id="traindx-explore"></div></div>'
    )


def _about(d: Diagnosis) -> str:
    facts = {k: v for k, v in d.run.facts.items() if k != "diary" if not isinstance(v, dict | list) or len(str(v)) < 300}
    rows = "".join(f"<tr><td class=mono>{text(k)}</td><td>{text(v, 300)}</td></tr>" for k, v in sorted(facts.items()))
    events = [e for e in d.run.events if e.kind not in ("mode", "epoch", "evaluation")][:60]
    happened = "".join(
        f"<tr><td class=num>{e.step}</td><td>{text(e.kind, 60)}</td><td>{text(_data(e.data), 300)}</td></tr>" for e in events
    )
    taken = read_as(d.run, 50)
    said = [*([f"Columns were read as: {taken}"] if taken else []), *d.run.notes]
    notes = "".join(f"<li>{text(n)}</li>" for n in said)
    return (
        f"{_diary(d.run)}<h2>About this run</h2>{f'<ul>{notes}</ul>' if notes else ''}"
        f"{f'<details><summary>{len(events)} events</summary><div class=scroll><table>{happened}</table></div></details>' if events else ''}"
        f"<details><summary>{len(facts)} facts</summary><div class=scroll><table>{rows}</table></div></details>"
    )


def _diary(run: Run) -> str:
    """What was tried, concluded and noted about the run so far."""
    rows = "".join(
        f'<li><span class="soft small">{time.strftime("%Y-%m-%d %H:%M", time.gmtime(e["time"]))} UTC</span> {text(diary.told(e), 600)}</li>'
        for e in run.fact("diary", [])
    )
    return f"<h2>Case diary</h2><ul>{rows}</ul>" if rows else ""


def _data(data: object) -> str:
    return ", ".join(f"{k}: {v}" for k, v in data.items()) if isinstance(data, dict) else str(data)


def _foot() -> str:
    return f'<footer class="soft small">Written by traindx {__version__}. Everything is in this file; it asks nothing of the network.</footer>'
