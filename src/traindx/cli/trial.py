"""`traindx trial NAME TARGET`"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from traindx.cli import options
from traindx.cli.bar import Bar, bar
from traindx.errors import EnvironmentFault, UsageError
from traindx.plain import STDERR, say
from traindx.probes.drive import session
from traindx.record import diary
from traindx.report.json import plain
from traindx.report.words import safe
from traindx.rule import nearest
from traindx.trial import Declined, Progress, Result, TrialKind

LONG_S = 60.0  # a trial that takes longer is asked for


@click.command("trial")
@click.argument("name", metavar="NAME")
@click.argument("target", metavar="TARGET", required=False)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT-ARGS…]")
@click.option(
    "--set", "limits", multiple=True, metavar="KEY=VALUE", help="Change a limit of the trial, for example --set steps=50."
)
@click.option("--at", type=click.IntRange(min=0), default=0, metavar="STEP", help="For scripts: start after this many updates.")
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also draw the result to FILE.svg, .html or .png.",
)
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Folder for the record.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a trial that takes more than a minute.")
@click.option(
    "--run",
    "of",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Add the result to the notes of RUN; `fix` takes its cause from there.",
)
@options.answering("Write the result to FILE.")
def command(
    name: str,
    target: str | None,
    args: tuple[str, ...],
    limits: tuple[str, ...],
    at: int,
    picture: Path | None,
    folder: Path | None,
    yes: bool,
    of: Path | None,
    format_: str,
    output: Path | None,
    quiet: bool,
) -> int:
    """Run one experiment on a copy of your task, which stays unchanged to the bit. `traindx trial list` lists them.

    TARGET is a training script as it is (arguments for it go after `--`), or file.py:factory or pkg.mod:factory.

    Example:  traindx trial lr-range train.py
    """
    from traindx.trial import catalogue

    trials = catalogue()
    screen = options.console()
    if name == "list":
        for kind in trials.values():
            most = f" to {kind.most()}" if kind.most() > kind.steps else ""
            screen.print(f"[bold]{kind.name:18}[/] {kind.summary} [dim](about {kind.steps}{most} steps)[/]")
        return 0
    if name not in trials:
        raise UsageError(f"there is no trial '{name}'{nearest(name, trials) or '; there are ' + ', '.join(trials)}")
    if target is None:
        raise UsageError(f"`traindx trial {name}` needs a TARGET such as train.py:make_task")
    kind = trials[name]
    values = limits_of(kind.make, limits)
    if name == "fix":
        values = _prescribed(values, of)
    place = session.folder(f"{name}-{_short(target)}", folder)
    fresh = not place.exists()
    try:
        with bar(quiet=quiet) as told:
            say = _nothing if quiet else _saying(told)
            result = _run(kind, target, args, values, at, told, say, _asking(yes, told), place)
    except Declined:
        say("cancelled; nothing was done")
        return 0
    except BaseException:
        if fresh:  # half a record is none
            shutil.rmtree(place, ignore_errors=True)
        raise
    if of is not None:
        diary.write(of, "trial", trial=name, target=target, result=result.result, reason=result.reason)
    document = {
        "schema": "traindx.trial/1",
        "trial": result.trial,
        "result": result.result,
        "answer": plain(result.answer),
        "reason": result.reason,
        "cost": {"steps": result.steps, "seconds": round(result.seconds, 2)},
        "record": result.record,
    }
    text = json.dumps(document, indent=2)
    if output:
        try:
            output.write_text(text + "\n", encoding="utf-8")
        except OSError as why:
            sys.stdout.write(text + "\n")
            raise EnvironmentFault(f"cannot write {output}: {why.strerror or why}") from None
    if format_ == "json" and not output:
        sys.stdout.write(text + "\n")
    elif format_ == "rich":
        style = {"pass": "green", "fail": "red", "refused": "yellow", "undecided": "yellow"}.get(result.result, "bold")
        screen.print(f"[{style}]{result.result}[/]  {safe(result.reason).removeprefix(f'{result.result}: ')}", highlight=False)
        if isinstance(result.answer.get("code"), str):
            screen.print(f"\n{safe(result.answer['code'], lines=True)}\n", markup=False, highlight=False, soft_wrap=True)
        screen.print(f"[dim]{result.steps} steps, {result.seconds:.1f} s{_told(result)}[/]", highlight=False, soft_wrap=True)
    if picture is not None:  # last: an answer is not lost because nothing can be drawn
        from traindx.report.trial import save

        save(result, picture)
    return 0


def _prescribed(values: dict[str, Any], of: Path | None) -> dict[str, Any]:
    """What `fix` is to try: as given, or the cure of the most probable cause of RUN; asked before anything is run."""
    from traindx import api
    from traindx.trials.prescription import change_of

    if not (values.get("change") or values.get("cause")) and of is not None:
        d = api.diagnose(of)
        first = next((s for s in d.likely if s.cause.change), None)
        if first is None:
            raise UsageError(
                f"no cause of {of} has a cure that can be tried on a fork; name one: --set change='{{\"lr\": 0.1}}'"
            )
        say(f"trying the cure of {first.cause.name} ({first.said}), the first of {of} to have one")
        values = {**values, "cause": first.cause.name}
    if bool(values.get("change")) == bool(values.get("cause")):
        raise UsageError(
            "`trial fix` needs a change or a cause: --set cause=lr-too-high, --set change='{\"lr\": 0.1}', or --run RUN for "
            "the first cause of that run"
        )
    change_of(values.get("cause") or values["change"])  # an unknown one is told now and not after a minute
    return values


def _nothing(text: str) -> None:
    """What --quiet says."""


def _run(
    kind: TrialKind,
    target: str,
    args: tuple[str, ...],
    values: dict[str, Any],
    at: int,
    told: Progress,
    say: Callable[[str], None],
    agreed: Callable[[str, float], bool],
    place: Path,
) -> Result:
    from traindx.capture.start import is_script, trial_on

    if is_script(target):
        return trial_on(target, args, kind.name, values, told, at, say, agreed, place)
    if at:
        raise UsageError("--at is for scripts; a factory gives its task in the state it wants")
    if args:
        raise UsageError("arguments after the target are for scripts; a factory takes none")
    from traindx.trials.recording import kept, recording
    from traindx.trials.target import task_from
    from traindx.trials.task import stated

    task = task_from(target)
    said, seconds = stated(kind, task, values)
    say(said)
    if not agreed(said, seconds):
        raise Declined
    with recording(place) as records:
        result = kind.run(task, told, **values)
    return dataclasses.replace(result, record=kept(result, records))


def _saying(shown: Bar) -> Callable[[str], None]:
    def aside(text: str) -> None:
        shown.rest()
        say(text)

    return aside


def _asking(yes: bool, shown: Bar) -> Callable[[str, float], bool]:
    """Asks before what takes more than a minute, where there is somebody to answer."""

    def agreed(said: str, seconds: float) -> bool:
        if yes or seconds <= LONG_S or not (sys.stdin.isatty() and STDERR.isatty()):
            return True
        shown.rest()
        return click.confirm("Begin?", default=True, err=True)

    return agreed


def _short(target: str) -> str:
    """A target's name for a folder: train of path/train.py:make_task."""
    return Path(target.rpartition(":")[0] or target).stem.rpartition(".")[2] or "task"


