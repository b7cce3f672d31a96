"""`traindx diagnose PATH…`"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from traindx import api, importers
from traindx import diagnosis as diagnosis_
from traindx.cli import options
from traindx.cli.bar import bar
from traindx.diagnosis import Diagnosis, many
from traindx.errors import NothingReadable, PartlyReadable, TraindxError, UsageError
from traindx.plain import STDERR, say
from traindx.report import text
from traindx.report.runs import Runs
from traindx.settings import Settings

MOST_FAILURES = 5  # told one by one; of the rest the number


@click.command("diagnose")
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="COLUMN=SIGNAL",
    help='Correct a column\'s meaning: "train_loss=loss/train"; "x=COLUMN" names the axis.',
)
@click.option("--remember", is_flag=True, help="Keep what --map says in a small file next to the log, for the next time.")
@click.option("--strict", is_flag=True, help="Exit 4 when part of the input could not be read, or a run cannot be judged.")
@click.option(
    "--follow", is_flag=True, help="Keep watching and print the diagnosis again whenever it changes; stop with Ctrl-C."
)
@click.option("--ask", is_flag=True, help="Narrow the problem down with you, question by question.")
@click.option(
    "--investigate",
    metavar="TARGET",
    help="Run the experiments that confirm or refute the diagnosis, on train.py or file.py:factory.",
)
@click.option(
    "--complaint",
    metavar="DX-A…DX-P",
    help="The symptom you see, if the record does not show it, such as DX-D (flat after a good start); other words list them.",
)
@click.option("--minutes", type=float, default=20.0, show_default=True, help="Most minutes for --investigate.")
@click.option(
    "--on",
    type=click.Choice(("here", "ray")),
    default="here",
    show_default=True,
    help="Where to judge many runs: on the cores of this machine or on a running Ray cluster.",
)
@click.option(
    "--by",
    metavar="METRIC",
    callback=options.kept("by"),
    expose_value=False,
    help="With several runs: the metric to rank them by, such as val_acc.",
)
@click.option(
    "--sort",
    metavar="COLUMN",
    callback=options.kept("sort"),
    expose_value=False,
    help="With several runs: order by verdict, metric, name or a setting such as lr.",
)
@click.option("--why-healthy", is_flag=True, help="Show only what the judgement rests on: did it learn, and how do we know?")
@options.judging("critical")
def command(
    paths: tuple[str, ...],
    maps: tuple[str, ...],
    remember: bool,
    strict: bool,
    follow: bool,
    ask: bool,
    investigate: str | None,
    complaint: str | None,
    minutes: float,
    on: str,
    why_healthy: bool,
    format_: str,
    output: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    config: Path | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Diagnose runs: traindx records, TensorBoard, W&B, HF, Lightning, Keras, CSV, JSONL, text; files or folders.

    Example:  traindx diagnose runs/exp1 --fail-on warning
    """
    chosen = options.settings(config, select, ignore, fail_on, "critical")
    if ask or investigate:
        from traindx.cli.investigate import asked, investigated

        if investigate:
            return investigated(paths, investigate, minutes, format_, output, complaint=complaint or "", quiet=quiet)
        return asked(paths, complaint or "")
    if complaint:
        raise UsageError("--complaint works with --ask or --investigate TARGET only; a plain diagnosis checks everything")
    paths = paths or options.piped()
    if not paths:
        raise UsageError("diagnose needs a run or a log, for example `traindx diagnose runs/exp1`, or a log piped into it")
    show = functools.partial(options.deliver, verbose=verbose, quiet=quiet)
    if follow:
        return _follow(paths, _mapping(maps), chosen, lambda diagnoses: show(diagnoses, format_, output))
    simple = not (strict or maps or why_healthy or verbose) and on == "here" and format_ in ("rich", "json", "csv", "markdown")
    if simple and options.plain_many() and all(Path(p).exists() for p in paths):
        code = _many(Runs([Path(p) for p in paths], chosen), chosen, format_, output, quiet=quiet)
        if code is not None:
            return code
    runs, failures = _read(paths, _mapping(maps))
    if remember:
        _remember(paths, _mapping(maps))
    skipped = [note for run in runs for note in run.notes if "skipped" in note]
    if strict and (failures or skipped):
        raise PartlyReadable(f"--strict: {(failures + skipped)[0]}")
    for failure in failures:
        say(f"{failure}")
    diagnoses = options.gated(api.worst_first(many.diagnose_all(runs, chosen, on=on)), chosen)
    if why_healthy:
        click.echo("\n\n".join(text.why_healthy(d) for d in diagnoses))
    else:
        show(diagnoses, format_, output)
    undecided = strict and any(d.verdict == "cannot-tell" for d in diagnoses)
    return options.exit_code(diagnoses, chosen.fail_on) or (4 if undecided else 0)


