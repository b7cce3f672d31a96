"""`traindx diagnose PATH…`"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from traindx import api, importers
from traindx import diagnosis as diagnosis_
from traindx.cli import options
from traindx.diagnosis import Diagnosis
from traindx.diagnosis.many import diagnose_all
from traindx.errors import NothingReadable, PartlyReadable, TraindxError, UsageError
from traindx.settings import Settings


@click.command("diagnose")
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option(
    "--map", "maps", multiple=True, metavar="COLUMN=SIGNAL", help='Correct a column\'s meaning: --map "train_loss=loss/train".'
)
@click.option("--strict", is_flag=True, help="Exit 4 when part of the input could not be read.")
@click.option("--follow", is_flag=True, help="Stay, and say it again whenever the findings change; Ctrl-C ends.")
@click.option("--ask", is_flag=True, help="Walk through the complaint with you, question by question.")
@click.option(
    "--investigate", metavar="TARGET", help="Run the experiments that settle it, on train.py or file.py:factory, and conclude."
)
@click.option(
    "--complaint",
    metavar="DX-A…DX-P",
    help="What you see, where the record does not show it: DX-D is flat after a good start (an unknown one lists all).",
)
@click.option("--minutes", type=float, default=20.0, show_default=True, help="The budget of --investigate.")
@click.option(
    "--on",
    type=click.Choice(("here", "ray")),
    default="here",
    show_default=True,
    help="Where many runs are judged: on the cores of this machine, or on the Ray cluster that is running.",
)
@options.judging("critical")
def command(
    paths: tuple[str, ...],
    maps: tuple[str, ...],
    strict: bool,
    follow: bool,
    ask: bool,
    investigate: str | None,
    complaint: str | None,
    minutes: float,
    on: str,
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
    if ask or investigate:
        from traindx.cli.investigate import asked, investigated

        if investigate:
            return investigated(
                paths, investigate, minutes, format_, output, complaint=complaint or "", quiet=quiet, no_color=no_color
            )
        return asked(paths, no_color, complaint or "")
    if complaint:
        raise UsageError("--complaint goes with --ask or --investigate TARGET; a plain diagnosis looks at everything")
    if not paths:
        raise click.UsageError("Missing argument 'PATH…'.")
    show = functools.partial(options.deliver, verbose=verbose, no_color=no_color, quiet=quiet)
    if follow:
        return _follow(paths, _mapping(maps), chosen, lambda diagnoses: show(diagnoses, format_, output))
    runs, failures = _read(paths, _mapping(maps))
    skipped = [note for run in runs for note in run.notes if "skipped" in note]
    if strict and (failures or skipped):
        raise PartlyReadable(f"--strict: {(failures + skipped)[0]}")
    for failure in failures:
        sys.stderr.write(f"traindx: {failure}\n")
    diagnoses = api.worst_first(diagnose_all(runs, chosen, on=on))
    show(diagnoses, format_, output)
    return options.exit_code(diagnoses, chosen.fail_on)


def _follow(paths: tuple[str, ...], mapping: dict[str, str], chosen: Settings, show: Callable[[list[Diagnosis]], None]) -> int:
    """Show the diagnosis now and whenever what it says has changed, until Ctrl-C; the exit code is that of the last one."""
    if len(paths) != 1 or paths[0] == "-":
        raise UsageError("--follow watches one file or folder")
    if not Path(paths[0]).exists():
        raise UsageError(f"{paths[0]}: no such file or folder")
    diagnoses: list[Diagnosis] = []
    said = None
    try:
        for runs in importers.follow(paths[0], map=mapping or None):
            diagnoses = api.worst_first([diagnosis_.diagnose(run, chosen) for run in runs])
            saying = [(d.run.source, d.verdict, tuple((f.code, f.severity) for f in d.findings)) for d in diagnoses]
            if saying != said:
                show(diagnoses)
                said = saying
            _tell_where(diagnoses)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    return options.exit_code(diagnoses, chosen.fail_on)


def _tell_where(diagnoses: list[Diagnosis]) -> None:
    """One line on a terminal that says how far the run has come, written over by the next."""
    if sys.stderr.isatty():
        last = max(d.run.steps[1] if d.run.steps else 0 for d in diagnoses)
        sys.stderr.write(f"\r\x1b[Ktraindx: following {len(diagnoses)} run(s), now at step {last}; Ctrl-C ends")
        sys.stderr.flush()


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
            found = api.load(path if path == "-" or "://" in path else Path(path), columns=mapping or None)
        except TraindxError as why:
            if len(paths) == 1:
                raise
            failures.append(str(why))
            continue
        runs.extend(found)
    if not runs:
        raise NothingReadable(failures[0] if failures else f"{', '.join(paths)}: no training run found")
    return runs, failures
