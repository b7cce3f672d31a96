"""`traindx run script.py ARGS…`, `traindx run COMMAND ARGS…`"""

from __future__ import annotations

import importlib.util
import shutil
import threading
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click

from traindx import alerts
from traindx import diagnosis as diagnosis_
from traindx.bedside import command as in_front
from traindx.bedside.watcher import Watcher
from traindx.children import ours
from traindx.cli import launcher, options
from traindx.errors import NO_TORCH, EnvironmentFault, TraindxError, UsageError
from traindx.live import start as live_
from traindx.plain import say
from traindx.probes.drive import session
from traindx.probes.launch import script_runner, torchrun
from traindx.probes.read.machine import surroundings
from traindx.record import remote, sources
from traindx.rule import nearest

PATIENCE_S = 2.0  # after which we say what keeps us
_FORCED = "traindx.forced"  # `--` stood before TARGET: it is a command, whatever else has its name
_CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}


class _Run(click.RichCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        rest = super().parse_args(ctx, args)
        ctx.meta[_FORCED] = words[-len(ctx.params.get("args", ())) - 2 :][:1] == ["--"]
        return rest


@click.command("run", cls=_Run, context_settings=_CONTEXT)
@click.option("-m", "module", is_flag=True, help="TARGET is a module name, as in `python -m`.")
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Folder for the record.")
@click.option(
    "--budget",
    type=str,
    default=None,
    help="Share of the step time to spend on observing, such as 0.01; 'none' means no limit.",
)
@click.option(
    "--alert",
    "alert",
    multiple=True,
    metavar="URL",
    help="Send an alert to this URL for each new finding: a webhook or an apprise address.  [env: TRAINDX_ALERT]",
)
@click.option(
    "--capture-batch",
    is_flag=True,
    help="Keep raw samples: a few batches for the report, and the answers to the first samples of every evaluation. "
    "Also the batch of a step that goes non-finite, so that `traindx replay` can repeat it.",
)
@click.option(
    "--profiler",
    "profiler",
    type=click.IntRange(1, 1000),
    default=None,
    metavar="STEPS",
    help="Profile this many steps once with torch.profiler, and report which operations, copies and transfers take the time.",
)
@click.option(
    "--sync",
    metavar="URL",
    help="Copy the record to this address every 30 s while it is written (s3://, gs://, ssh:// …, through fsspec).",
)
@click.option(
    "--keep-source",
    is_flag=True,
    help="Keep the lines of the script and of its project files, so that `compare` shows what changed; secrets are hidden.",
)
@click.option(
    "--nproc",
    type=click.IntRange(1),
    default=None,
    help="With torchrun: run it again on this many processes with the same global batch, and compare.",
)
@click.option("--live/--no-live", default=None, help="Say what is found while it trains, on stderr.  [default: yes]")
@click.option(
    "--stop-on",
    type=click.Choice(("critical",)),
    default=None,
    help="Stop the run, as Ctrl-C would, once a critical fact is certain.",
)
@options.judging("never")
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(
    module: bool,
    folder: Path | None,
    budget: str | None,
    alert: tuple[str, ...],
    capture_batch: bool,
    profiler: int | None,
    sync: str | None,
    keep_source: bool,
    nproc: int | None,
    live: bool | None,
    stop_on: str | None,
    target: str,
    args: tuple[str, ...],
    format_: str,
    output: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: str | None,
    config: Path | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Run a training unchanged, record it, and print a diagnosis on stderr at the end.

    TARGET is a Python script, a notebook, or any command that ends in Python. After `--` it is always a command.

    Example:  traindx run train.py --epochs 3

    Example:  traindx run torchrun --nproc-per-node 4 train.py

    Example:  traindx run bash train.sh

    Example:  traindx run --nproc 1 torchrun --nproc-per-node 4 train.py
    """
    chosen = options.settings(config, select, ignore, fail_on, "never", trains=True)
    _tell_of_late_gates(target, args)
    if capture_batch:
        chosen = replace(chosen, capture_batch=True)
    chosen.share_records(samples=chosen.capture_batch)
    if sync is not None:
        remote.opened(sync)  # an address that cannot be is refused before anything runs
    else:
        sync = _standing(chosen.sync, chosen.origins.get("sync", ""))
    speaks = {"live": live_.wanted(live, chosen.live), "quiet": quiet, "ending": "own", "stop_on": stop_on or ""}
    addresses = alerts.addresses_of(alert or None, chosen.alerts)
    share = _budget(budget, chosen.budget)
    launched = (module and target in torchrun.LAUNCHERS) or (not module and target == "torchrun")
    if nproc is not None and not launched:
        raise UsageError("--nproc works with torchrun only; this program is a single process")
    notebook = not module and target.endswith(".ipynb") and Path(target).is_file()
    if launched or notebook or (not module and (forced() or not in_front.is_python(Path(target)))):
        words = ours(target) if module else [target]
        if notebook:
            copy = Path(target).with_suffix(".run.ipynb")
            words = ours("traindx.bedside.whole", target, str(copy))
            if importlib.util.find_spec("nbclient") is None or importlib.util.find_spec("ipykernel") is None:
                raise EnvironmentFault("a notebook runs in a kernel, and there is none here: pip install nbclient ipykernel")
        if module and importlib.util.find_spec("torch") is None:
            raise ModuleNotFoundError(NO_TORCH, name="torch")
        if not shutil.which(words[0]):
            raise UsageError(f"there is no script and no command '{target}' here; `traindx run SCRIPT|COMMAND ARGS…`")
        asked: dict[str, Any] = {"budget": share, "alert": addresses, "sync": sync, "profiler": profiler}
        asked["notebook"] = target if notebook else ""
        asked["live"] = {**speaks, "ending": "above", "here": str(Path.cwd())}
        page = {"verbose": verbose, "quiet": quiet, "to_stderr": True}
        job = launcher.Job(asked, chosen, (format_, output), page)
        if nproc is not None:
            launcher.fewer(list(args), folder, nproc, job)
        launcher.command([*words, *args], folder, job, exact=launched and folder is not None)
    if not module and not Path(target).exists():
        here = [str(p) for p in Path(target).parent.glob("*.py")]
        raise UsageError(
            f"there is no script '{target}' here{nearest(target, here) or '; `traindx run -m MODULE ARGS…` runs a module'}"
        )
    options_: dict[str, Any] = {"folder": folder, "budget": share, "addresses": addresses, "live": speaks, "sync": sync}
    watcher = Watcher(target, list(args), chosen, profiler=profiler, **options_)
    off = script_runner.when_torch_is_there(lambda: None if chosen.disabled else watcher.begin())
    ended = script_runner.run_module(target, list(args)) if module else script_runner.run_script(target, list(args))
    code = ended.code
    late = None if quiet else threading.Timer(PATIENCE_S, say, ["working out the diagnosis; Ctrl-C skips it"])
    try:
        if late is not None:
            late.daemon = True
            with suppress(Exception):  # there is no room for another thread
                late.start()
        off()
        watcher.end(ended)
        if watcher.recorder is not None and session.rank() > 0:
            pass  # rank 0 tells the story of all
        elif watcher.recorder is not None:
            if target.endswith(".py"):
                own = sources.project(target, surroundings.scrubbed, text=keep_source)
                sources.keep(Path(watcher.recorder.sink.path), own, sources.CODE)
            code = _report(watcher, chosen, ended.code, format_, output, verbose, quiet)
        elif not quiet and not chosen.disabled:
            without = watcher.without
            if importlib.util.find_spec("torch") is None:
                without = f": {NO_TORCH}, so it ran unobserved (pip install torch)"
            say(f"saw no training with torch in this program{without}")
            if watcher.forked:
                why = "forked processes cannot be observed; with the start method 'spawn', or traindx.watch in them, they can"
                say(f"it started {watcher.forked} processes: {why}")
        if watcher.recorder is None:
            code = options.unjudged(code)
    except (Exception, SystemExit) as bug:  # the script is done: its exit code stands, whatever happens to our page
        if options.debugging():
            say(traceback.format_exc())
        say(f"no diagnosis could be made: {type(bug).__name__}: {bug}")
        code = options.unjudged(code)
    except KeyboardInterrupt:
        say("no diagnosis was made; `traindx diagnose` on the record makes it")
        code = options.unjudged(code)
    finally:
        if late is not None:
            late.cancel()
    script_runner.leave(ended, code)
    return code


def forced() -> bool:
    """Whether there is a `--` before TARGET."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_FORCED))


def _report(watcher: Watcher, chosen: Any, code: int, format_: str, output: Path | None, verbose: bool, quiet: bool) -> int:
    found = diagnosis_.diagnose(watcher.run(), chosen)
    diagnoses = options.gated([launcher.sourced(found)], chosen)
    options.deliver(diagnoses, format_, output, verbose=verbose, quiet=quiet, to_stderr=True)
    if not quiet:
        if Path(watcher.recorder.sink.path).is_dir():
            say(f"the record is in {watcher.recorder.sink.path}")
        if capsules := sorted(Path(watcher.recorder.sink.path).glob("capsules/capsule-*")):
            what = "" if any(capsules[0].glob("batch*")) else ", without its batch (--capture-batch keeps it)"
            say(f"the step that broke is kept{what}: traindx replay {capsules[0]} -- {watcher.target} …")
    return code or options.exit_code(diagnoses, chosen.fail_on)


def _tell_of_late_gates(target: str, args: tuple[str, ...]) -> None:
    """A gate behind TARGET is a word for that program: without a line, it would look as if it had passed."""
    late = sorted({word.partition("=")[0] for word in args} & {"--require", "--fail-on", "--new-only"})
    if late:
        say(f"{', '.join(late)} behind {target} goes to {target}; options of traindx stand before it")


def _standing(address: str | None, where: str) -> str | None:
    """The address of the settings that records are copied to. One that cannot be stops no training."""
    try:
        return address and remote.opened(address) and address
    except TraindxError as why:
        say(f"{where}: {why}; nothing is copied")
        return None


def _budget(given: str | None, default: float | None) -> float | None:
    if given is None:
        return default
    if given.lower() in ("none", "all"):
        return None
    try:
        share = float(given)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(f"--budget is a share of step time between 0 and 1, or 'none'; not {given!r}")
    return share
