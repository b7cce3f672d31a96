"""The page of a run in HTML: the headline, what to do, the causes, the evidence drawn, what was ruled out and what was checked."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from traindx.cause import settling
from traindx.diagnosis import Diagnosis, Suspect
from traindx.diagnosis.story import Story
from traindx.diagnosis.trees import State, Walked, presenting, walk
from traindx.finding import Finding, Severity, Status
from traindx.report import charts, issues, maps, vitals
from traindx.report.words import ICON, number, safe, span
from traindx.run import Matrix, Run, Series

MOST_EVIDENCE = 2  # pictures per finding
MOST_CONSEQUENCES = 2  # pictures for what a root explains
SIGN = {
    "healthy": "✔",
    "wait": "✔",
    "stop-keep-best": "■",
    "fix-and-resume": "▲",
    "fix-evaluation": "▲",
    "restart": "✖",
    "cannot-tell": "?",
}


def text(value: object, most: int = 2000) -> str:
    """Anything from a log, as text in a page."""
    return escape(safe(value, most, lines=True))


def code(said: str, most: int = 2000) -> str:
    """Text in which `back-ticked` words are set as code."""
    parts = text(said, most).split("`")
    return "".join(f"<code>{p}</code>" if i % 2 and i < len(parts) - 1 else p for i, p in enumerate(parts))


def badge(verdict: str) -> str:
    """The verdict as a word with its sign: never colour alone."""
    return f'<span class="badge {escape(verdict)}"><span aria-hidden="true">{SIGN.get(verdict, "")}</span> {escape(verdict.replace("-", " "))}</span>'


def head(d: Diagnosis) -> str:
    """The headline; then why, what to do, and the loss curve."""
    v = d.verdict_
    meta = [
        text(d.run.source, 120),
        text(d.run.kind, 40) if d.run.kind != "memory" else "",
        span(d.run.steps, d.run),
        _model(d.run),
        f"{len(d.run.signals)} signals",
    ]
    wrong = issues.issues(d)
    if len(wrong) == 1:
        body = issue(wrong[0])
    elif wrong:
        body = f"<ol class='issues'>{''.join(f'<li><h3>{code(i.title)}</h3>{issue(i)}</li>' for i in wrong)}</ol>"
    else:
        body = f"<p>{code(v.why)}</p>{do(issues.hint(d))}" if v.why else ""
    rest = [
        (f"{'Until then' if wrong else 'Next'}: {issues.until_then(d)}") if issues.until_then(d) else "",
        f"{'To confirm' if v.needs and v.needs[0].startswith('`') else 'Needs'}: {'; '.join(v.needs)}" if v.needs else "",
        issues.learned(d),
    ]
    body += "".join(f"<p>{code(r)}</p>" for r in rest if r)
    return (
        f'<header class="verdict {d.verdict}">{badge(d.verdict)}<h1>{code(v.headline or v.summary)}</h1>'
        f'<div class="meta">{"".join(f"<span>{m}</span>" for m in meta if m)}</div>{body}</header>{main_curve(d)}'
    )


def issue(i: issues.Issue) -> str:
    """Why, what to do and where, and the command that would confirm it."""
    sure = f' <span class="soft small">{i.sure}</span>' if i.sure else ""
    at = f'<p class="small"><span class="soft">At</span> <code>{text(i.at, 240)}</code></p>' if i.at else ""
    check = f'<p class="small"><span class="soft">To confirm:</span> <code class="copy">{text(i.confirm)}</code></p>'
    return f"<p>{code(i.why[:1].upper() + i.why[1:])}.{sure}</p>{do(i.do)}{at}{_not_yet(i.not_yet)}{check if i.confirm else ''}"


def _model(run: Run) -> str:
    made = [str(run.fact("model.class") or "")]
    params = run.fact("model.params")
    if isinstance(params, int | float) and params > 0:
        made.append(f"{params:,.0f} parameters")
    if run.fact("optimizer.name"):
        made.append(str(run.fact("optimizer.name")))
    return text(", ".join(m for m in made if m), 120)


def do(said: str, label: str = "Do") -> str:
    """A prescription: one click selects it, and with scripts a button copies it."""
    return f'<div class="do"><b>{escape(label)}</b><span class="copy">{code(said)}</span></div>' if said else ""


def main_curve(d: Diagnosis, height: int = 280) -> str:
    """Training and validation loss with the root finding's steps marked, and the forecast where there is one."""
    run = d.run
    train, val = run.series("loss/train"), run.series("loss/val")
    if not len(train) and not len(val):
        return ""
    traces = [charts.trace("training", train, "a"), charts.trace("validation", val, "b")]
    root = d.stories[0].root if d.stories else None
    loud = root is not None and root.severity > Severity.INFO and root.steps is not None
    shade = _lasting(root, run) if loud and root else None
    fan, note = _fan(d), ""
    if fan is not None and d.verdict_.forecast:
        of = "validation" if "validation" in str(d.verdict_.forecast.get("what", "")) else "training"
        traces = sorted(traces, key=lambda t: t.name != of)
        note = f"forecast of the {of} loss at the present learning rate"
    best = val.finite()
    mark = None
    if len(best) > 3:
        at = int(best.values.argmin())
        mark = (int(best.steps[at]), f"best validation {number(float(best.values[at]))}")
    name = f"{root.code} {span(shade, d.run)}" if shade and root else ""
    return charts.line_chart(
        traces,
        title="Loss",
        shade=shade,
        shade_name=name,
        shade_kind=root.severity.value if root else "critical",
        height=height,
        fan=fan,
        mark=mark,
        note=note,
    )


