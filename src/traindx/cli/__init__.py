"""The command line: `traindx VERB …`. Every verb is a file of this folder, loaded only when it is called."""

from __future__ import annotations

import codecs
import importlib
import importlib.util
import io
import os
import sys
from typing import Any

import rich_click as click
from click.exceptions import Exit

from traindx import __version__
from traindx.errors import NO_TORCH, TraindxError
from traindx.plain import STDERR, say

VERBS: dict[str, str] = {
    "run": "Observe an unmodified training: a script, a notebook, any command.",
    "attach": "Observe a training that is already running.",
    "env": "Print the variables that observe every training of a shell.",
    "diagnose": "Diagnose a recorded or logged run.",
    "check": "Check model, data and loop before a long run.",
    "trial": "Run one experiment on a copy of your task.",
    "sweep": "Run many experiments at once, on all cores or on Ray.",
    "replay": "Repeat a broken step and name the operation that made the first NaN.",
    "report": "Write a self-contained HTML report.",
    "serve": "Open a live dashboard in the browser.",
    "now": "Print the page of a run that is still training.",
    "top": "Show running trainings in the terminal.",
    "compare": "Show what differs between two runs, and from which step on.",
    "bisect": "Find the commit that broke training.",
    "ls": "List the recorded runs.",
    "rm": "Delete recorded runs, after asking.",
    "prune": "Delete old records, after asking.",
    "bundle": "Pack a record into one file for a colleague.",
    "config": "Show the settings in force and where each comes from.",
    "note": "Add a note to a run, or read its notes.",
    "rules": "List all conditions.",
    "explain": "Describe one condition or cause.",
    "export": "Write a run as Parquet, CSV or TensorBoard events.",
    "mcp": "Serve runs and diagnoses to coding agents.",
    "demo": "Diagnose two small trainings and a log, each with a problem.",
    "doctor": "Show what traindx can observe in this environment.",
}
EXIT = {"ok": 0, "findings": 1, "usage": 2, "nothing": 3, "partly": 4, "environment": 5, "bug": 70, "interrupted": 130}

click.rich_click.SHOW_ARGUMENTS = True
click.rich_click.COMMAND_GROUPS = {
    "traindx": [
        {"name": "Before", "commands": ["check", "trial", "sweep", "demo", "doctor"]},
        {"name": "During", "commands": ["run", "attach", "env", "now", "serve", "top"]},
        {
            "name": "After",
            "commands": ["diagnose", "report", "ls", "rm", "prune", "bundle", "note", "compare", "bisect", "export"],
        },
        {"name": "When it breaks", "commands": ["replay"]},
        {"name": "Reference", "commands": ["rules", "explain", "config", "mcp"]},
    ]
}


class Verbs(click.RichGroup):
    """Sub-commands by name; a verb's module is imported when the verb is used, so `--help` stays quick."""

    _listing = False  # help of the whole program needs names and one-liners, not the verbs themselves

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        return verbs()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS or not _exists(cmd_name):
            return None
        if self._listing:
            return click.RichCommand(name=cmd_name, help=VERBS[cmd_name])
        command: click.Command = importlib.import_module(f"traindx.cli.{cmd_name}").command
        return importlib.import_module("traindx.cli.options").shared(command)  # type: ignore[no-any-return]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and name not in self.list_commands(ctx):
            import difflib

            near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"there is no command '{name}'.{hint} `traindx --help` lists them.")
        return super().resolve_command(ctx, args)


def verbs() -> list[str]:
    """The verbs that can be called."""
    return [v for v in VERBS if _exists(v)]


def _exists(verb: str) -> bool:
    return importlib.util.find_spec(f"traindx.cli.{verb}") is not None


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="traindx")
def cli() -> None:
    """The doctor for neural-network training runs.

    Examples:  traindx run train.py --epochs 3   ·   traindx diagnose runs/exp1   ·   traindx demo

    Know a tool by another name? traindx explain "learning rate finder"   (all of them: docs/lessons.md)
    """


_PLAIN = {"·": "|", "–": "-", "—": "-", "→": "->", "←": "<-", "…": "...", "×": "x", "≤": "<=", "≥": ">=", "±": "+-", "−": "-"}


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """What stands for signs that the encoding of the output lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    shown = "".join(_PLAIN.get(sign, "?") for sign in error.object[error.start : error.end])
    return shown.encode(error.encoding, "replace").decode(error.encoding), error.end


def main(argv: list[str] | None = None) -> None:
    """Entry point: runs the verb and turns every way to end into the exit code of the contract."""
    words = sys.argv[1:] if argv is None else argv
    debug = "--debug" in words
    if words[:1] != ["run"] and isinstance(sys.stdout, io.TextIOWrapper):  # the stdout of `run` is the script's
        codecs.register_error("traindx", _plainly)
        sys.stdout.reconfigure(errors="traindx")  # a terminal that cannot show a sign gets a plain one, not a crash
    try:
        code = cli.main(args=argv, prog_name="traindx", standalone_mode=False)
        _leave(code if isinstance(code, int) else 0)
    except Exit as done:
        _leave(done.exit_code)
    except click.ClickException as wrong:
        where = f" ({wrong.ctx.command_path} --help)" if isinstance(wrong, click.UsageError) and wrong.ctx else ""
        say(f"{wrong.format_message()}{where}")
        _leave(EXIT["usage"])
    except (KeyboardInterrupt, click.Abort):
        STDERR.write("\n")
        say("interrupted")
        _leave(EXIT["interrupted"])
    except BrokenPipeError:
        # the reader of our output went away (| head): not an error of ours
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(EXIT["ok"])
    except TraindxError as told:
        if debug:
            raise
        say(told)
        _leave(told.exit_code)
    except PermissionError as denied:
        if debug:
            raise
        say(f"no permission: {denied.filename or denied}")
        _leave(EXIT["environment"])
    except Exception as bug:
        if debug:
            raise
        if isinstance(bug, ModuleNotFoundError) and (bug.name or "").partition(".")[0] == "torch":
            say(f"{NO_TORCH} ({sys.prefix}), and this command trains: pip install torch")
            _leave(EXIT["environment"])
        say(
            f"this is a bug in traindx: {type(bug).__name__}: {bug}\n"
            "Please report it with the output of the same command and --debug."
        )
        _leave(EXIT["bug"])


def _leave(code: int) -> None:
    if sys.stdout is not None:
        sys.stdout.flush()
    sys.exit(code)
