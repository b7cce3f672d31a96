"""The diagnosis as a page in the terminal: verdict first, then why, then what to do, then what nobody looked at."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule as Line
from rich.table import Table
from rich.text import Text

from traindx.diagnosis import Diagnosis, Suspect
from traindx.diagnosis.story import Story
from traindx.finding import Finding, Severity, Status
from traindx.record import diary
from traindx.report import profile
from traindx.report.github import place
from traindx.report.words import (
    ASCII_ICON,
    COLOUR,
    ICON,
    VERDICT_COLOUR,
    causes_title,
    number,
    read_as,
    safe,
    span,
    sparklines,
    vital_curves,
)
from traindx.signals import LOGGABLE

MOST_STORIES = 6


def page(diagnosis: Diagnosis, *, unicode: bool = True, verbose: bool = False) -> RenderableType:
    """The whole page, for a rich console."""
    parts: list[RenderableType] = [_title(diagnosis), _verdict(diagnosis)]
    curves = _curves(diagnosis, unicode)
    if curves is not None:
        parts.append(curves)
    if taken := read_as(diagnosis.run, 1000 if verbose else 6):
        told = f"Read as  {taken}   (--map COLUMN=SIGNAL corrects)"
        parts.append(Padding(Text(told if unicode else told.replace("←", "=").replace("·", "|"), style="dim"), (0, 0, 1, 2)))
    if window := profile.sentences(diagnosis.run):
        parts += [Text("Profile", style="bold"), Padding(Text(safe(" ".join(window))), (0, 0, 1, 2))]
    parts.extend(_causes(diagnosis.causes, alarmed=diagnosis.alarmed))
    parts.extend(_stories(diagnosis.stories, unicode, verbose))
    parts.append(_rest(diagnosis, verbose))
    return Group(*parts)


def plain(diagnosis: Diagnosis, width: int = 100) -> str:
    """The page as plain text."""
    console = Console(file=io.StringIO(), width=width, no_color=True, highlight=False, legacy_windows=False)
    console.print(page(diagnosis))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def table_of_runs(diagnoses: Sequence[Diagnosis]) -> RenderableType:
    """Many runs, worst first, a line each."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    for heading in ("run", "steps", "verdict", "finding"):
        table.add_column(heading, no_wrap=heading != "finding")  # of these the finding alone gives way, and in one line
    for d in diagnoses:
        worst = d.stories[0].root if d.stories else None
        name = Text(d.verdict, style=VERDICT_COLOUR.get(d.verdict, ""))
        said = f"{worst.code} {safe(worst.message, 120)}" if worst and worst.severity > Severity.INFO else ""
        table.add_row(
            _short_path(d.run.source),
            f"{d.run.steps[1]}" if d.run.steps else "–",
            name,
            Text(said, no_wrap=True, overflow="ellipsis"),
        )
    return table


def _short_path(path: str, most: int = 44) -> str:
    """A path that keeps its end, which tells runs apart."""
    shown = safe(path, 400)
    return shown if len(shown) <= most else "…" + shown[1 - most :]


def _title(d: Diagnosis) -> RenderableType:
    what = _short_path(d.run.source) or "run"
    return Line(
        Text.assemble(
            ("traindx", "bold"), f" · {what} · {safe(d.run.kind, 40)}", f" · {span(d.run.steps)}" if d.run.steps else ""
        ),
        align="left",
    )


def _verdict(d: Diagnosis) -> RenderableType:
    colour = VERDICT_COLOUR.get(d.verdict, "white")
    head = Text.assemble(
        (f" {d.verdict.upper().replace('-', ' ')} ", f"bold reverse {colour}"), "  ", (safe(d.summary), "bold")
    )
    lines = [head]
    v = d.verdict_
    if v.besides:
        lines.append(Text(f"Apart from that: {safe(v.besides)}"))
    if v.start:
        lines.append(Text(v.start, style="dim"))
    if v.forecast and "forecast" in v.forecast:
        f = v.forecast
        at = f.get("at_step")
        text = f"Forecast: {number(f['forecast'])} ({number(f.get('lo', float('nan')))}–{number(f.get('hi', float('nan')))})"
        lines.append(Text(text + (f" at step {at}" if at is not None else "") + ", at the present learning rate.", style="dim"))
    if v.waiting:
        lines.append(Text(f"Waiting: {v.waiting}.", style="dim"))
    if v.needs:
        lines.append(Text("Needs: " + "; ".join(v.needs), style="dim"))
    if v.would_change:
        lines.append(Text(f"What would change our mind: {safe(v.would_change)}.", style="dim"))
    return Padding(Group(*lines), (1, 0, 1, 0))


def _curves(d: Diagnosis, unicode: bool) -> RenderableType | None:
    curves = vital_curves(d.run)
    if not curves:
        return None
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    for (name, series), line in zip(curves, sparklines(curves, 40, not unicode)):
        table.add_row(name, line, f"{number(series.values[0])} → {number(series.values[-1])}")
    return Padding(table, (0, 0, 1, 2))