def _told(result: Result) -> str:
    return f"; record in {result.record}" if result.record else ""


YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def limits_of(make: Any, given: tuple[str, ...]) -> dict[str, Any]:
    """The limits of a trial from KEY=VALUE words, each read as the kind its field has."""
    kinds = typing.get_type_hints(make)
    fields = [f.name for f in dataclasses.fields(make)]
    values: dict[str, Any] = {}
    for pair in given:
        key, eq, text = pair.partition("=")
        if not eq or key not in fields:
            raise UsageError(f"--set needs KEY=VALUE with one of {', '.join(fields)}; got {pair!r}")
        values[key] = _read(key, text, kinds[key])
    return values


def _read(key: str, text: str, kind: Any) -> Any:
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    plain = {typing.get_origin(k) or k for k in kinds}
    if str in plain or (types.NoneType in plain and text.lower() in ("none", "null")):
        return text if str in plain else None
    if bool in plain:
        if text.lower() not in YES + NO:
            raise UsageError(f"--set {key} needs yes or no, not {text!r}")
        return text.lower() in YES
    try:
        value = json.loads(text if tuple not in plain or text.startswith("[") else f"[{text}]")
    except json.JSONDecodeError:
        value = None
    value = tuple(value) if isinstance(value, list) else value
    if not isinstance(value, (*plain, *((int,) if float in plain else ()))) or isinstance(value, bool):
        wanted = {int: "a whole number", float: "a number", tuple: "numbers such as 50,100", dict: "a JSON object"}
        raise UsageError(f"--set {key} needs {' or '.join(wanted[k] for k in plain if k in wanted)}, not {text!r}")
    return value
