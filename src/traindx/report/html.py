"""The diagnosis as one self-contained HTML file: works offline, from a mail and on paper; readable without scripts.

Verdict first, then the story with its evidence drawn, then vital signs, then everything that was recorded to explore.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from traindx import __version__
from traindx.diagnosis import Diagnosis, Suspect
from traindx.diagnosis.story import Story
from traindx.diagnosis.trees import State, presenting, walk
from traindx.finding import Finding, Severity, Status
from traindx.report import charts, vitals
from traindx.report.explore import figures
from traindx.report.words import ICON, number, safe, span
from traindx.run import Matrix, Run, Series

HERE = Path(__file__).parent
MOST_EVIDENCE = 3  # pictures per finding


def text(value: object, most: int = 2000) -> str:
    """Anything from a log, as text in a page."""
    return escape(safe(value, most))


def render(diagnoses: Sequence[Diagnosis]) -> str:
    """The page; several runs become sections with a table of contents on top."""
    body = "".join(_run(d, i) for i, d in enumerate(diagnoses))
    if len(diagnoses) > 1:
        body = _contents(diagnoses) + body
    return page(f"traindx: {safe(diagnoses[0].verdict)}", f"<main>{body}{_foot()}</main>", figures(diagnoses[0].run))


def page(title: str, body: str, plots: Sequence[dict[str, object]] = ()) -> str:
    """A whole document with our style, a strict content policy and, when there are plots, the embedded chart library."""
    style = (HERE / "style.css").read_text(encoding="utf-8")
    scripts, hashes = _scripts(plots) if plots else ("", "")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {hashes or chr(39) + 'none' + chr(39)}"
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{escape(policy)}; base-uri 'none'; form-action 'none'\">"
        f'<meta name="referrer" content="no-referrer"><title>{escape(title)}</title><style>{style}</style></head>'
        f"<body>{body}{scripts}</body></html>"
    )


def _scripts(plots: Sequence[dict[str, object]]) -> tuple[str, str]:
    """The data and the library as inert blocks, and one small script that unpacks them; the policy names it by its hash."""
    from plotly.offline import get_plotlyjs

    loader = (HERE / "explore.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(loader.encode()).digest()).decode()
    packed = base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()
    data = json.dumps(plots, allow_nan=False).replace("<", "\\u003c")
    blocks = (
        f'<script type="application/json" id="traindx-figures">{data}</script>'
        f'<script type="text/plain" id="traindx-plotly">{packed}</script>'
        f"<script>{loader}</script>"
    )
    return blocks, f"'sha256-{digest}' blob:"


def _contents(diagnoses: Sequence[Diagnosis]) -> str:
    rows = "".join(
        f'<tr><td><a href="#run{i}">{text(d.run.source, 80) or "run"}</a></td>'
        f'<td><span class="badge {d.verdict}">{d.verdict}</span></td><td>{text(d.summary, 160)}</td></tr>'
        for i, d in enumerate(diagnoses)
    )
    return f'<h1>{len(diagnoses)} runs</h1><div class="scroll"><table>{rows}</table></div>'


def _run(d: Diagnosis, index: int) -> str:
    return (
        f'<section id="run{index}">{_head(d)}{_causes(d)}{_stories(d)}{_ruled_out(d)}{_vitals(d)}'
        f"{_pictures(d.run)}{_interactive(d.run) if index == 0 else ''}{_not_looked(d)}{_about(d)}</section>"
    )


def _head(d: Diagnosis) -> str:
    v = d.verdict_
    meta = [d.run.kind, span(d.run.steps), f"{len(d.run.signals)} signals", text(d.run.source, 120)]
    more = ""
    if v.resume_from is not None:
        more += f"<p>Resume from step <b>{v.resume_from}</b> or the last checkpoint before it.</p>"
    if v.forecast and "forecast" in v.forecast:
        f = v.forecast
        at = f" at step {f['at_step']}" if "at_step" in f else ""
        more += (
            f"<p>Forecast{at}: <b>{number(float(f['forecast']))}</b> "
            f"({number(float(f.get('lo', 'nan')))}–{number(float(f.get('hi', 'nan')))}), at the present learning rate.</p>"
        )
    if v.needs:
        more += f"<p>Needs {text('; '.join(v.needs))}.</p>"
    if v.would_change:
        more += f'<p class="soft small">What would change our mind: {text(v.would_change)}.</p>'
    return (
        f'<header><span class="badge {d.verdict}">{d.verdict.replace("-", " ")}</span><h1>{text(d.summary)}</h1>'
        f'<div class="meta">{"".join(f"<span>{m}</span>" for m in meta if m)}</div>{more}</header>{_main_curve(d)}'
    )


def _main_curve(d: Diagnosis) -> str:
    run = d.run
    traces = [charts.trace("train", run.series("loss/train"), "a"), charts.trace("val", run.series("loss/val"), "b")]
    root = d.stories[0].root if d.stories else None
    shade = root.steps if root and root.severity > Severity.INFO else None
    return charts.line_chart(traces, title="loss", shade=shade, height=260)


def _causes(d: Diagnosis) -> str:
    shown = [c for c in d.causes if c.probability >= 0.1][:4]
    if not shown:
        return ""
    return "<h2>Likely cause</h2>" + "".join(_cause(c, d) for c in shown)


def _cause(c: Suspect, d: Diagnosis) -> str:
    said = {f.code: f for f in reversed(d.findings)}
    evidence = "".join(f"<li><b>{code}</b> {text(said[code].message)}</li>" for code in c.supports if code in said)
    against = "".join(
        f"<li><b>{code}</b> {text(said[code].message) if code in said else 'expected, and not there'}</li>"
        for code in c.against
    )
    never = "".join(f"<p class='soft'>Not yet: {text(n)}</p>" for n in c.cause.not_yet)
    settle = (
        f"<p class='soft'>Settle it: <code>traindx trial {text(c.cause.settle)} TARGET</code></p>" if c.cause.settle else ""
    )
    return (
        f'<div class="card"><h3>{text(c.cause.title)}</h3><div class="soft small">{c.words}, {c.probability:.0%}</div>'
        f'<div class="meter"><i style="width:{c.probability:.0%}"></i></div><div class="do"><b>Do</b> {text(c.prescription)}</div>'
        f"<ul>{evidence}</ul>{'<p>Against it:</p><ul>' + against + '</ul>' if against else ''}{never}{settle}</div>"
    )


def _stories(d: Diagnosis) -> str:
    if not d.stories:
        return ""
    return "<h2>Findings</h2>" + "".join(_story(s, d.run) for s in d.stories[:12])


def _story(s: Story, run: Run) -> str:
    f = s.root
    more = f"<p class='soft'>and {len(s.more)} more of the same</p>" if s.more else ""
    folded = "".join(f"<li><b>{c.code}</b> {escape(c.name)}: {text(c.message)}</li>" for c in s.consequences)
    return (
        f'<div class="card {f.severity.value}"><h3><span class="icon {f.severity.value}">{ICON[f.severity]}</span> '
        f'{f.code} {escape(f.name)} <span class="badge {f.severity.value}">{f.severity.value}</span></h3>'
        f'<p>{text(f.message)}</p><div class="meta"><span>{f.confidence.value}</span><span>{span(f.steps)}</span>'
        f"<span>{text(', '.join(f.where[:5]), 200)}</span></div>"
        f"{_evidence(f, run)}{f'<div class=do><b>Do</b> {text(f.fix)}</div>' if f.fix else ''}{more}"
        f"{f'<details><summary>explains {len(s.consequences)} more</summary><ul>{folded}</ul></details>' if folded else ''}</div>"
    )


def _evidence(f: Finding, run: Run) -> str:
    """The finding's own signals, its steps marked, the layer it names drawn among the others."""
    out = []
    for name in f.signals:
        signal = run.signals.get(name)
        if signal is None or len(signal) < 2:
            continue
        band = vitals.BANDS.get(name)
        if isinstance(signal, Series):
            out.append(charts.line_chart([charts.trace(name, signal)], title=name, shade=f.steps, band=band, height=180))
        else:
            out.append(_layers(name, signal, f, band))
        if len(out) >= MOST_EVIDENCE:
            break
    return "".join(out)


