"""`traindx run script.py ARGS…`"""

from __future__ import annotations

import importlib.util
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import rich_click as click

from traindx import alerts
from traindx import diagnosis as diagnosis_
from traindx.cli import launcher, options, spawned
from traindx.errors import NO_TORCH, UsageError
from traindx.live import start as live_
from traindx.plain import say
from traindx.probes import launch, session, surroundings, torchrun
from traindx.record import is_record, read, remote, sources
from traindx.settings import Settings

_CONTEXT = {"allow_interspersed_args": False, "ignore_unknown_options": False}


@click.command("run", context_settings=_CONTEXT)
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
    "--nproc",
    type=click.IntRange(1),
    default=None,
    help="With -m torch.distributed.run: run it again on this many processes with the same global batch, and compare.",
)
@click.option("--live/--no-live", default=None, help="Say what is found while it trains, on stderr.  [default: yes]")
@click.option(
    "--stop-on",
    type=click.Choice(("critical",)),
    default=None,
    help="Stop the run, as Ctrl-C would, once an exact critical finding is settled.",
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
    no_color: bool,
    debug: bool,
) -> int:
    """Run a training script unchanged, record it, and print a diagnosis on stderr at the end.

    Example:  traindx run train.py --epochs 3

    Example:  traindx run -m torch.distributed.run --nproc-per-node 4 train.py

    Example:  traindx run --nproc 1 -m torch.distributed.run --nproc-per-node 4 train.py
    """
    chosen = options.settings(config, select, ignore, fail_on, "never")
    if capture_batch:
        chosen = replace(chosen, capture_batch=True)
    if sync is not None:
        remote.opened(sync)  # an address that cannot be is refused before anything runs
    if module and target in torchrun.LAUNCHERS and not chosen.disabled:
        page: dict[str, Any] = {"verbose": verbose, "no_color": no_color, "quiet": quiet, "to_stderr": True}
        _budget(budget, None)
        own = [*(["--budget", budget] if budget else []), *(["--sync", sync] if sync else [])]
        own += ["--capture-batch"] if capture_batch else []
        return launcher.ranks(list(args), folder, own, nproc, chosen, (format_, output), page)
    if nproc is not None:
        raise UsageError("--nproc works with `-m torch.distributed.run` only; this program is a single process")
    if not module and not Path(target).exists():
        raise UsageError(f"there is no script '{target}' here; `traindx run SCRIPT ARGS…` or `traindx run -m MODULE ARGS…`")
    watcher = Watcher(target, list(args), folder, _budget(budget, chosen.budget), chosen, alerts.addresses_of(alert or None))
    watcher.sync, watcher.profiler = sync, profiler
    watcher.live = {"live": live_.wanted(live, chosen.live), "quiet": quiet, "finish": False, "stop_on": stop_on or ""}
    ended = launch.run_module(target, list(args)) if module else launch.run_script(target, list(args))
    code = ended.code
    try:
        watcher.end(ended)
        if watcher.recorder is not None and (session.rank() > 0 or torchrun.told_above()):
            pass  # rank 0, or whoever launched the ranks, tells the story of all
        elif watcher.recorder is not None:
            code = _report(watcher, chosen, ended.code, format_, output, verbose, quiet, no_color)
        elif not quiet and not chosen.disabled:
            without = watcher.without
            if importlib.util.find_spec("torch") is None:
                without = f": {NO_TORCH}, so it ran unobserved (pip install torch)"
            say(f"saw no training with torch in this program{without}")
            if watcher.forked:
                why = "forked processes cannot be observed; with the start method 'spawn', or traindx.watch in them, they can"
                say(f"it started {watcher.forked} processes: {why}")
    except Exception as bug:  # the script is done: its exit code stands, whatever happens to our page
        if debug:
            say(traceback.format_exc())
        say(f"no diagnosis could be made: {type(bug).__name__}: {bug}")
    launch.leave(ended, code)
    return code


def _why_nothing(observer: Any) -> str:
    """What was seen of a training that never made an update."""
    if observer.story.phases.barren:
        return f": {observer.story.phases.barren}"
    return ": an optimizer was made, but it never made a step" if observer.story.stage.optimizers_built else ""


