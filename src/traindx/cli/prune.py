"""`traindx prune [DIR]`"""

from __future__ import annotations

import time
from pathlib import Path

import rich_click as click

from traindx import settings as settings_
from traindx.cli import options
from traindx.cli.ls import megabytes, size
from traindx.cli.rm import delete
from traindx.diagnosis.common import SICK
from traindx.errors import TraindxError, UsageError
from traindx.plain import say
from traindx.record.listing import Record, list_records
from traindx.report import runs as runs_


@click.command("prune")
@click.argument("folder", required=False, type=click.Path(path_type=Path), callback=options.runs_folder, metavar="[DIR]")
@click.option("--older", metavar="AGE", help="Delete runs last seen longer ago than this: 12h, 30d, 8w.")
@click.option("--max-size", metavar="SIZE", help="Delete the oldest runs until the rest takes no more than this: 500M, 10G.")
@click.option("--keep-sick", is_flag=True, help="Keep runs that must be fixed or restarted.")
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(folder: Path, older: str | None, max_size: str | None, keep_sick: bool, dry_run: bool, yes: bool) -> int:
    """Delete the oldest records of a folder, by age or until the rest fits. It lists them and asks first.

    Only records of traindx are touched, and none that is still being written. Without options, `retention` of the settings
    counts.

    Example:  traindx prune --older 30d --keep-sick --dry-run
    """
    told = settings_.load().retention
    older, max_size = (older, max_size) if older or max_size else (told.get("older"), told.get("max-size"))
    if not older and not max_size:
        raise UsageError("say what may go: --older 30d or --max-size 10G, or `retention` in the settings")
    keep_sick = keep_sick or bool(told.get("keep-sick"))
    found = [r for r in (list_records(folder) if folder.is_dir() else []) if r.ended != "running" and not r.path.is_symlink()]
    before = time.time() - 86400 * settings_.age(str(older), "--older") if older else -1.0
    gone = [r for r in found if (r.updated or r.created or time.time()) < before]
    if max_size:
        gone += _beyond([r for r in found if r not in gone], settings_.weight(str(max_size), "--max-size"))
    kept = [r for r in gone if keep_sick and _sick(r)]
    if kept:
        say(f"{len(kept)} sick {'run is' if len(kept) == 1 else 'runs are'} kept")
    paths = [r.path for r in gone if r not in kept]
    if not paths:
        say(f"{folder}: nothing to delete")
        return 0
    return delete(paths, yes=yes, dry_run=dry_run)


def _beyond(newest_first: list[Record], most: float) -> list[Record]:
    total, gone = 0, []
    for r in newest_first:
        total += size(r.path)
        if total > most:
            gone.append(r)
    return gone


def _sick(r: Record) -> bool:
    """Whether it must be fixed; a run that cannot be judged is kept as well."""
    try:
        return any(d["row"]["verdict"] in SICK for d in runs_.judged(r.path))
    except (TraindxError, OSError) as why:
        say(f"{r.path.name}: kept, since it could not be judged ({why}); {megabytes(size(r.path))}")
        return True
