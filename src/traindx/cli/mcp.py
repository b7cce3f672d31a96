"""`traindx mcp [DIR]`"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from traindx.errors import UsageError


@click.command("mcp")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("traindx-runs"), metavar="[DIR]")
@click.option("--debug", is_flag=True, hidden=True)
def command(folder: Path, debug: bool) -> int:
    """Serve the runs of a folder to coding agents (Model Context Protocol, stdio, read-only); needs traindx[mcp].

    Tools: list_runs, diagnose, explain, series, compare. Text from logs is marked as untrusted.

    Example:  traindx mcp traindx-runs   (the command an agent is told to start)
    """
    if not folder.exists():
        raise UsageError(f"there is no folder {folder}; record a run first: traindx run train.py")
    from traindx.mcp import serve

    serve(folder)
    return 0