def _report(
    watcher: Watcher, chosen: Any, code: int, format_: str, output: Path | None, verbose: bool, quiet: bool, no_color: bool
) -> int:
    found = diagnosis_.diagnose(watcher.run(), chosen)
    places = (where for f in found.findings for where in f.where)
    taken = sources.take(places, surroundings.scrubbed, surroundings.names_secret)
    sources.keep(Path(watcher.recorder.sink.path), taken)
    diagnoses = options.gated([replace(found, run=found.run.with_(facts={"code.source": taken}))], chosen)
    options.deliver(diagnoses, format_, output, verbose=verbose, no_color=no_color, quiet=quiet, to_stderr=True)
    if not quiet:
        say(f"the record is in {watcher.recorder.sink.path}")
        if capsules := sorted(Path(watcher.recorder.sink.path).glob("capsules/capsule-*")):
            say(f"the step that broke is kept: traindx replay {capsules[0]} -- {watcher.target} …")
    return code or options.exit_code(diagnoses, chosen.fail_on)


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


class Watcher:
    """The observation of one launched program; does nothing until torch is imported."""

    def __init__(
        self,
        target: str,
        args: list[str],
        folder: Path | None,
        budget: float | None,
        chosen: Settings,
        addresses: Sequence[str] = (),
        *,
        ranked: bool = False,
    ) -> None:
        self.target, self.args, self.folder, self.budget = target, args, folder, budget
        self.chosen, self.addresses, self.ranked = chosen, addresses, ranked
        self.recorder: Any = None
        self._observer: Any = None
        self.profiler: int | None = None
        self.without = ""  # why no training was seen, where that is known
        self._disarm: Callable[[], None] = lambda: None
        self.sync: str | None = None  # where the record is copied
        self.live: dict[str, Any] = {"live": False}  # how a judge beside it speaks
        self._spool: remote.Spool | None = None
        self.spawned = self.forked = 0  # processes, or groups of them, that observe themselves; and that cannot
        self._unfollow: Callable[[], None] = lambda: None
        self._off: Callable[[], None] = (lambda: None) if chosen.disabled else launch.when_torch_is_there(self._attach)

    def _attach(self) -> None:
        from traindx.integrations import zero_code
        from traindx.probes import siblings
        from traindx.probes.attach import attach
        from traindx.probes.recorder import Recorder
        from traindx.probes.sink import DiskSink

        name = Path(self.target).stem if self.target.endswith(".py") else self.target.rpartition(".")[2] or "run"
        torchrun.larger_batches()
        sink = DiskSink(session.folder(name, self.folder), name, session.rank(), ranked=self.ranked)
        self.recorder = Recorder(sink, budget=session.share(self.budget))
        self.recorder.scene.facts.update(session.about(self.target, self.args))
        if self.profiler:
            self.recorder.scene.facts["perf.window"] = self.profiler
        if self.chosen.capture_batch:
            self.recorder.scene.facts["data.captured"] = True
        if self.chosen.replay:
            from traindx.forensics.arm import arm

            arm(self.recorder, capture_batch=self.chosen.capture_batch)
        self._observer = attach(self.recorder)
        siblings.follow(sink.path)
        live_.beside(self.recorder, Path(self.target).name, addresses=self.addresses, chosen=self.chosen, **self.live)
        self._disarm = zero_code.arm()
        self._unfollow = spawned.follow(self._spawns, self._forks)
        if self.sync is not None and os.environ.get("LOCAL_RANK", "0") == "0":  # one of each machine's ranks copies for all
            self._spool = remote.Spool(sink.path, self.sync)
            self._spool.start()

    def _spawns(self, function: Callable[..., Any], ranked: bool) -> spawned.Observed:
        self.spawned += 1
        return spawned.Observed(function, self.target, self.args, self.recorder.sink.path, self.budget, self.chosen, ranked)

    def _forks(self) -> None:
        self.forked += 1

    def end(self, ended: launch.Ended) -> None:
        """Detach and close the record."""
        self._off()
        if self._observer is None:
            return
        self._disarm()
        self._unfollow()
        from traindx.forensics.lookup import beyond
        from traindx.probes.attach import detach

        detach(self._observer)
        if ended.error is not None:
            self.recorder.attempted |= beyond(ended.error) is not None  # it died on the way to its first loss
            self.recorder.fails(ended.error, session.told(ended.error))
        self.recorder.close(ended.how)
        if self._spool is not None and not self._spool.close():
            trouble = self._spool.trouble or "it took too long"
            say(f"the last copy to {self.sync} was not made ({trouble}); the record is in {self.recorder.sink.path}")
        self.without = _why_nothing(self._observer)
        if not self.recorder.started and not (self.spawned and is_record(self.recorder.sink.path)):
            self.recorder = None

    def run(self) -> Any:
        """What was recorded."""
        return self.recorder.sink.run() if self.recorder.started else read(self.recorder.sink.path)


if __name__ == "__main__":
    command()
