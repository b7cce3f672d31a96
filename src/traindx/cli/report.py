"""`traindx report PATH -o report.html`"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from traindx import api
from traindx import diagnosis as diagnosis_
from traindx.cli import options
from traindx.errors import NothingReadable


@click.command("report")
@click.argument("path", metavar="PATH")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), default=Path("report.html"), show_default=True)
@click.option("--select", multiple=True, callback=options._codes, metavar="CODE[,…]", help="Check only these conditions.")
@click.option("--ignore", multiple=True, callback=options._codes, metavar="CODE[,…]", help="Skip these conditions.")
@click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Read settings from this file.")
def command(path: str, output: Path, select: tuple[str, ...], ignore: tuple[str, ...], config: Path | None) -> int:
    """Write one HTML file with the diagnosis, the evidence and every signal; it works offline.

    Example:  traindx report traindx-runs/train-20260101 -o report.html
    """
    chosen = options.settings(config, select, ignore, None, "never")
    runs = api.load(path if path == "-" else Path(path))
    if not runs:
        raise NothingReadable(f"{path}: no training run found")
    diagnoses = api.worst_first([diagnosis_.diagnose(run, chosen) for run in runs])
    options.deliver(diagnoses, "html", output)
    return 0
