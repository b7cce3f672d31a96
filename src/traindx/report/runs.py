"""Many runs, each judged once: what was judged before comes from the cache, the rest is judged on all cores."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from traindx import api, importers
from traindx.diagnosis import Diagnosis, diagnose, kept, many
from traindx.diagnosis.common import Sweep, sweep
from traindx.diagnosis.row import Row, row
from traindx.errors import NothingReadable, TraindxError
from traindx.record import is_record
from traindx.report import json as json_
from traindx.run import Run
from traindx.settings import Settings

Document = dict[str, Any]
Progress = Callable[[int, int, str], None]


def document(d: Diagnosis) -> Document:
    """What the pages show of a diagnosis, as plain JSON: its row in a table, its report, its stories, and a line of health."""
    stories = [{"root": s.root.code, "more": len(s.more), "explains": [f.code for f in s.consequences]} for s in d.stories]
    first = next((s.root for s in d.stories), None)
    health = {
        "verdict": d.verdict,
        "summary": d.summary,
        "severity": d.worst.value if d.worst else None,
        "finding": {"code": first.code, "message": first.message} if first else None,
        "cause": d.likely[0].cause.name if d.likely else None,
        "alarms": sum(f.severity.value != "info" for f in d.findings),
    }
    own = json.loads(json.dumps({**asdict(row(d)), "mark": importers.mark(d.run)}))  # the same whether it was kept or not
    return {**json_.plain({"report": json_.report(d), "stories": stories, "health": health}), "row": own}


def load(part: Path) -> list[Run]:
    """The runs of one part, as they are read alone."""
    return api.load(part) if is_record(part) else importers.part(part)


def judged(part: Path, settings: Settings | None = None) -> list[Document]:
    """The documents of the runs in one file or folder, from the cache where it holds them."""
    key = kept.key(part, importers.files_beside(part), settings)
    rows, rest = kept.get(key), kept.get(key, reports=True)
    if rows is not None and rest is not None and len(rows) == len(rest):
        return [{**more, "row": own} for own, more in zip(rows, rest)]
    return _judge(part, key, settings)


def _judge(part: Path, key: str, settings: Settings | None) -> list[Document]:
    made = [document(diagnose(run, settings)) for run in load(part)]
    if not any(d["row"]["running"] for d in made):  # what it says changes with the clock
        kept.put(key, [d["row"] for d in made], [{k: v for k, v in d.items() if k != "row"} for d in made])
    return made


class Runs:
    """The runs below some paths: their rows, and what could not be read."""

    def __init__(self, paths: Sequence[Path], settings: Settings | None = None) -> None:
        self.settings = settings
        self.parts: list[Path] = []
        self.notes: list[str] = []  # what was left out
        self.failures: list[str] = []
        for path in paths:
            found, notes = importers.parts(path)
            self.parts += found
            self.notes += notes

    def documents(self, *, reports: bool = False, progress: Progress | None = None) -> list[Document]:
        """A document for each run, worst first, each run once; without `reports` only their rows."""
        keys = [kept.key(part, importers.files_beside(part), self.settings) for part in self.parts]
        known = [None if reports else kept.get(key) for key in keys]
        found: list[list[Document]] = [[{"row": r} for r in rows] if rows else [] for rows in known]
        todo = [i for i, rows in enumerate(known) if rows is None]

        def work(i: int) -> list[Document] | str:
            try:
                made = judged(self.parts[i], self.settings) if reports else _judge(self.parts[i], keys[i], self.settings)
            except (TraindxError, OSError) as why:
                return str(why)
            return made if reports else [{"row": d["row"]} for d in made]

        told = f"judging {len(todo)} of {len(self.parts)} files or folders that may hold a run"
        if progress is not None and todo:
            progress(0, len(todo), told)
        for n, (i, made) in enumerate(zip(todo, many.each(todo, work), strict=True), 1):
            if isinstance(made, str):
                self.failures.append(made)
            else:
                found[i] = made
            if progress is not None:
                progress(n, len(todo), told)
        if todo:
            kept.tidy()
        every = sorted((d for documents in found for d in documents), key=lambda d: importers.natural(d["row"]["source"]))
        once = importers.once(every, lambda d: tuple(d["row"]["mark"]), _told, _noted)
        return sorted(once, key=lambda d: (d["row"]["rank"], d["row"]["source"]))

    def sweep(self, by: str | None = None, progress: Progress | None = None) -> Sweep:
        """All of them side by side."""
        rows = [as_row(d) for d in self.documents(progress=progress)]
        if not rows:
            raise NothingReadable(self.failures[0] if self.failures else "no training run found")
        return sweep(rows, by)


def as_row(d: Document) -> Row:
    """The row of a document."""
    given = {k: v for k, v in d["row"].items() if k != "mark"}
    tuples = {"rank": tuple(given["rank"]), "fails": tuple(given["fails"]), "unread": tuple(given["unread"])}
    return Row(**{**given, **tuples, "metrics": {k: tuple(v) for k, v in given["metrics"].items()}})


def _told(d: Document) -> tuple[str, str, int]:
    return d["row"]["kind"], d["row"]["source"], d["row"]["signals"]


def _noted(d: Document, other: str) -> Document:
    if "report" in d:
        d["report"]["run"]["notes"].append(importers.told_twice(other))
    return d
