"""`traindx now [RUN]`"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from traindx import api, settings
from traindx import diagnosis as diagnosis_
from traindx.cli import options
from traindx.errors import UsageError
from traindx.record import list_records


@click.command("now")
@click.argument("run", type=click.Path(path_type=Path), callback=options.runs_folder, required=False, metavar="[RUN]")
@click.option("-v", "--verbose", is_flag=True, help="Show all findings, and why other conditions were not checked.")
def command(run: Path, verbose: bool) -> int:
    """Print the page of a run as it is now; the run continues. Without RUN, of the one that was written to last.

    Example:  traindx now
    """
    diagnoses = [diagnosis_.diagnose(one, settings.load()) for one in api.load(newest(run))]
    options.deliver(diagnoses, "rich", None, verbose=verbose, quiet=False)
    return 0


def newest(folder: Path) -> Path:
    """The run in that folder that gave the last sign of life; the folder itself where it is one."""
    records = list_records(folder) if folder.is_dir() else []
    if not records:
        raise UsageError(f"there is no run in {folder}; name one: traindx now RUN")
    return records[0].path
