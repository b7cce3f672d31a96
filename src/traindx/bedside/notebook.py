"""In a notebook: `%load_ext traindx` watches the training of every later cell, and shows its page when the cell ends.

`%traindx` shows the last page again, `%traindx off` ends the watching, `%traindx on` resumes it; `%%traindx` watches one cell.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from traindx import diagnosis as diagnosis_
from traindx import settings
from traindx.bedside.watcher import Watcher
from traindx.live import start as live_
from traindx.plain import say
from traindx.probes.drive import session
from traindx.probes.launch import script_runner

_loaded: dict[int, Cells] = {}  # by the shell


class Cells:
    """The cells of one shell: each that trains is a run."""

    def __init__(self, shell: Any) -> None:
        self.shell, self.on = shell, True
        self.found: diagnosis_.Diagnosis | None = None  # of the last cell that trained
        self._watcher: Watcher | None = None
        self._inner: dict[str, int] = {}  # files of code that a `%%traindx` cell runs, with the number of that cell
        self._off: Callable[[], None] = lambda: None

    def begins(self, info: Any = None) -> None:
        """A cell is about to run, or is running."""
        if self.on:
            self.watch()

    def watch(self) -> None:
        """Observe what this cell trains."""
        chosen = settings.load()
        if self._watcher is not None or chosen.disabled:
            return
        speaks = {"live": live_.wanted(None, chosen.live), "ending": "own"}
        watcher = Watcher("cell", [], chosen, place=self._place, budget=chosen.budget, live=speaks)

        def begin() -> None:
            watcher.begin()
            watcher.recorder.sink.spoken = self.spoken

        self._watcher, self._off = watcher, script_runner.when_torch_is_there(begin)

    def _place(self) -> Path:
        """The folder of the record of the cell that is running."""
        return session.folder(f"cell-{max(self._numbers().values(), default=1)}", None)

    def _numbers(self) -> dict[str, int]:
        """The number of each cell, by the file that its code claims to stand in."""
        return {**getattr(self.shell.compile, "_filename_map", {}), **self._inner}

    def ends(self, result: Any = None) -> None:
        """The cell is over, or was interrupted: complete its record and show its page."""
        watcher, self._watcher = self._watcher, None
        self._off()
        if watcher is None:
            return
        error = getattr(result, "error_in_exec", None)
        watcher.end(script_runner.Ended(1, "exception", error) if error is not None else script_runner.Ended(0, "closed"))
        if watcher.recorder is not None and watcher.recorder.started:
            self.found = diagnosis_.diagnose(watcher.run(), watcher.chosen)
            self.show()

    def show(self) -> None:
        """The page of the last cell that trained, below the cell that asks for it."""
        if self.found is None:
            say("no cell has trained yet")
        else:
            importlib.import_module("IPython.display").display(self.found)

    def spoken(self, thing: Any) -> Any:
        """Places as a reader knows them: cell 4, line 3."""
        if isinstance(thing, str):
            for name, number in self._numbers().items():
                if name in thing:
                    thing = re.sub(rf"{re.escape(name)}:(\d+)(?::\d+)?", rf"cell {number}, line \1", thing)
                    thing = thing.replace(name, f"cell {number}")
            return thing
        if isinstance(thing, dict):
            return {self.spoken(k): self.spoken(v) for k, v in thing.items()}
        return [self.spoken(v) for v in thing] if isinstance(thing, list | tuple) else thing

    def line(self, text: str) -> None:
        """`%traindx [on|off]`"""
        if text.strip() in ("on", "off"):
            self.on = text.strip() == "on"
        else:
            self.show()

    def cell(self, text: str, body: str) -> Any:
        """`%%traindx`: watch this cell, whether or not the others are."""
        body = f"#\n{body}"  # so that its lines are those of the cell
        name = self.shell.compile.get_code_name(body, self.shell.transform_cell(body), self.shell.execution_count)
        self._inner[name] = max(self._numbers().values(), default=1)
        self.watch()
        return self.shell.run_cell(body).result


def load(shell: Any = None) -> Cells:
    """Watch the cells of this shell from the next one on."""
    shell = shell or importlib.import_module("IPython").get_ipython()
    if id(shell) not in _loaded:
        cells = _loaded[id(shell)] = Cells(shell)
        shell.events.register("pre_run_cell", cells.begins)
        shell.events.register("post_run_cell", cells.ends)
        shell.register_magic_function(cells.line, "line", "traindx")
        shell.register_magic_function(cells.cell, "cell", "traindx")
    return _loaded[id(shell)]


def unload(shell: Any) -> None:
    """Watch no longer, and leave nothing behind."""
    cells = _loaded.pop(id(shell), None)
    if cells is not None:
        cells.ends()
        shell.events.unregister("pre_run_cell", cells.begins)
        shell.events.unregister("post_run_cell", cells.ends)
