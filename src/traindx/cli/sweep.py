"""`traindx sweep TRIAL[,TRIAL…] TARGET…`"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import rich_click as click
from rich.markup import escape
from rich.table import Table

from traindx.cli import options
from traindx.errors import NothingReadable, UsageError
from traindx.plain import say
from traindx.report.words import safe
from traindx.rule import nearest
from traindx.trial import catalogue


@click.command("sweep")
@click.argument("trials", metavar="TRIAL[,TRIAL…]")
@click.argument("targets", nargs=-1, required=True, metavar="TARGET…")
@click.option(
    "--over", multiple=True, metavar="KEY=A,B,…", help="Vary a limit of the trials, for example --over steps=50,100,200."
)
@click.option("--set", "limits", multiple=True, metavar="KEY=VALUE", help="Change a limit of all trials.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Trials at a time; by default one per core.")
@click.option(
    "--on",
    type=click.Choice(("here", "ray")),
    default="here",
    show_default=True,
    help="Where to run them: on this machine or on a running Ray cluster, which must see the targets.",
)
@options.answering("Write the results to FILE as JSON.")
def command(
    trials: str,
    targets: tuple[str, ...],
    over: tuple[str, ...],
    limits: tuple[str, ...],
    jobs: int | None,
    on: str,
    format_: str,
    output: Path | None,
    quiet: bool,
) -> int:
    """Run many trials at once: every TRIAL on every TARGET, with every combination of the varied limits.

    Each runs in its own process with one thread, here or on Ray; the answers are the same as one by one.

    Example:  traindx sweep overfit,lr-range train.py other.py --over steps=50,100
    """
    from traindx.trials import many

    names = [n.strip() for n in trials.split(",") if n.strip()]
    known = catalogue()
    for name in names:
        if name not in known:
            raise UsageError(f"there is no trial '{name}'{nearest(name, known) or '; there are ' + ', '.join(known)}")
    varied = {key: [v.strip() for v in values.split(",") if v.strip()] for key, values in _pairs(over, "--over").items()}
    fixed = _pairs(limits, "--set")
    for name in names:  # before anything runs
        make: Any = known[name].make
        fields = [f.name for f in dataclasses.fields(make)]
        for key in (*varied, *fixed):
            if key not in fields:
                raise UsageError(f"the trial '{name}' has no limit '{key}'; it has {', '.join(fields)}")
    given = many.jobs(names, targets, varied, fixed)
    results: list[dict[str, Any]] = []
    for result in many.run_all(given, on=on, workers=jobs):
        results.append(result)
        if not quiet and format_ == "rich":
            told = f"{result['trial']} {_limits(result)}on {result['target']}: {result['result']}"
            say(f"{len(results)} of {len(given)}: {told}")
    text = json.dumps({"schema": "traindx.trials/1", "trials": results}, indent=2)
    if output:
        output.write_text(text + "\n", encoding="utf-8")
    if format_ == "json" and not output:
        sys.stdout.write(text + "\n")
    elif format_ == "rich":
        options.console().print(_table(results))
    if all(r["result"] == "failed" for r in results):
        raise NothingReadable("none of the trials could be run")
    return 0


def _pairs(given: tuple[str, ...], option: str) -> dict[str, str]:
    pairs = {}
    for pair in given:
        key, eq, value = pair.partition("=")
        if not eq or not key.strip() or not value.strip():
            raise UsageError(f"{option} needs KEY=VALUE; got {pair!r}")
        pairs[key.strip()] = value.strip()
    return pairs


def _limits(result: dict[str, Any]) -> str:
    return "".join(f"{k}={v} " for k, v in result["limits"].items())


def _table(results: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for title in ("target", "trial", "limits", "result", "reason"):
        table.add_column(title, overflow="fold")
    style = {"pass": "green", "fail": "red", "failed": "red", "refused": "yellow", "undecided": "yellow"}
    for r in results:
        colour = style.get(str(r["result"]), "bold")
        words = (r["target"], r["trial"], _limits(r).strip(), r.get("reason", ""))
        target, trial, limits, reason = (escape(safe(str(word))) for word in words)
        table.add_row(target, trial, limits, f"[{colour}]{escape(str(r['result']))}[/]", reason)
    return table
