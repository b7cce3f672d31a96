"""`traindx export RUN --to parquet|csv|tensorboard`"""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from traindx import api
from traindx.errors import UsageError
from traindx.record.export import export


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--to", type=click.Choice(("parquet", "csv", "tensorboard")), required=True, help="What to write.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where; beside the run by default.")
@click.option("--debug", is_flag=True, hidden=True)
def command(run: Path, to: str, output: Path | None, debug: bool) -> int:
    """Write a run's signals in a format other tools read: the data is yours.

    Example:  traindx export traindx-runs/train-20260101 --to csv
    """
    runs = api.load(run)
    if len(runs) != 1:
        raise UsageError(f"{run} holds {len(runs)} runs; name one of them")
    target = output or run.with_name(f"{run.name.rstrip('/')}-{to}")
    written = export(runs[0], to, target)
    sys.stderr.write(f"traindx: {len(runs[0].signals)} signals written to {written}\n")
    return 0