def _lasting(f: Finding, run: Run) -> tuple[int, int] | None:
    """The steps of a finding; one that holds at the last record of its signals holds to the end of the run."""
    if f.steps is None or run.steps is None:
        return f.steps
    last = max((int(s.steps[-1]) for n in f.signals if (s := run.signals.get(n)) is not None and len(s)), default=f.steps[1])
    return (f.steps[0], run.steps[1]) if f.steps[1] >= last else f.steps


def _fan(d: Diagnosis) -> charts.Fan | None:
    ahead = d.verdict_.forecast or {}
    try:
        return charts.Fan(int(ahead["at_step"]), float(ahead["lo"]), float(ahead["forecast"]), float(ahead["hi"]))
    except (KeyError, TypeError, ValueError):
        return None


def causes(d: Diagnosis) -> str:
    """The causes that were weighed, with the evidence for and against each."""
    shown = [c for c in d.causes if c.probability >= issues.LEAST][:4]
    if not shown:
        return ""
    title = "Causes considered" if d.alarmed else issues.others_title(d)
    return f"<h2>{title}</h2>" + "".join(_cause(c, d) for c in shown)


def _cause(c: Suspect, d: Diagnosis) -> str:
    said = {f.code: f for f in reversed(d.findings)}
    name = c.cause.title[:1].upper() + c.cause.title[1:]
    told = {i.do for i in issues.issues(d)}
    check = issues.confirm(d, c)
    test = (
        f'<p class="small"><span class="soft">To confirm:</span> <code class="copy">{text(check)}</code></p>' if check else ""
    )
    return (
        f'<article class="card cause"><div class="row"><h3>{text(name)}</h3><span class="soft small">{c.said}</span></div>'
        f"{_meter(c)}{do(c.prescription) if c.possible and c.prescription not in told else ''}"
        f"{_speaking('Evidence for it', c.supports, said)}{_speaking('Evidence against it', c.against, said)}"
        f"{_not_yet(c.cause.not_yet)}{test}</article>"
    )


def _meter(c: Suspect) -> str:
    """The probability as a bar, where the number may be believed."""
    return f'<div class="meter" role="presentation"><i style="width:{c.probability:.0%}"></i></div>' if c.earned else ""


