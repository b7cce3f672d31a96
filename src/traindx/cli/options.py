"""Options that verbs share, and the way results reach the user: stdout or a file, words on stderr."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import rich_click as click
from rich.console import Console

from traindx import api
from traindx import rule as rules_
from traindx import settings as settings_
from traindx.cli import profiles
from traindx.diagnosis import Diagnosis, diagnose, gates
from traindx.diagnosis.row import Row, row
from traindx.errors import EnvironmentFault, UsageError
from traindx.finding import Severity
from traindx.plain import STDERR, say
from traindx.record import listing
from traindx.run import Run

if TYPE_CHECKING:
    from traindx.diagnosis.common import Sweep
    from traindx.report.runs import Document

FORMATS = ("rich", "json", "html", "sarif", "junit", "markdown", "github", "csv")
ONE_PAGE = "\n`traindx diagnose PATH` on one of them, or --verbose, gives its page."
F = TypeVar("F", bound=Callable[..., Any])


def _codes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(code.strip().upper() for part in value for code in part.split(",") if code.strip())


def _profile(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    ctx.meta["traindx.profile"] = value  # read by `settings` and `deliver`, so that no verb has to carry it


def _chosen_profile() -> str | None:
    return _meta().get("traindx.profile")


def _meta() -> dict[str, Any]:
    ctx = click.get_current_context(silent=True)
    return ctx.meta if ctx is not None else {}


EVERYWHERE = (("--no-color", "No colours (also: NO_COLOR)."), ("--debug", "Show the traceback of an error."))


def shared(command: click.Command) -> click.Command:
    """The command with the options that every verb takes, kept next to it so that none has to carry them."""
    there = {name for param in command.params for name in param.opts}
    for name, told in EVERYWHERE:
        if name not in there:
            keep = kept(name.removeprefix("--").replace("-", "_"))
            hidden = name == "--debug" and "--verbose" not in there
            command.params.append(
                click.Option([name], is_flag=True, expose_value=False, callback=keep, help=told, hidden=hidden)
            )
    return command


def kept(name: str, read: Callable[[Any], Any] = lambda given: given) -> Callable[..., None]:
    """Keeps an option next to the command, for `gated`, so that no verb has to carry it."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta[f"traindx.{name}"] = read(value)

    return keep


def gated(diagnoses: Sequence[Diagnosis], chosen: settings_.Settings) -> list[Diagnosis]:
    """The diagnoses with the answers to --require, --baseline and --new-only."""
    wanted, baselines = _gates(), _baselines()
    if not any(wanted):
        return list(diagnoses)
    required, _, new_only = wanted
    before = [diagnose(run, chosen) for run in baselines] if new_only else []
    with_gates = [gates.judged(d, required, baselines) for d in diagnoses]
    return [gates.against(d, before) for d in with_gates] if new_only else with_gates


def unjudged(code: int) -> int:
    """The exit code where no run could be judged: 4 if something was required, unless the program itself failed."""
    required = _gates()[0]
    for requirement in required:
        say(f"cannot tell: {requirement.text}: no run was recorded that could be held against it")
    return code or (4 if required else 0)


def plain_many() -> bool:
    """Whether nothing was asked that needs more than the rows of many runs."""
    return not any(_gates()) and _chosen_profile() is None


def _gates() -> tuple[tuple[gates.Requirement, ...], tuple[Path, ...], bool]:
    meta = _meta()
    return meta.get("traindx.require", ()), meta.get("traindx.baseline", ()), meta.get("traindx.new_only", False)


def check_gates() -> None:
    """Refuse what cannot be asked, and a baseline that cannot be read, before anything runs."""
    required, paths, new_only = _gates()
    gates.needed(required, bool(paths), new_only)
    _baselines()


def _baselines() -> list[Run]:
    meta = _meta()
    if "traindx.baselines" not in meta:
        meta["traindx.baselines"] = [run for path in meta.get("traindx.baseline", ()) for run in api.load(path)]
    runs: list[Run] = meta["traindx.baselines"]
    return runs


def _there(path: Path) -> Path:
    """A baseline that exists."""
    if not (meant := listing.spoken(path)).exists():
        raise UsageError(f"--baseline {path}: there is no such file, folder or record")
    return meant


