"""`traindx bundle RUN`"""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from traindx.cli.ls import megabytes
from traindx.cli.rm import record_of
from traindx.plain import say
from traindx.probes.read.machine import surroundings
from traindx.record import bundle, sources


@click.command("bundle")
@click.argument("run", metavar="RUN")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The zip file.  [default: NAME.zip]")
def command(run: str, output: Path | None) -> int:
    """Pack a record into one file for a colleague: secrets are hidden and listed, capsules and kept batches stay out.

    `diagnose`, `report` and `compare` read it as it is.

    Example:  traindx bundle @last -o run.zip
    """
    record = record_of(run)
    target = output or Path(f"{record.name}.zip")
    for sentence in bundle.pack(record, target, _scrub):
        say(sentence)
    say(f"{target} holds {record}, {megabytes(target.stat().st_size)}; read it before you send it: traindx diagnose {target}")
    return 0


def _scrub(name: str, text: str) -> str:
    return sources.HIDDEN if surroundings.hides(name, text) else surroundings.scrubbed(text)
