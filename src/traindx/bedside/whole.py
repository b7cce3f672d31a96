"""`traindx run nb.ipynb`: runs a notebook from its first to its last cell in a kernel, and keeps the outputs in a copy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


def main(source: Path, copy: Path) -> int:
    """Run it; what its cells print is printed, and the first error ends it, as in a script."""
    notebook = nbformat.read(source, as_version=4)

    def shown(cell: Any, cell_index: int, execute_reply: Any) -> None:
        for output in cell.get("outputs", ()):
            if output.get("output_type") == "stream":
                (sys.stderr if output["name"] == "stderr" else sys.stdout).write(output["text"])
        sys.stdout.flush()

    client = NotebookClient(
        notebook, timeout=None, on_cell_executed=shown, resources={"metadata": {"path": str(source.parent)}}
    )
    try:
        client.execute()
    except CellExecutionError as error:
        sys.stderr.write(f"{error.traceback}\n")
        return 1
    finally:
        nbformat.write(notebook, copy)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
