"""`eval "$(traindx env)"`"""

from __future__ import annotations

import shlex
from pathlib import Path

import rich_click as click

from traindx import settings
from traindx.bedside import command as in_front
from traindx.live import start as live_


@click.command("env")
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Folder for the records.")
def command(folder: Path | None) -> int:
    """Print shell variables. Once they are set, every Python training started from this shell is observed.

    Example:  eval "$(traindx env)"
    """
    chosen = settings.load()
    base = folder or settings.folder()
    speaks = {"live": live_.wanted(None, chosen.live), "ending": "page"}
    asked = {"budget": chosen.budget, "live": speaks, "settings": in_front.kept(chosen), "dir": str(base.absolute())}
    for name, value in in_front.environment(asked).items():
        click.echo(f"export {name}={shlex.quote(value)}")
    return 0