def judging(default_fail_on: str) -> Callable[[F], F]:
    """The options of every verb that ends in a diagnosis."""
    options = [
        click.option(
            "--format", "format_", type=click.Choice(FORMATS), default="rich", show_default=True, help="Output format."
        ),
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write the result to FILE instead of the terminal.",
        ),
        click.option(
            "--select",
            multiple=True,
            callback=_codes,
            metavar="CODE[,…]",
            help="Check only these conditions; prefixes such as GRAD work.",
        ),
        click.option("--ignore", multiple=True, callback=_codes, metavar="CODE[,…]", help="Skip these conditions."),
        click.option(
            "--fail-on",
            type=click.Choice(settings_.FAIL_ON),
            default=None,
            help="Exit 1 on findings of this severity or worse, or on 'restart' only with that verdict."
            f"  [default: {default_fail_on}]",
        ),
        click.option(
            "--require",
            multiple=True,
            callback=kept("require", lambda given: tuple(gates.parse(text) for text in given)),
            expose_value=False,
            metavar="'NAME OP NUMBER [* baseline]'",
            help="Exit 1 unless this holds, 4 if it cannot be evaluated: --require 'val_acc >= 0.93'.",
        ),
        click.option(
            "--baseline",
            multiple=True,
            type=click.Path(path_type=Path),
            callback=kept("baseline", lambda given: tuple(map(_there, given))),
            expose_value=False,
            help="A run to measure against; several, or a folder of seeds, make a band.",
        ),
        click.option(
            "--new-only",
            is_flag=True,
            callback=kept("new_only"),
            expose_value=False,
            help="Fail only on findings that the baseline does not have.",
        ),
        click.option(
            "--profile",
            type=click.Choice(("sagemaker",)),
            callback=_profile,
            expose_value=False,
            help="Check only what another tool checks, under its names and limits.",
        ),
        click.option("--config", type=click.Path(path_type=Path, dir_okay=False), help="Read settings from this file."),
        click.option("-v", "--verbose", is_flag=True, help="Show all findings, and why other conditions were not checked."),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing if there is no finding."),
    ]

    def add(f: F) -> F:
        for option in reversed(options):
            f = option(f)
        return f

    return add


def answering(help_: str) -> Callable[[F], F]:
    """The options of verbs that end in the answer of an experiment."""
    options = [
        click.option("--format", "format_", type=click.Choice(("rich", "json")), default="rich", show_default=True),
        click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help=help_),
        click.option("-q", "--quiet", is_flag=True, help="Print the answer only."),
    ]

    def add(f: F) -> F:
        for option in reversed(options):
            f = option(f)
        return f

    return add


def settings(
    config: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    default: str,
    *,
    trains: bool = False,
) -> settings_.Settings:
    """The user's settings in all layers with the command line on top. Where it `trains`, a bad site file stops nothing."""
    check_gates()
    loaded = _known_codes(settings_.load(file=config, warn=say if trains else None), trains=trains)
    for sentence in loaded.expired:
        say(sentence)
    chosen = dataclasses.replace(
        loaded,
        select=select or tuple(c.upper() for c in loaded.select),
        ignore=(*ignore, *(c.upper() for c in loaded.ignore)),
        fail_on=fail_on or loaded.fail_on or default,
    )
    profile = _chosen_profile()
    return profiles.applied(chosen, profile) if profile else chosen


def _known_codes(loaded: settings_.Settings, *, trains: bool) -> settings_.Settings:
    """The settings without conditions and limits that are not there. They are an error, but they stop no training."""
    left: dict[str, Any] = {"rules": dict(loaded.rules), "severity": dict(loaded.severity)}
    left |= {"select": list(loaded.select), "ignore": list(loaded.ignore)}
    for key, code, why in list(_wrong_codes(loaded)):
        if not trains:
            raise UsageError(why)
        say(f"{why}; it was left out")
        left[key].pop(code) if isinstance(left[key], dict) else left[key].remove(code)
    return dataclasses.replace(loaded, **left | {"select": tuple(left["select"]), "ignore": tuple(left["ignore"])})


def _wrong_codes(loaded: settings_.Settings) -> Iterator[tuple[str, str, str]]:
    for code, limits in loaded.rules.items():
        told = {key: _complaint(rules_.with_limits, {}, {code: {key: limits[key]}}) for key in limits}
        for key, why in [(key, why) for key, why in told.items() if why][:1]:
            yield "rules", code, f"{settings_.at(Path(re.sub(r':[0-9]+$', '', loaded.origins['rules'])), key)}: {why}"
    for key in ("severity", "select", "ignore"):
        for code in getattr(loaded, key):
            if why := _complaint(rules_.select, rules_.catalogue(), (code.upper(),)):
                yield key, code, f"{loaded.origins[key]}: {why}"


def _complaint(check: Callable[..., Any], *given: Any) -> str:
    """What a check says against something; nothing when it accepts it."""
    try:
        check(*given)
    except UsageError as why:
        return str(why)
    return ""


def piped() -> tuple[str, ...]:
    """Standard input as the path to read, when something is piped or redirected into it."""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or replaced by something that is no file
        return ()
    return ("-",) if stat.S_ISFIFO(kind) or stat.S_ISREG(kind) else ()


