"""`traindx mcp [DIR]`"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from traindx.cli import options


@click.command("mcp")
@click.argument("folder", type=click.Path(path_type=Path), callback=options.runs_folder, required=False, metavar="[DIR]")
@click.option(
    "--allow-trials",
    is_flag=True,
    help="Also offer check and trial. They run training scripts below the current folder, as you.",
)
def command(folder: Path, allow_trials: bool) -> int:
    """Serve the runs of a folder to coding agents over the Model Context Protocol (stdio, read-only); needs traindx[mcp].

    Tools: list_runs, diagnose, explain, series, compare. Text from logs is marked as untrusted. The folder need not exist yet.

    Example:  traindx mcp traindx-runs   (the command for the agent's configuration)
    """
    from traindx.mcp import serve

    serve(folder, trials=allow_trials)
    return 0