def _many(runs: Runs, chosen: Settings, format_: str, output: Path | None, *, quiet: bool) -> int | None:
    """The table of several runs; None where there are not several, which is then read and shown as one."""
    if len(runs.parts) < 2:
        return None
    with bar(quiet=quiet) as shown:

        def progress(done: int, total: int, what: str) -> None:
            shown(done, total, what)
            if not done and total >= many.FEW and not quiet and not STDERR.isatty():  # one line where no bar can be drawn
                say(what)

        documents = runs.documents(reports=format_ == "json", progress=progress)
    if len(documents) < 2:
        return None
    for note in runs.notes:
        say(note)
    alike: dict[tuple[str, str], list[str]] = {}
    for failure in runs.failures:
        file, _, why = failure.partition(": ")
        alike.setdefault((Path(file).name, why), []).append(file)
    for (name, why), files in list(alike.items())[:MOST_FAILURES]:
        say(f"not read: {files[0]}{f' and {len(files) - 1} more named {name}' if len(files) > 1 else ''}: {why}")
    if (more := sum(map(len, list(alike.values())[MOST_FAILURES:]))) > 0:
        say(f"not read: {more} more")
    options.deliver_many(documents, format_, output, quiet=quiet)
    return int(any(chosen.fail_on in d["row"]["fails"] for d in documents))


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
            diagnoses = options.gated(api.worst_first([diagnosis_.diagnose(run, chosen) for run in runs]), chosen)
            saying = [(d.run.source, d.verdict, tuple((f.code, f.severity) for f in d.findings), d.gates) for d in diagnoses]
            if saying != said:
                show(diagnoses)
                said = saying
            _tell_where(diagnoses)
    except KeyboardInterrupt:
        STDERR.write("\n")
    return options.exit_code(diagnoses, chosen.fail_on)


def _tell_where(diagnoses: list[Diagnosis]) -> None:
    """One line on a terminal that says how far the run has come, written over by the next."""
    if STDERR.isatty():
        last = max(d.run.steps[1] if d.run.steps else 0 for d in diagnoses)
        runs = "1 run" if len(diagnoses) == 1 else f"{len(diagnoses)} runs"
        STDERR.write(f"\r\x1b[Ktraindx: following {runs}, now at step {last}; stop with Ctrl-C")


def _mapping(maps: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for m in maps:
        column, eq, signal = m.partition("=")
        if not eq or not column or not signal:
            raise UsageError(f'--map needs COLUMN=SIGNAL, for example "train_loss=loss/train"; got {m!r}')
        pairs[column.strip()] = signal.strip()
    return pairs


def _remember(paths: tuple[str, ...], mapping: dict[str, str]) -> None:
    files = [Path(path) for path in paths if path != "-" and Path(path).is_file()]
    if not mapping or len(files) != len(paths):
        raise UsageError("--remember keeps what --map says next to a file: it needs both")
    for file in files:
        try:
            STDERR.write(f"traindx: remembered in {importers.remember(file, mapping)}\n")
        except OSError as why:
            raise UsageError(f"{file}: nothing can be written next to it: {why.strerror}") from None


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
