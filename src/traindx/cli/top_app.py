"""`traindx top` with textual: pick a run, read its findings and watch its curves, over SSH as well as here."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.widgets import DataTable, Footer, Header, Input, Static

from traindx.dashboard.library import Entry, Library
from traindx.finding import Severity
from traindx.report.words import COLOUR, ICON, STATE_COLOUR, VERDICT_COLOUR, number, safe, sparklines, vital_curves

RANK = {"critical": 0, "warning": 1, "info": 2}


class Top(App[None]):  # type: ignore[misc]  # textual is an extra, unseen by the type checker
    """The list on top, worst first; the run under the cursor below it."""

    TITLE = "traindx"
    CSS = "#list { height: 1fr; } #run { height: 1fr; padding: 1 2; border-top: solid $primary; } #find { display: none; }"
    BINDINGS: ClassVar[list[Any]] = [
        Binding("q", "quit", "Quit"),
        Binding("slash", "find", "Search"),
        Binding("escape", "leave", "Back", show=False),
        Binding("j", "move(1)", "Next", show=False),
        Binding("k", "move(-1)", "Previous", show=False),
    ]

    def __init__(self, library: Library, every: float = 2.0) -> None:
        super().__init__()
        self.library, self.every = library, every
        self.wanted = ""
        self.shown: list[Entry] = []

    def compose(self) -> ComposeResult:
        yield Header()
        with Vertical():
            yield Input(placeholder="search", id="find")
            yield DataTable(id="list", cursor_type="row", zebra_stripes=True)
            yield VerticalScroll(Static(id="page"), id="run")
        yield Footer()

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        table.add_columns("run", "state", "step", "loss", "verdict", "finding")
        self.look()
        self.set_interval(self.every, self.look)
        table.focus()

    def look(self) -> None:
        """Read the folder again; reading happens in a thread, so that keys stay quick."""
        self.run_worker(self._read, thread=True, exclusive=True)

    def _read(self) -> None:
        entries = [e for e in self.library.entries() if self.wanted in e.name.lower()]
        healths = {e.id: self.library.health(e) for e in entries}
        entries.sort(key=lambda e: RANK.get(str((healths[e.id] or {}).get("severity")), 3))
        rows = [self._row(e, healths[e.id]) for e in entries[:200]]
        self.call_from_thread(self._show, entries[:200], rows)

    def _row(self, entry: Entry, health: dict[str, Any] | None) -> list[Text]:
        verdict = health["verdict"] if health else "being judged"
        found = health["finding"] if health and health["severity"] in ("critical", "warning") else None
        run = self.library.run(entry.id) if entry.state == "running" else None
        loss = run.series("loss/train").last if run else float("nan")
        return [
            Text(safe(entry.name, 48)),
            Text(entry.state, style=STATE_COLOUR.get(entry.state, "dim")),
            Text(str(run.steps[1] if run and run.steps else entry.step if entry.step is not None else "–")),
            Text(number(loss) if loss == loss else ""),
            Text(verdict, style=VERDICT_COLOUR.get(verdict, "dim")),
            Text(f"{found['code']} {safe(found['message'], 160)}" if found else ""),
        ]

    def _show(self, entries: list[Entry], rows: list[list[Text]]) -> None:
        table = self.query_one(DataTable)
        at = table.cursor_row
        kept = self.shown[at].id if 0 <= at < len(self.shown) else None
        self.shown = entries
        table.clear()
        for entry, row in zip(entries, rows, strict=True):
            table.add_row(*row, key=entry.id)
        place = next((i for i, e in enumerate(entries) if e.id == kept), 0)
        if entries:
            table.move_cursor(row=place)
        running = sum(e.state == "running" for e in entries)
        self.sub_title = f"{safe(self.library.root, 60)}: {len(entries)} runs, {running} running"
        self._page()

    def on_data_table_row_highlighted(self) -> None:
        self._page()

    def _page(self) -> None:
        at = self.query_one(DataTable).cursor_row
        if 0 <= at < len(self.shown):
            self.query_one("#page", Static).update(page(self.library, self.shown[at]))

    def action_move(self, by: int) -> None:
        table = self.query_one(DataTable)
        table.move_cursor(row=table.cursor_row + by)

    def action_find(self) -> None:
        box = self.query_one(Input)
        box.display = True
        box.focus()

    def action_leave(self) -> None:
        box = self.query_one(Input)
        box.display = False
        self.query_one(DataTable).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.wanted = event.value.lower()
        self.look()

    def on_input_submitted(self) -> None:
        self.action_leave()


def page(library: Library, entry: Entry) -> RenderableType:
    """One run: verdict, curves, what to do, findings."""
    run, known = library.run(entry.id), library.judgement(entry, first=True)
    if run is None:
        return Text("cannot be read")
    curves = Table.grid(padding=(0, 2))
    vital = vital_curves(run)
    for (name, series), line in zip(vital, sparklines(vital, 60)):
        curves.add_row(Text(name, style="dim"), line, f"{number(series.values[0])} → {number(series.last)}")
    if known is None or known.report is None:
        return Group(
            Text(safe(entry.name), style="bold"), Text("being judged …" if known is None else "cannot be read"), curves
        )
    said = known.report["diagnosis"]
    head = Text.assemble(
        (f" {said['verdict'].replace('-', ' ').upper()} ", f"reverse {VERDICT_COLOUR.get(said['verdict'], '')}"),
        f"  {safe(said['summary'])}",
    )
    parts: list[RenderableType] = [head, Text(), curves, Text()]
    for cause in [c for c in said["causes"] if c["probability"] >= 0.33][:2]:
        parts.append(Text.assemble(("do  ", "green"), safe(cause["prescription"])))
    for f in known.report["findings"][:12]:
        severity = Severity(f["severity"])
        parts.append(
            Text.assemble(
                (f"{ICON[severity]} {f['code']} ", COLOUR[severity]),
                (f["name"].replace("-", " "), "bold"),
                f"  {safe(f['message'], 300)}",
            )
        )
    return Group(*parts)