def _layers(name: str, matrix: Matrix, f: Finding, band: tuple[float, float] | None) -> str:
    named = [w for w in f.where if w in matrix.names][:3]
    if not named:
        return charts.heat_map(matrix, title=name, rows=24)
    traces = [charts.trace(w, matrix.column(w), kind) for w, kind in zip(named, "abc", strict=False)]
    return charts.line_chart(traces, title=name, shade=f.steps, band=band, height=190)


def _ruled_out(d: Diagnosis) -> str:
    tree = presenting(d.run, d.outcomes)
    if tree is None:
        return ""
    marks = {State.CONFIRMED: "✔", State.LIKELY: "?", State.OPEN: "…", State.REFUTED: "✘"}
    rows = "".join(
        f"<tr><td>{marks[w.state]} {w.state.value}</td><td>{text(w.branch.hypothesis)}</td><td>{text(w.why, 240)}</td>"
        f"<td>{f'<code>{text(w.branch.trial)}</code>' if w.branch.trial else ''}</td></tr>"
        for w in walk(tree, d.run, d.outcomes)
    )
    return (
        f"<h2>What was considered: {text(tree.complaint)}</h2>"
        f'<div class="scroll"><table><tr><th></th><th>hypothesis</th><th>what speaks</th><th>test</th></tr>{rows}</table></div>'
    )


