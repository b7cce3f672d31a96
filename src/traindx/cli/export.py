"""`traindx export RUN --to parquet|csv|tensorboard`"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from traindx import api
from traindx.cli import options
from traindx.errors import UsageError
from traindx.plain import say
from traindx.record.export import export


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path), callback=options.spoken)
@click.option("--to", type=click.Choice(("parquet", "csv", "tensorboard")), required=True, help="Output format.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file or folder; next to the run by default.")
def command(run: Path, to: str, output: Path | None) -> int:
    """Write a run's signals in a format that other tools read.

    Example:  traindx export traindx-runs/train-20260101 --to csv
    """
    runs = api.load(run)
    if len(runs) != 1:
        raise UsageError(f"{run} holds {len(runs)} runs; name one of them")
    target = output or run.with_name(f"{run.name.rstrip('/')}-{to}")
    written = export(runs[0], to, target)
    say(f"{len(runs[0].signals)} signals written to {written}")
    return 0