def runs_folder(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path:
    """A folder or the record that is named; without one, where `traindx run` puts records: $TRAINDX_DIR or ./traindx-runs."""
    return listing.spoken(value) if value is not None else settings_.folder()


def spoken(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """`@last`, a name or a prefix as the path of that record."""
    return listing.spoken(value)


class Screen(Console):
    """A console whose reader may go away (`| head`): that is no error of ours."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def debugging() -> bool:
    """Whether --debug was given."""
    return bool(_meta().get("traindx.debug"))


def colourless() -> bool:
    """Whether --no-color was given."""
    return bool(_meta().get("traindx.no_color"))


def console(*, stderr: bool = False, file: Any = None) -> Console:
    """A console that respects NO_COLOR, dumb terminals and pipes."""
    piped = not (STDERR if stderr else sys.stdout).isatty() and not os.environ.get("FORCE_COLOR")
    width = 100 if piped and "COLUMNS" not in os.environ else None
    own = cast(IO[str], STDERR) if stderr and file is None else file
    return Screen(no_color=colourless() or None, highlight=False, width=width, file=own, soft_wrap=False)


def unicode_ok(console_: Console) -> bool:
    """Whether the terminal's encoding can show bars and icons."""
    return "utf" in (console_.encoding or "").lower()


def deliver(
    diagnoses: Sequence[Diagnosis],
    format_: str,
    output: Path | None,
    *,
    verbose: bool = False,
    quiet: bool = False,
    to_stderr: bool = False,
) -> None:
    """Render the diagnoses and put them where the user asked."""
    profile = _chosen_profile()
    if profile and not quiet:
        STDERR.write(profiles.summary(diagnoses, profile))
    loud = any(d.worst is not None and d.worst > Severity.INFO for d in diagnoses)
    loud |= any(g.result != "passed" for d in diagnoses for g in d.gates)
    if quiet and not loud and output is None:
        return
    if format_ == "rich" and output is None:
        screen = console(stderr=to_stderr)
        _print_pages(screen, diagnoses, verbose)
        return
    put(_text(diagnoses, format_, verbose), output, quiet=quiet, to_stderr=to_stderr)


def put(text: str, output: Path | None, *, quiet: bool = False, to_stderr: bool = False) -> None:
    """A result where the user asked for it: in a file, or on stdout."""
    if output is None:
        stream = STDERR if to_stderr else sys.stdout
        stream.write(text + "\n")
        stream.flush()  # a reader of --follow waits for it
        return
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        _put_whole(output, text + "\n")
    except OSError as why:
        raise EnvironmentFault(f"cannot write {output}: {why.strerror or why}") from None
    if not quiet:
        say(f"report written to {output}")


def _put_whole(path: Path, text: str) -> None:
    """Replace `path` with the whole text, or leave what was there."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")  # a link, a pipe, /dev/stdout: written through, never replaced
        return
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def side_by_side(rows: Sequence[Row]) -> tuple[Sweep, Sequence[int]]:
    """Runs as a sweep in the order of --by and --sort, and the place that each had."""
    from traindx.diagnosis import common  # these take a while to import, and one run is the usual case
    from traindx.report import sweep as sweeps

    by = _meta().get("traindx.by")
    made = common.sweep(rows, by)
    order = sweeps.ordered(made, _meta().get("traindx.sort") or "verdict")
    return (made if list(order) == list(range(len(order))) else common.sweep([rows[i] for i in order], by)), order


def deliver_many(documents: Sequence[Document], format_: str, output: Path | None, *, quiet: bool) -> None:
    """Show runs of which only rows (for JSON also reports) are known."""
    from traindx.report import json as json_
    from traindx.report import runs as runs_
    from traindx.report import sweep as sweeps

    made, order = side_by_side([runs_.as_row(d) for d in documents])
    if quiet and output is None and not any(r.rank[2] for r in made.rows):
        return
    if format_ == "rich" and output is None:
        screen = console()
        screen.print(sweeps.table(made, screen.width))
        screen.print(ONE_PAGE, style="dim")
        return
    if format_ == "json":
        text = json_.documents([documents[i]["report"] for i in order], sweeps.document(made))
    else:
        text = (sweeps.as_csv if format_ == "csv" else sweeps.markdown)(made)
    put(text, output, quiet=quiet)


def _print_pages(screen: Console, diagnoses: Sequence[Diagnosis], verbose: bool) -> None:
    from traindx.report import text

    if len(diagnoses) > 1:
        from traindx.report import sweep as sweeps

        screen.print(sweeps.table(side_by_side([row(d) for d in diagnoses])[0], screen.width))
        screen.print(text.gates(diagnoses))
        if not verbose:
            screen.print(ONE_PAGE, style="dim")
            return
    for d in diagnoses:
        screen.print(text.page(d, unicode=unicode_ok(screen), verbose=verbose))


def _text(diagnoses: Sequence[Diagnosis], format_: str, verbose: bool) -> str:
    import importlib

    if several := format_ == "csv" or len(diagnoses) > 1:
        from traindx.report import sweep as sweeps
    if several and (format_ == "csv" or (format_ == "markdown" and not verbose)):
        made = side_by_side([row(d) for d in diagnoses])[0]
        if format_ == "csv":
            return sweeps.as_csv(made)
        from traindx.report import markdown

        return "\n".join([sweeps.markdown(made), "", *markdown.gates(diagnoses)])
    if format_ == "rich":
        from traindx.report import text

        return "\n".join(text.plain(d) for d in diagnoses)
    try:
        renderer = importlib.import_module(f"traindx.report.{format_}")
    except ModuleNotFoundError as why:
        raise UsageError(f"the format '{format_}' cannot be written here: {why}") from None
    if format_ == "json" and several:
        return str(renderer.render(diagnoses, sweeps.document(side_by_side([row(d) for d in diagnoses])[0])))
    return str(renderer.render(diagnoses))


exit_code = gates.exit_code
