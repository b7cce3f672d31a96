"""`traindx diagnose PATH…`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import rich_click as click

from traindx import api
from traindx import diagnosis as diagnosis_
from traindx.cli import options
from traindx.errors import NothingReadable, PartlyReadable, TraindxError, UsageError


@click.command("diagnose")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--map", "maps", multiple=True, metavar="COLUMN=SIGNAL", help='Correct a column\'s meaning: --map "train_loss=loss/train".'
)
@click.option("--strict", is_flag=True, help="Exit 4 when part of the input could not be read.")
@options.judging("critical")
def command(
    paths: tuple[str, ...],
    maps: tuple[str, ...],
    strict: bool,
    format_: str,
    output: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    config: Path | None,
    verbose: bool,
    quiet: bool,
    no_color: bool,
    debug: bool,
) -> int:
    """Say what ails a run: traindx records, TensorBoard, W&B, HF, Lightning, Keras, CSV, JSONL, text; files or folders.

    Example:  traindx diagnose runs/exp1 --fail-on warning
    """
    chosen = options.settings(config, select, ignore, fail_on, "critical")
    runs, failures = _read(paths, _mapping(maps))
    skipped = [note for run in runs for note in run.notes if "skipped" in note]
    if strict and (failures or skipped):
        raise PartlyReadable(f"--strict: {(failures + skipped)[0]}")
    for failure in failures:
        sys.stderr.write(f"traindx: {failure}\n")
    diagnoses = api.worst_first([diagnosis_.diagnose(run, chosen) for run in runs])
    options.deliver(diagnoses, format_, output, verbose=verbose, no_color=no_color, quiet=quiet)
    return options.exit_code(diagnoses, chosen.fail_on)


def _mapping(maps: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for m in maps:
        column, eq, signal = m.partition("=")
        if not eq or not column or not signal:
            raise UsageError(f'--map wants COLUMN=SIGNAL, for example "train_loss=loss/train"; got {m!r}')
        pairs[column.strip()] = signal.strip()
    return pairs


def _read(paths: tuple[str, ...], mapping: dict[str, str]) -> tuple[list[Any], list[str]]:
    runs, failures = [], []
    for path in paths:
        try:
            found = api.load(path if path == "-" else Path(path), columns=mapping or None)
        except TraindxError as why:
            if len(paths) == 1:
                raise
            failures.append(str(why))
            continue
        runs.extend(found)
    if not runs:
        raise NothingReadable(failures[0] if failures else f"{', '.join(paths)}: no training run found")
    return runs, failures
