"""`traindx rm RUN…`"""

from __future__ import annotations

import shutil
from pathlib import Path

import rich_click as click

from traindx.cli.ls import megabytes, size
from traindx.errors import EnvironmentFault, UsageError
from traindx.plain import say
from traindx.record.listing import is_record, list_records, spoken


@click.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
def command(runs: tuple[str, ...], yes: bool, dry_run: bool) -> int:
    """Delete recorded runs. It lists them and asks first; only folders that are a traindx record are ever touched.

    Example:  traindx rm @last
    """
    return delete(list(dict.fromkeys(record_of(run) for run in runs)), yes=yes, dry_run=dry_run)


def delete(paths: list[Path], *, yes: bool, dry_run: bool) -> int:
    """Say what goes, ask, and delete it."""
    for path in paths:
        click.echo(f"{path}  {megabytes(size(path))}")
    if dry_run:
        return 0
    count = f"{len(paths)} {'run' if len(paths) == 1 else 'runs'}, {megabytes(sum(map(size, paths)))}"
    if not yes and not _agreed(f"Delete {count}?"):
        say("nothing was deleted")
        return 0
    for path in paths:
        try:
            shutil.rmtree(path)
        except OSError as why:
            raise EnvironmentFault(f"cannot delete {path}: {why.strerror or why}") from None
    say(f"deleted {count}")
    return 0


def _agreed(question: str) -> bool:
    """Whether somebody says yes; where nobody can be asked, nobody did."""
    try:
        return click.confirm(question)
    except click.Abort:
        click.echo()
        return False


def record_of(text: str) -> Path:
    """The folder of a record that is named, and that nobody writes to any more."""
    path = spoken(text)
    if path.is_symlink() or not path.is_dir() or not is_record(path):
        raise UsageError(f"{path} is not the folder of a traindx record")
    if any(r.ended == "running" for r in list_records(path)):
        raise UsageError(f"{path} is still being written; stop that run first")
    return path