def _speaking(title: str, codes: Sequence[str], said: dict[str, Finding]) -> str:
    if not codes:
        return ""
    rows = "".join(
        f'<li><a href="#{c}"><b>{c}</b></a> {code(said[c].message)}</li>'
        if c in said
        else f"<li><b>{text(c, 20)}</b> was expected and is absent</li>"
        for c in codes[:6]
    )
    return f'<div class="speaks"><h4>{title}</h4><ul>{rows}</ul></div>'


def _not_yet(warnings: Sequence[str]) -> str:
    return (
        f'<div class="speaks"><h4>Note</h4><ul>{"".join(f"<li>{code(w)}</li>" for w in warnings)}</ul></div>'
        if warnings
        else ""
    )


def findings(d: Diagnosis) -> str:
    """Every story: the root with its evidence drawn, what it explains folded below."""
    if not d.stories:
        return ""
    loud = [s for s in d.stories if s.severity > Severity.INFO]
    quiet = [s for s in d.stories if s.severity is Severity.INFO]
    told = {c for i in issues.issues(d) for c in i.supports}  # what to do about them stands at the top
    out = f"<h2>Evidence</h2>{''.join(_story(s, d.run, advise=s.root.code not in told) for s in loud[:12])}"
    if not loud:
        return f"<h2>{issues.remarks_title(d)}</h2>{''.join(_story(s, d.run, advise=False) for s in quiet[:8])}"
    if quiet:
        inner = "".join(_story(s, d.run, advise=False) for s in quiet[:12])
        out += f"<details><summary>{issues.remarks_title(d)} ({len(quiet)})</summary>{inner}</details>"
    return out


def _story(s: Story, run: Run, *, advise: bool = True) -> str:
    f = s.root
    more = ""
    if s.more:
        rows = "".join(f"<li>{code(m.message)}</li>" for m in s.more[:20])
        more = f"<details><summary>and {len(s.more)} more of the same</summary><ul>{rows}</ul></details>"
    folded = "".join(
        f'<li id="{c.code}"><b>{c.code}</b> {escape(c.name)}: {code(issues.shortened(c.message))}</li>' for c in s.consequences
    )
    drawn = set(f.signals[:MOST_EVIDENCE])
    wider = "".join(_evidence(c, run, 1, drawn) for c in s.consequences[:MOST_CONSEQUENCES])
    follows = f"<h4>It explains</h4><ul>{folded}</ul>{wider}" if folded else ""
    where = ", ".join(f.where[:5]) + (f" and {len(f.where) - 5} more" if len(f.where) > 5 else "")
    meta = (f.confidence.value, span(f.steps, run), f"rank {f.rank}" if f.rank is not None else "", text(where, 240))
    return (
        f'<article class="card {f.severity.value}" id="{f.code}"><div class="row"><h3><span class="icon {f.severity.value}" aria-hidden="true">{ICON[f.severity]}</span> '
        f'{f.code} <span class="name">{escape(f.name.replace("-", " "))}</span></h3><span class="badge {f.severity.value}">{f.severity.value}</span></div>'
        f'<p class="said">{code(issues.shortened(f.message))}</p><div class="meta">{"".join(f"<span>{m}</span>" for m in meta if m)}</div>'
        f'{_evidence(f, run, MOST_EVIDENCE if f.severity > Severity.INFO else 1, set())}{do(f.fix) if advise else ""}{more}{follows}<p class="small soft">Manual page: '
        f"<code>traindx explain {f.code}</code></p></article>"
    )


def _evidence(f: Finding, run: Run, most: int, drawn: set[str]) -> str:
    """The finding's own signals, its steps marked, the layer it names drawn among the others."""
    out: list[str] = []
    for name in f.signals:
        signal = run.signals.get(name)
        if signal is None or len(signal) < 2 or name in drawn or len(out) >= most:
            continue
        drawn.add(name)
        out.append(_picture(name, signal, f, run))
    return "".join(out)


