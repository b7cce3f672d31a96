"""Diagnosis and run as fragments of HTML for notebooks, and a cell that keeps itself up to date: no scripts, style scoped."""

from __future__ import annotations

import html
import importlib
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from traindx.diagnosis import Diagnosis
from traindx.errors import UsageError
from traindx.finding import Severity
from traindx.plain import say
from traindx.report import charts, issues, narrative
from traindx.report.narrative import code, text
from traindx.report.words import ICON, number, span
from traindx.run import Matrix, Run

STYLE = Path(__file__).with_name("style.css")


@cache
def _style() -> str:
    """The one style sheet, applied inside `.traindx` only."""
    rules = STYLE.read_text(encoding="utf-8").replace(":root", ":scope").replace("body {", ":scope {")
    return f"<style>@scope (.traindx) {{ {rules} :scope {{ padding: 14px 16px; border-radius: 10px; max-width: 860px; }} }}</style>"


def framed(inner: str) -> str:
    """A fragment in our style, which touches nothing else on the page."""
    return f'{_style()}<div class="traindx">{inner}</div>'


def pre(page: str) -> str:
    """A page of the terminal, as it is."""
    return framed(f'<div class="scroll"><pre>{html.escape(page)}</pre></div>')


def fragment(d: Diagnosis) -> str:
    """Verdict, what to do, the loss curve, causes and findings."""
    wrong = issues.issues(d)
    named = len(wrong) > 1
    causes = "".join(
        f"{f'<p><b>{i}. {code(w.title)}</b></p>' if named else ''}{narrative.issue(w)}" for i, w in enumerate(wrong, 1)
    )
    causes += f"<p class=soft>{'Until then: ' if wrong else ''}{code(issues.until_then(d))}</p>"
    rows = "".join(
        f"<tr><td class='icon {f.severity.value}'>{ICON[f.severity]}</td><td>{f.code}</td><td>{code(f.message)}</td><td>{span(f.steps, d.run)}</td></tr>"
        for f in d.findings[:10]
        if f.severity > Severity.INFO or len(d.findings) < 4
    )
    said = f"{narrative.badge(d.verdict)} <b>{code(d.verdict_.headline or d.summary)}</b>"
    return framed(f'{said}{narrative.main_curve(d, 200)}{causes}<div class="scroll"><table>{rows}</table></div>')


def run_fragment(run: Run) -> str:
    """What a run holds: its loss curve, and every signal with its length and last value."""
    traces = [charts.trace("training", run.series("loss/train"), "a"), charts.trace("validation", run.series("loss/val"), "b")]
    rows = "".join(
        f"<tr><td class=mono>{text(name, 80)}</td><td class=num>{len(s)} × {len(s.names) if isinstance(s, Matrix) else 1}</td>"
        f"<td class=num>{'' if isinstance(s, Matrix) else number(s.last)}</td></tr>"
        for name, s in sorted(run.signals.items())
        if len(s)
    )
    head = (
        f"<b>{text(run.source, 120) or 'run'}</b> <span class=soft>{text(run.kind)}, {span(run.steps, run) or 'empty'}</span>"
    )
    table = f'<div class="scroll"><table><tr><th>signal</th><th>records</th><th>last</th></tr>{rows}</table></div>'
    curve = charts.line_chart(traces, title="Loss", height=180)
    return framed(
        f"{head}{curve}<details><summary>{len(run.signals)} signals, {len(run.events)} events</summary>{table}</details>"
    )


_cells: dict[str, Live] = {}  # one live cell per name: running a cell again replaces the old one


class Live:
    """A cell that shows the diagnosis of what `source()` gives and renews itself every `every` seconds until `stop()`."""

    def __init__(self, source: Callable[[], Diagnosis], every: float = 5.0, name: str = "traindx") -> None:
        old = _cells.pop(name, None)
        if old is not None:
            old.stop()
        self._source, self._every, self._name = source, every, name
        self._ended = threading.Event()
        self._handle: Any = None
        _cells[name] = self

    def start(self) -> Live:
        """Show the cell and keep it fresh from a thread of its own."""
        shown = importlib.import_module("IPython.display")
        self._handle = shown.display(shown.HTML(self._page()), display_id=True)
        if self._handle is None:
            say("live() shows itself in a notebook only; print the diagnosis here")
            return self
        threading.Thread(target=self._turn, args=(shown.HTML,), daemon=True, name="traindx-live").start()
        return self

    def stop(self) -> None:
        """The picture stays as it is."""
        self._ended.set()

    def _turn(self, shown: Callable[[str], Any]) -> None:
        while not self._ended.wait(self._every):
            self._handle.update(shown(self._page()))
        if _cells.get(self._name) is self:  # the last word, unless another cell has taken the place
            self._handle.update(shown(self._page()))

    def _page(self) -> str:
        try:
            return fragment(self._source())
        except Exception as why:  # a picture that cannot be made must not end the cell, let alone the training
            return framed(f"<p class=soft>No picture this time: {text(why, 200)}</p>")


class Charts:
    """Series of a run as the charts of the report."""

    def __init__(self, run: Run, names: Sequence[str]) -> None:
        missing = [n for n in names if not len(run.series(n))]
        if len(missing) == len(names):
            raise UsageError(f"the run has no series '{missing[0]}'; it has {', '.join(sorted(run.signals)[:12])}")
        self._run, self._names = run, [n for n in names if n not in missing]
        self._missing = [f"not recorded: {', '.join(missing)}"] if missing else []

    def __repr__(self) -> str:
        lines = [f"{n}: {number(s.values[0])} to {number(s.last)}" for n in self._names if len(s := self._run.series(n))]
        return "\n".join([*lines, *self._missing])

    def _repr_html_(self) -> str:
        drawn = [charts.line_chart([charts.trace(name, self._run.series(name))], title=name) for name in self._names]
        return framed("".join([*drawn, *(f"<p>{html.escape(line)}</p>" for line in self._missing)]))
