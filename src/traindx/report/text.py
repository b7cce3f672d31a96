"""The diagnosis as a page in the terminal: headline, why, what to do, the evidence, and what could not be checked."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence, Set

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule as Line
from rich.table import Table
from rich.text import Text

from traindx.diagnosis import Diagnosis
from traindx.diagnosis import gates as gates_
from traindx.diagnosis.story import Story
from traindx.finding import Finding, Severity, Status
from traindx.record import diary
from traindx.report import issues, profile
from traindx.report.words import (
    ASCII_ICON,
    COLOUR,
    ICON,
    VERDICT_COLOUR,
    number,
    read_as,
    safe,
    span,
    sparklines,
    vital_curves,
)

MOST_STORIES = 6


def page(diagnosis: Diagnosis, *, unicode: bool = True, verbose: bool = False) -> RenderableType:
    """The whole page, for a rich console."""
    parts: list[RenderableType] = [_title(diagnosis), _verdict(diagnosis), gates([diagnosis])]
    curves = _curves(diagnosis, unicode)
    if curves is not None:
        parts.append(curves)
    if window := profile.sentences(diagnosis.run):
        parts += [Text("Profile", style="bold"), Padding(Text(safe(" ".join(window))), (0, 0, 1, 2))]
    parts.extend(_others(diagnosis))
    parts.extend(_stories(diagnosis, unicode, verbose))
    parts.append(_rest(diagnosis, unicode, verbose))
    return Group(*parts)


def plain(diagnosis: Diagnosis, width: int = 100) -> str:
    """The page as plain text."""
    console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False, legacy_windows=False)
    console.print(page(diagnosis))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def why_healthy(d: Diagnosis) -> str:
    """What the judgement that it learned, or did not, rests on."""
    found = d.learned
    lines = [f"{d.run.source or 'run'}: {d.verdict}", found.sentence, *(f"  {reason}" for reason in found.reasons[1:])]
    lines.append(f"How it ended: {found.ended.how}" + (f" ({found.ended.why})." if found.ended.why else "."))
    if found.lost:
        lines.append(f"Against it: {found.lost}.")
    if found.would_tell:
        lines.append(f"To know more: {found.would_tell}.")
    return "\n".join(safe(line, 400) for line in lines)


def gates(diagnoses: Sequence[Diagnosis]) -> RenderableType:
    """What was required, and what the baseline has too; nothing where nothing was asked."""
    style = {"passed": "green", "failed": "bold red", "cannot-tell": "yellow"}
    lines = [
        Text(f"{result.replace('-', ' ')}: {safe(what, 160)}: {safe(told)}", style=style[result])
        for result, what, told in gates_.sentences(diagnoses)
    ]
    for d in (d for d in diagnoses if d.known):
        where = f" of {_short_path(d.run.source)}" if len(diagnoses) > 1 else ""
        lines.append(Text(f"known from the baseline{where}: {', '.join(sorted(d.known))}", style="dim"))
    return Padding(Group(*lines), (0, 0, 1, 2)) if lines else Group()


def _short_path(path: str, most: int = 44) -> str:
    """A path that keeps its end, which tells runs apart."""
    shown = safe(path, 400)
    return shown if len(shown) <= most else "…" + shown[1 - most :]


class _Fitted:
    """A part that is made for the width it gets."""

    def __init__(self, make: Callable[[int], RenderableType]) -> None:
        self.make = make

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.make(options.max_width)


def _title(d: Diagnosis) -> RenderableType:
    rest = f" · {safe(d.run.kind, 40)}" + (f" · {span(d.run.steps, d.run)}" if d.run.steps else "")

    def made(width: int) -> RenderableType:
        what = _short_path(d.run.source, max(12, min(44, width - len(rest) - 14))) or "run"
        return Line(Text.assemble(("traindx", "bold"), f" · {what}{rest}"), align="left")

    return _Fitted(made)


def _verdict(d: Diagnosis) -> RenderableType:
    colour = VERDICT_COLOUR.get(d.verdict, "white")
    v, wrong = d.verdict_, issues.issues(d)
    top = Table.grid(padding=(0, 2))
    top.add_column(no_wrap=True)
    top.add_column()
    badge = Text(f" {d.verdict.upper().replace('-', ' ')} ", style=f"bold reverse {colour}")
    top.add_row(badge, Text(safe(v.headline or v.summary), style="bold"))
    parts: list[RenderableType] = [top]
    until = ("until then" if wrong else "next", issues.until_then(d))
    told = [v.why, *(i.why for i in wrong)]
    rows = [("learned", "" if d.learned.reasons and d.learned.reasons[0] in told else safe(issues.learned(d)))]
    if v.forecast and "forecast" in v.forecast and d.verdict in ("healthy", "wait"):
        f = v.forecast
        cone = f"{number(f['forecast'])} ({number(f.get('lo', float('nan')))}–{number(f.get('hi', float('nan')))})"
        rows.append(
            (
                "forecast",
                f"training loss {cone} at {span((f['at_step'], f['at_step']), d.run)}, if the learning rate stays as it is",
            )
        )
    rows.append(
        (
            "to confirm" if any(need.startswith("`") for need in v.needs) else "needs",
            "; ".join(n for n in v.needs if n not in issues.hint(d)),
        )
    )
    if len(wrong) == 1:
        parts.append(_rows([*_about(wrong[0], until), *rows]))
    elif wrong:
        for place, issue in enumerate(wrong, 1):
            parts += [Padding(Text(f"{place}. {safe(issue.title)}", style="bold"), (1, 0, 0, 0)), _rows(_about(issue))]
        parts.append(Padding(_rows([until, *rows]), (1, 0, 0, 0)))
    else:
        parts.append(_rows([("why", safe(v.why)), ("do", safe(issues.hint(d))), until, *rows]))
    return Padding(Group(*parts), (1, 0, 1, 0))


def _about(issue: issues.Issue, until: tuple[str, str] = ("", "")) -> list[tuple[str, str]]:
    """An issue in labelled lines."""
    return [
        ("why", safe(issue.why)),
        ("do", safe(issue.do)),
        ("at", _short_path(issue.at, 96)),
        *(("note", safe(warning)) for warning in issue.not_yet),
        until,
        ("to confirm", safe(issue.confirm)),
        ("how sure", issues.how_sure(issue)),
    ]


def _rows(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Labels on the left, sentences on the right; empty ones are left out."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=10)
    grid.add_column()
    for label, said in rows:
        if said:
            grid.add_row(label, Text(said))
    return Padding(grid, (0, 0, 0, 2))


def _curves(d: Diagnosis, unicode: bool) -> RenderableType | None:
    curves = vital_curves(d.run)
    if not curves:
        return None
    ends = [_ends(number(series.values[0]), number(series.values[-1])) for _, series in curves]
    taken = max(len(name) for name, _ in curves) + max(map(len, ends)) + 6

    def made(width: int) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        for style in ("dim", "", "dim"):
            table.add_column(style=style, no_wrap=True)
        for (name, _), line, end in zip(curves, sparklines(curves, max(8, min(40, width - taken)), not unicode), ends):
            table.add_row(name, line, end)
        return table

    return Padding(_Fitted(made), (0, 0, 1, 2))


def _ends(first: str, last: str) -> str:
    return first if first == last else f"{first} → {last}"


def _others(d: Diagnosis) -> list[RenderableType]:
    """Rival causes, a line or two each."""
    parts: list[RenderableType] = []
    for c in issues.others(d):
        head = Text.assemble(f"{safe(c.cause.title)}", (f"  {c.said}; {', '.join(c.supports)}", "dim"))
        rows = [("do", safe(c.prescription)), ("to confirm", safe(issues.confirm(d, c)))]
        parts.append(Padding(Group(head, _rows(rows)), (0, 0, 0, 2)))
    if parts:
        parts[-1] = Padding(parts[-1], (0, 0, 1, 0))
    return [Text(issues.others_title(d), style="bold"), *parts] if parts else []


def _stories(d: Diagnosis, unicode: bool, verbose: bool) -> list[RenderableType]:
    """The evidence: alarms with what they explain, then remarks, which ask for nothing under an alarm."""
    loud = [s for s in d.stories if s.severity > Severity.INFO]
    quiet = [s for s in d.stories if s.severity is Severity.INFO]
    if d.verdict_.forecast:  # the page has a row for it
        quiet = [s for s in quiet if s.root.code != "LOSS004"]
    quiet = [s for s in quiet if s.root.message != d.verdict_.why]  # it stands above
    shown, remarks = (loud, quiet) if verbose else (loud[:MOST_STORIES], quiet[:3])
    wrong = issues.issues(d)
    told = {
        part for i in wrong for part in (i.why.rstrip("."), i.do, i.at, d.verdict_.why.rstrip(".")) if part
    }  # stands above already
    told |= {code for i in wrong for code in i.supports} | {s.root.code for s in loud if wrong}  # one "do" for each issue
    parts: list[RenderableType] = []
    if shown:
        parts.append(Text("Evidence", style="bold"))
        parts += [Padding(_story(s, d, unicode, told), (0, 0, 1, 2)) for s in shown]
    if remarks:
        parts.append(Text(issues.remarks_title(d), style="bold"))
        parts += [Padding(_remark(s.root, unicode), (0, 0, 0, 2)) for s in remarks]
        parts.append(Text())
    left = len(loud) + len(quiet) - len(shown) - len(remarks)
    if left > 0:
        parts.append(Padding(Text(f"{left} more; --verbose shows them all.", style="dim"), (0, 0, 1, 2)))
    return parts


def _remark(f: Finding, unicode: bool) -> RenderableType:
    """A remark in a sentence, without advice: it must not look like an alarm."""
    said = Text.assemble(safe(issues.shortened(f.message)), (f"  {f.code}", "dim"))
    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text((ICON if unicode else ASCII_ICON)[f.severity], style="dim"), said)
    return grid


def _story(story: Story, d: Diagnosis, unicode: bool, said: Set[str]) -> RenderableType:
    lines = _finding(story.root, d, unicode, said)
    if story.more:
        lines.append(Text(f"and {len(story.more)} more of the same", style="dim"))
    if story.consequences:
        counts = Counter(f"{f.code} {f.name}" for f in story.consequences)
        told = ", ".join(name + (f" ×{n}" if n > 1 else "") for name, n in counts.items())
        lines.append(Text.assemble(("it explains ", "dim"), (told, "dim")))
    return Group(*lines)


def _finding(f: Finding, d: Diagnosis, unicode: bool, told: Set[str]) -> list[Text]:
    """A finding: its name and steps, then what the page has not said of it yet."""
    icon = (ICON if unicode else ASCII_ICON)[f.severity]
    sure = "" if f.confidence.value == "strong" else f" · {f.confidence.value}"
    head = Text.assemble(
        (f"{icon} {f.code} ", f"bold {COLOUR[f.severity]}"),
        (f.name, "bold"),
        (f"  {f.severity.value}{sure}" + (f" · {span(f.steps, d.run)}" if f.steps else ""), "dim"),
    )
    message = issues.shortened(f.message)
    lines = [head] if message.rstrip(".").endswith(tuple(told)) else [head, Text(safe(message))]
    if (line := issues.line_of(f)) and line not in message and line not in told:
        lines.append(Text(f"at {_short_path(line, 96)}", style="dim"))
    if f.fix and f.code not in told and f.fix not in told:
        lines.append(Text.assemble(("→ " if unicode else "> ", COLOUR[f.severity]), safe(f.fix)))
    return lines


def _rest(d: Diagnosis, unicode: bool, verbose: bool) -> RenderableType:
    if all(o.status is Status.MUTED for o in d.outcomes):
        return Text("No rule is active: your --select and --ignore leave none.", style="yellow")
    lines: list[RenderableType] = [Text(issues.checked(d), style="dim")]
    if verbose:
        for status in (Status.UNSURE, Status.BLIND, Status.MUTED, Status.BROKEN):
            name = issues.STATUS[status]
            lines.extend(Text(f"  {o.code} {name}: {safe(o.reason)}", style="dim") for o in d.with_status(status))
    if taken := read_as(d.run, 1000 if verbose else 6):
        told = f"Columns read: {taken}. Correct them with --map COLUMN=SIGNAL."
        lines.append(Text(told if unicode else told.replace("←", "=").replace("·", "|"), style="dim"))
    lines.extend(Text(f"diary: {safe(diary.told(entry), 300)}", style="dim") for entry in d.run.fact("diary", [])[-5:])
    lines.extend(Text(f"note: {safe(note)}", style="dim") for note in d.run.notes[: None if verbose else 5])
    if hint := issues.limits(d):
        lines.append(Text(hint, style="dim"))
    if not verbose and d.with_status(Status.BLIND):
        lines.append(Text("--verbose gives the reason for each; `traindx explain CODE` describes a condition.", style="dim"))
    return Group(*lines)
