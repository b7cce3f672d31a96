"""Pictures for README and docs: `python -m tools.pictures RECORD OUT.svg` is the terminal page of a record.

Those of the rule pages are made by `tools/rule_pictures.py`.
"""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from traindx import api
from traindx.diagnosis import diagnose
from traindx.report import text


def page(record: str, out: str) -> None:
    """Render the page as SVG; the source is shown by name, so that no folder of anybody's machine is in the picture."""
    [run] = api.load(Path(record))
    run = replace(run, source=Path(run.source).name.rsplit("-", 2)[0])
    console = Console(record=True, width=104, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(text.page(diagnose(run)))
    Path(out).write_text(console.export_svg(title="traindx run train.py"), encoding="utf-8")


if __name__ == "__main__":
    page(*sys.argv[1:3])
