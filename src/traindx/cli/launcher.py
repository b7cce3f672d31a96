"""`traindx run COMMAND …`: start the command, read what the processes below it wrote, tell it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from traindx import api, record, settings
from traindx import diagnosis as diagnosis_
from traindx import ranks as ranks_
from traindx.bedside import command as in_front
from traindx.cli import options
from traindx.diagnosis import Diagnosis
from traindx.errors import NothingReadable, UsageError
from traindx.plain import say
from traindx.probes.drive import session
from traindx.probes.launch import torchrun
from traindx.probes.read.machine import surroundings
from traindx.record import sources
from traindx.run import Run
from traindx.settings import Settings

_UNSEEN = "Python cannot be observed from outside in a container, on another machine, or started with -S, -I or -E"


@dataclass(frozen=True)
class Job:
    """A command in front of which we stand: what you asked for, and where the page goes."""

    asked: dict[str, Any]
    chosen: Settings
    where: tuple[str, Path | None]
    page: dict[str, Any]

    def run(self, words: list[str], base: Path, *, exact: bool = False, **variables: str) -> tuple[int, dict[Path, bool]]:
        """Run it; its exit code, and the runs it wrote below `base` (`exact`: there is one, and it is `base`)."""
        path = str(base.absolute())
        with in_front.job() as job:
            asked = {
                **self.asked,
                "settings": in_front.kept(self.chosen),
                "dir": path,
                "folder": path if exact else "",
                "job": str(job),
            }
            code = in_front.execute(words, {**in_front.environment(asked), **variables})
            return code, in_front.runs(job)

    def tell(self, code: int, runs: Mapping[Path, bool]) -> tuple[int, list[Run]]:
        """Diagnose the runs, print what was found; the exit code, and the runs."""
        read = [over(record.read(path), there) for path, there in runs.items()]
        found = api.worst_first([diagnosis_.diagnose(run, self.chosen) for run in read])
        diagnoses = options.gated([sourced(d) for d in found], self.chosen)
        options.deliver(diagnoses, *self.where, **self.page)
        return code or options.exit_code(diagnoses, self.chosen.fail_on), read


def command(words: list[str], folder: Path | None, job: Job, *, exact: bool = False) -> None:
    """Run any command; each process below it that trains becomes a run, ranks of one job are one, many are listed."""
    if job.chosen.disabled:
        in_front.leave(options.unjudged(in_front.execute(words, {})))
    base = folder or settings.folder()
    code, runs = job.run(words, base, exact=exact)
    try:
        if runs:
            code, _ = job.tell(code, runs)
        else:
            code = options.unjudged(code)
        if not job.page["quiet"]:
            say(
                f"the record is in {near(next(iter(runs)))}"
                if len(runs) == 1
                else f"{len(runs)} runs are recorded in {near(base)}"
                if runs
                else f"saw no training with torch below this command; {_UNSEEN}"
            )
    except Exception as bug:  # the command is done: its exit code stands, whatever happens to our page
        say(f"no diagnosis could be made: {type(bug).__name__}: {bug}")
        code = options.unjudged(code)
    in_front.leave(code)


def over(run: Run, there: bool) -> Run:
    """A run whose processes are gone did not close its record: it was killed."""
    return run.with_(facts={"ended": "killed"}) if run.fact("ended") == "running" and not there else run


def near(path: Path) -> Path:
    """A path as somebody in this folder would write it."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def sourced(d: Diagnosis) -> Diagnosis:
    """With the lines of source around its places, which are kept in the record too."""
    taken = sources.take((w for f in d.findings for w in f.where), surroundings.scrubbed, surroundings.names_secret)
    sources.keep(Path(d.run.source), taken)
    return replace(d, run=d.run.with_(facts={"code.source": taken}))


def fewer(args: list[str], folder: Path | None, nproc: int, job: Job) -> None:
    """Run a distributed job, then once more on `nproc` processes with the same global batch, and compare."""
    launch = torchrun.parsed(args)
    if not launch.nproc or launch.nproc % nproc or launch.nproc == nproc:
        raise UsageError(f"--nproc {nproc} must divide the launcher's --nproc-per-node ({launch.nproc or 'not a number'})")
    home = session.folder(launch.name, folder)
    code, first = job.run(launch.words(), home / "ranks", exact=True)
    _, again = job.run(launch.words(nproc), home / f"on-{nproc}", exact=True, **{torchrun.TIMES: str(launch.nproc // nproc)})
    try:
        code, runs = job.tell(code, first)
        few = record.read(next(iter(again)))
        loud = [
            [(f.code, f.message) for f in diagnosis_.diagnose(run, job.chosen).findings if f.severity.value != "info"]
            for run in (runs[0], few)
        ]
        for line in ranks_.one_process(runs[0], few, loud[0], loud[1], nproc):
            say(line)
        say(f"the records are in {home}")
    except (OSError, NothingReadable, IndexError, StopIteration) as why:  # the program is done: its exit code stands
        say(f"no diagnosis could be made: {why or 'nothing was recorded'}")
        code = options.unjudged(code)
    in_front.leave(code)