def _picture(name: str, signal: Series | Matrix, f: Finding, run: Run) -> str:
    band, label, shade = vitals.BANDS.get(name), span(f.steps, run), _lasting(f, run)
    if isinstance(signal, Series):
        return charts.line_chart(
            [charts.trace(name, signal)],
            title=name,
            shade=shade,
            shade_name=label,
            shade_kind=f.severity.value,
            band=band,
            height=180,
        )
    named = tuple(w for w in f.where if w in signal.names)
    if not named or len(signal.names) == 1:
        return maps.heat_map(signal, title=name, rows=24, log=name not in vitals.SHARES, shade=shade)
    traces = [charts.trace(w, signal.column(w), kind) for w, kind in zip(named[:3], "abc", strict=False)]
    spread = charts.Spread(signal.steps, *vitals.envelope(signal), "muted")
    note = f"grey: all {len(signal.names)}"
    if len(traces) == 1:
        note = f"{named[0]}; {note}"
    return charts.line_chart(
        traces,
        title=name,
        shade=shade,
        shade_name=label,
        shade_kind=f.severity.value,
        band=band,
        height=190,
        spreads=[spread],
        note=note,
    )


def ruled_out(d: Diagnosis) -> str:
    """The hypotheses of the complaint, with the number that refuted each, and what is still open."""
    shown = presenting(d.run, d.outcomes)
    if shown is None:
        return ""
    walked = walk(shown.tree, d.run, d.outcomes)
    groups = (
        ("✘ Ruled out", [w for w in walked if w.state is State.REFUTED]),
        ("✔ Confirmed", [w for w in walked if w.state is State.CONFIRMED]),
        ("? Likely", [w for w in walked if w.state is State.LIKELY]),
        ("… Still open", [w for w in walked if w.state is State.OPEN]),
    )
    body = "".join(_considered(title, rows) for title, rows in groups if rows)
    return f"<h2>Hypotheses</h2><p class='soft'>Complaint: {text(shown.tree.complaint)} ({text(shown.why)}).</p>{body}"


def _considered(title: str, rows: Sequence[Walked]) -> str:
    body = "".join(
        f"<tr><td>{text(w.branch.hypothesis[:1].upper() + w.branch.hypothesis[1:])}</td><td>{code(w.why, 240)}</td>"
        f"<td>{f'<code>{text(settling(w.branch.trial))}</code>' if w.branch.trial and w.state is not State.REFUTED else ''}</td></tr>"
        for w in rows
    )
    why = "because" if title.endswith("out") else "evidence"
    tried = "" if title.endswith("out") else "to confirm"
    return (
        f'<h3 class="group">{title}</h3><div class="scroll"><table class="considered"><thead><tr><th>hypothesis</th><th>{why}</th><th>{tried}</th></tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def not_looked(d: Diagnosis) -> str:
    """What was checked and what could not be; neither undecided nor missing is ever shown as clear."""
    counts = {s: len(d.with_status(s)) for s in Status}
    parts = [f"<p>{issues.checked(d)} {code(issues.limits(d))}</p>"]
    for status, title in (
        (Status.UNSURE, "Undecided so far"),
        (Status.BLIND, "Needs data this run does not have"),
        (Status.MUTED, "Does not apply to this run"),
        (Status.BROKEN, "Failed through a bug in traindx, please report"),
    ):
        rows = "".join(f"<tr><td><b>{o.code}</b></td><td>{code(o.reason, 300)}</td></tr>" for o in d.with_status(status))
        if rows:
            parts.append(
                f'<details><summary>{title} ({counts[status]})</summary><div class="scroll"><table>{rows}</table></div></details>'
            )
    clear = ", ".join(o.code for o in d.with_status(Status.CLEAR))
    parts.append(f"<details><summary>Clear ({counts[Status.CLEAR]})</summary><p>{clear}</p></details>")
    return "<h2>What was checked</h2>" + "".join(parts)