def _vitals(d: Diagnosis) -> str:
    rows = "".join(
        f"<tr><td>{v.name}</td><td class=num>{charts.sparkline_svg(v.series)} {text(v.now)}</td><td>{text(v.healthy)}</td>"
        f"<td>{text(v.warning)}</td><td>{text(v.indicates)}</td></tr>"
        for v in vitals.signs(d.run)
    )
    if not rows:
        return ""
    head = "<tr><th>sign</th><th>now</th><th>healthy</th><th>warning</th><th>indicates</th></tr>"
    return f'<h2>Vital signs</h2><div class="scroll"><table>{head}{rows}</table></div>'


def _pictures(run: Run) -> str:
    """The still pictures everybody expects; they work without scripts."""
    parts = list(_stills(run))
    return "<h2>What was measured</h2>" + "".join(parts) if parts else ""


def _stills(run: Run) -> Iterator[str]:
    if len(run.series("lr")) > 1:
        yield charts.line_chart([charts.trace("lr", run.series("lr"))], title="learning rate", height=150)
    if len(run.series("grad_norm")) > 1:
        yield charts.line_chart([charts.trace("grad_norm", run.series("grad_norm"))], title="gradient norm", height=170)
    for name, title in (
        ("grad_norm/param", "gradient flow: norm by parameter over steps"),
        ("update_ratio/param", "update size relative to the weights, by parameter"),
        ("dead_fraction/module", "dead units by layer"),
        ("act_rms/module", "activation scale by layer"),
    ):
        matrix = run.matrix(name)
        if len(matrix) and matrix.names:
            yield charts.heat_map(matrix, title=title, log=name != "dead_fraction/module")
    shares = vitals.time_shares(run)
    if shares:
        yield charts.bars(list(shares), list(shares.values()), title="where a step's time goes", share=True)
    confusion = run.fact("eval.confusion")
    if confusion:
        yield _confusion(confusion)


def _confusion(table: Sequence[Sequence[float]]) -> str:
    if len(table) > 20:
        return ""
    head = "".join(f"<th class=num>{j}</th>" for j in range(len(table)))
    rows = "".join(
        f"<tr><th>{i}</th>{''.join(f'<td class=num>{int(n)}</td>' for n in row)}</tr>" for i, row in enumerate(table)
    )
    return f'<h3>Confusion of the last evaluation (rows: target)</h3><div class="scroll"><table><tr><th></th>{head}</tr>{rows}</table></div>'


def _interactive(run: Run) -> str:
    if not run.signals:
        return ""
    return (
        '<div class="interactive"><h2>Explore every signal</h2><p class="soft small">Drag to zoom, double-click to go back.</p>'
        '<div id="traindx-explore"></div></div>'
    )


def _not_looked(d: Diagnosis) -> str:
    parts = []
    for status, title in (
        (Status.UNSURE, "Looked, and could not decide"),
        (Status.BLIND, "Could not look (blind)"),
        (Status.MUTED, "Does not apply"),
        (Status.BROKEN, "Broken: our fault, please report"),
    ):
        rows = "".join(f"<tr><td>{o.code}</td><td>{text(o.reason, 300)}</td></tr>" for o in d.with_status(status))
        if rows:
            parts.append(f"<details><summary>{title}: {len(d.with_status(status))}</summary><table>{rows}</table></details>")
    clear = ", ".join(o.code for o in d.with_status(Status.CLEAR))
    parts.append(f"<details><summary>Clear: {len(d.with_status(Status.CLEAR))}</summary><p>{clear}</p></details>")
    return "<h2>What was and was not looked at</h2>" + "".join(parts)


def _about(d: Diagnosis) -> str:
    facts = {k: v for k, v in d.run.facts.items() if not isinstance(v, dict | list) or len(str(v)) < 300}
    rows = "".join(f"<tr><td class=mono>{text(k)}</td><td>{text(v, 300)}</td></tr>" for k, v in sorted(facts.items()))
    notes = "".join(f"<li>{text(n)}</li>" for n in d.run.notes)
    return (
        f"<h2>About this run</h2>{f'<ul>{notes}</ul>' if notes else ''}"
        f"<details><summary>{len(facts)} facts</summary><div class=scroll><table>{rows}</table></div></details>"
    )


def _foot() -> str:
    return f'<p class="soft small">Written by traindx {__version__}. Everything is in this file; it asks nothing of the network.</p>'
