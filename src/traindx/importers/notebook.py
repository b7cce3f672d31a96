"""Notebooks: what the cells of an .ipynb printed, one log for each cell that trained or broke."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from traindx.errors import NothingReadable
from traindx.importers import console
from traindx.importers.source import Source
from traindx.importers.table import Log, Options


def can_read(source: Source) -> bool:
    """Whether it is a notebook."""
    head = source.text_head
    return head.lstrip().startswith("{") and '"cells"' in head and ('"nbformat"' in head or source.stem.endswith(".ipynb"))


def read(source: Source, options: Options) -> list[Log]:
    """The logs in the outputs of its cells; the name of each says which cell."""
    try:
        cells = json.loads(source.whole()).get("cells")
    except (ValueError, RecursionError, AttributeError) as why:
        raise NothingReadable(f"{source.name}: looks like a notebook and is no valid JSON: {str(why)[:100]}") from None
    logs = []
    for number, cell in enumerate(cells if isinstance(cells, list) else (), 1):
        text = "\n".join(_printed(cell)) if isinstance(cell, dict) else ""
        if text.strip():
            logs += console.logs_of_text(text, f"{source.name} cell {number}", options)
    if not logs:
        raise NothingReadable(f"{source.name}: a notebook, and no output of its cells holds a loss, a metric or an error")
    return logs


def _printed(cell: dict[str, Any]) -> Iterator[str]:
    """The text of a cell's outputs; an error as Python prints it."""
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        if output.get("output_type") == "error":
            yield f"Traceback (most recent call last):\n{output.get('ename')}: {output.get('evalue')}"
        else:
            data = output.get("data")
            yield _joined(output.get("text") or (data.get("text/plain") if isinstance(data, dict) else ""))


def _joined(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text or "")
