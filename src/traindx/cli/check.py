"""`traindx check TARGET`"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import rich_click as click
from rich.table import Table

from traindx.cli import options
from traindx.cli.bar import bar
from traindx.errors import EnvironmentFault, UsageError
from traindx.plain import say
from traindx.report.words import safe
from traindx.trial import Progress

MARK = {"pass": "[green]✔ pass[/]", "fail": "[red]✖ fail[/]", "cannot-tell": "[yellow]? cannot tell[/]"}


@click.command("check")
@click.argument("target", metavar="TARGET")
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT-ARGS…]")
@click.option("--quick", "level", flag_value="quick", help="Under 20 seconds: facts and the cheapest trials.")
@click.option("--usual", "level", flag_value="usual", default="usual", help="Under two minutes.  [default]")
@click.option("--full", "level", flag_value="full", help="Also determinism and resume.")
@click.option("--fresh", is_flag=True, help="Measure the loss at the start on newly drawn weights, not on the model as given.")
@click.option("--format", "format_", type=click.Choice(("rich", "json", "html")), default="rich", show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the result to FILE.")
@click.option(
    "--fail-on",
    type=click.Choice(("critical", "never")),
    default="critical",
    show_default=True,
    help="Exit 1 when an item fails.",
)
@click.option("-q", "--quiet", is_flag=True)
def command(
    target: str,
    args: tuple[str, ...],
    level: str,
    fresh: bool,
    format_: str,
    output: Path | None,
    fail_on: str,
    quiet: bool,
) -> int:
    """Verify model, loss, data and loop before a long run, on a copy of your task.

    TARGET is an unchanged training script. Its first steps run in a separate process, and its checkpoints are not
    written. TARGET may also be file.py:factory or pkg.mod:factory, a function that returns traindx.Task(model, loss_fn,
    train, val, …).

    Example:  traindx check train.py --quick -- --epochs 3
    """
    with bar(quiet=quiet) as told:
        done = _checked(target, args, level or "usual", fresh, told)
    if format_ == "json":
        rows = [
            {"item": i.item, "result": i.result, "message": i.message, "fix": i.fix, "lists": list(i.lists)} for i in done.items
        ]
        _put(json.dumps({"schema": "traindx.check/1", "items": rows, "modules": list(done.modules)}, indent=2) + "\n", output)
    elif format_ == "html" or (output is not None and output.suffix in (".html", ".htm")):
        from traindx.report.preflight import render

        _put(render(done.items, done.modules, done.sheet, done.seconds), output)
        if output is not None and not quiet:
            _page(done, brief=True)
    elif not (quiet and done.ok):
        _page(done)
    return int(bool(done.failed) and fail_on != "never")


def _put(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as why:
        raise EnvironmentFault(f"cannot write {output}: {why.strerror or why}") from None
    say(f"written to {output}")


def _checked(target: str, args: tuple[str, ...], level: str, fresh: bool, told: Progress) -> Any:
    from traindx.capture.start import check_on, is_script

    if is_script(target):
        return check_on(target, args, level=level, fresh=fresh, progress=told)
    if args:
        raise UsageError("arguments after the target are for scripts; a factory takes none")
    from traindx.trials.check import check
    from traindx.trials.target import task_from

    return check(task_from(target), level=level, fresh=fresh, progress=told)


def _page(done: Any, brief: bool = False) -> None:
    """The checklist in the terminal; `brief`: what fails and the counts, the rest is in a file."""
    from traindx.report.preflight import counted, verdict

    screen = options.console()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for i in done.failed if brief else done.items:
        grid.add_row(
            MARK[i.result],
            f"[bold]{i.item}[/]\n[dim]{_escaped(i.message)}[/]"
            + (f"\n→ {_escaped(i.fix)}" if i.result == "fail" and i.fix else ""),
        )
    screen.print(grid)
    if not brief:
        _looks(screen, done)
        _lists(screen, done)
    screen.print(f"\n[bold]{_escaped(verdict(done.items))}[/]: {counted(done.items)}, in {done.seconds:.1f} s", highlight=False)


def _lists(screen: Any, done: Any) -> None:
    """The checklists people use, a line each: which of their points hold."""
    from traindx.report.preflight import by_list

    screen.print()
    for name, lines in by_list(done.items).items():
        marks = " ".join(f"{i}{MARK[r].partition(' ')[0]}[/]" for i, _, r in lines)
        screen.print(f"[dim]{name:16}[/]{marks}", highlight=False)


def _looks(screen: Any, done: Any) -> None:
    """The data in a line each, and the modules: a person sees at a glance what no rule would question."""
    from traindx.report.preflight import about, module_row

    for which in ("train", "val"):
        for batch in done.sheet.get(which, [])[:5]:
            screen.print(f"[dim]{which:5} {_escaped(about(batch))}[/]", highlight=False, overflow="ellipsis", no_wrap=True)
    if done.modules:
        table = Table("module", "class", "in", "out", "dtype", "device", "RMS", "parameters", box=None, header_style="bold")
        for m in done.modules[:12]:
            table.add_row(*(_escaped(c) for c in module_row(m)))
        screen.print()
        screen.print(table)
        more = len(done.modules) - 12
        more_said = f"{more} more modules; " if more > 0 else ""
        screen.print(f"[dim]{more_said}`-o check.html` shows the samples as pictures, and every module.[/]", highlight=False)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(safe(text))