def _causes(causes: Sequence[Suspect], *, alarmed: bool) -> list[RenderableType]:
    shown = [c for c in causes if c.probability >= 0.1][:3]
    if not shown:
        return []
    parts: list[RenderableType] = [Text(causes_title(len(shown), alarmed=alarmed), style="bold")]
    for i, c in enumerate(shown):
        head = Text.assemble((f"{safe(c.cause.title)}", "bold"), (f"  {c.said}", "dim"))
        rows = [("for", ", ".join(c.supports))]
        if c.against:
            rows.append(("against", ", ".join(c.against)))
        if (i == 0 or c.apart) and (alarmed or c.possible):
            rows.append(("do", safe(c.prescription)))
            rows += [("not yet", safe(warning)) for warning in c.cause.not_yet]
        if c.cause.settle and c.probability < 0.95:
            cost = f"  (about {c.cause.cost_steps} steps)" if c.cause.cost_steps else ""
            rows.append(("settle", f"traindx trial {c.cause.settle} TARGET{cost}"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for label, said in rows:
            grid.add_row(label, Text(said))
        parts.append(Padding(Group(head, grid), (0, 0, 1, 2)))
    return parts


def _stories(stories: Sequence[Story], unicode: bool, verbose: bool) -> list[RenderableType]:
    if not stories:
        return []
    shown = stories if verbose else [s for s in stories if s.severity > Severity.INFO][:MOST_STORIES]
    remarks = [] if verbose else [s for s in stories if s.severity is Severity.INFO][:3]
    parts: list[RenderableType] = [Text("Findings", style="bold")]
    for story in [*shown, *remarks]:
        parts.append(Padding(_story(story, unicode), (0, 0, 1, 2)))
    left = len(stories) - len(shown) - len(remarks)
    if left > 0:
        parts.append(Padding(Text(f"{left} more; --verbose shows them all.", style="dim"), (0, 0, 1, 2)))
    return parts


def _story(story: Story, unicode: bool) -> RenderableType:
    lines = _finding(story.root, unicode)
    if story.more:
        lines.append(Text(f"and {len(story.more)} more of the same", style="dim"))
    if story.consequences:
        counts = Counter(f"{f.code} {f.name}" for f in story.consequences)
        told = ", ".join(name + (f" ×{n}" if n > 1 else "") for name, n in counts.items())
        lines.append(Text.assemble(("explains ", "dim"), (told, "dim")))
    return Group(*lines)


def _finding(f: Finding, unicode: bool) -> list[Text]:
    icon = (ICON if unicode else ASCII_ICON)[f.severity]
    sure = "" if f.confidence.value == "strong" else f" · {f.confidence.value}"
    head = Text.assemble(
        (f"{icon} {f.code} ", f"bold {COLOUR[f.severity]}"),
        (f.name, "bold"),
        (f"  {f.severity.value}{sure}" + (f" · {span(f.steps)}" if f.steps else ""), "dim"),
    )
    lines = [head, Text(safe(f.message))]
    if (line := _line(f)) and line not in f.message:
        lines.append(Text(f"at {_short_path(line, 96)}", style="dim"))
    if f.fix:
        lines.append(Text.assemble(("→ " if unicode else "> ", COLOUR[f.severity]), safe(f.fix)))
    return lines


def _line(f: Finding) -> str:
    """The line of the user's code a finding points at, as seen from here; empty without one."""
    at = place(f)
    if at is None:
        return ""
    file, here = at[0], f"{Path.cwd()}{os.sep}"
    return f"{file.removeprefix(here)}:{at[1]}"


def _rest(d: Diagnosis, verbose: bool) -> RenderableType:
    if all(o.status is Status.MUTED for o in d.outcomes):
        return Text("no rules are active: what is selected and what is ignored leave none", style="yellow")
    counts = {s: len(d.with_status(s)) for s in Status}
    words = [f"{counts[Status.CLEAR]} conditions clear"]
    if counts[Status.UNSURE]:
        words.append(f"{counts[Status.UNSURE]} unsure")
    if counts[Status.BLIND]:
        words.append(f"{counts[Status.BLIND]} not looked at (blind)")
    if counts[Status.MUTED]:
        words.append(f"{counts[Status.MUTED]} muted")
    if counts[Status.BROKEN]:
        words.append(f"{counts[Status.BROKEN]} broken (our fault: please report)")
    lines: list[RenderableType] = [Text(" · ".join(words), style="dim")]
    if verbose:
        for status in (Status.UNSURE, Status.BLIND, Status.MUTED, Status.BROKEN):
            lines.extend(Text(f"  {o.code} {status.value}: {safe(o.reason)}", style="dim") for o in d.with_status(status))
    lines.extend(Text(f"diary: {safe(diary.told(entry), 300)}", style="dim") for entry in d.run.fact("diary", [])[-5:])
    lines.extend(Text(f"note: {safe(note)}", style="dim") for note in d.run.notes[: None if verbose else 5])
    if counts[Status.BLIND] and (hint := _next_time(d)):
        lines.append(Text(hint, style="dim"))
    if not verbose and counts[Status.BLIND]:
        lines.append(Text("--verbose says why; `traindx explain CODE` is the manual page of a condition.", style="dim"))
    return Group(*lines)


def _next_time(d: Diagnosis) -> str:
    """How to see more than this log shows; empty for runs that were observed."""
    if "columns" not in d.run.facts:
        return ""
    blind = d.with_status(Status.BLIND)
    names = [n for n in LOGGABLE if n not in d.run and any(n in o.lacks for o in blind)]
    opened = sum(any(n in o.lacks for n in names) for o in blind)
    log = f"log {', '.join(names[:4])}{' …' if len(names) > 4 else ''} (opens {opened}), or " if names else ""
    return f"To see more next time: {log}observe with `traindx run train.py`, which looks at most of the others."
