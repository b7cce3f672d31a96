"""`traindx attach [PID]`"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import rich_click as click
from rich.table import Table

from traindx import api, settings
from traindx import diagnosis as diagnosis_
from traindx.bedside import command as in_front
from traindx.bedside import history, inject, inside, process
from traindx.bedside.process import Process
from traindx.cli import launcher, options
from traindx.errors import EnvironmentFault, UsageError
from traindx.live.judge import Judge, Task
from traindx.plain import STDERR, safe, say
from traindx.record import Writer, fresh_dir, is_record
from traindx.record import read as read_record
from traindx.run import Run
from traindx.settings import Settings

PACKAGE = Path(inside.__file__).parents[2]
PATIENCE_S = 30.0  # for the program to come back to Python
PAGE_UPDATES, PAGE_S = 50, 60.0  # after which the first page is shown
LEAVE_S = 5.0  # for the program to let us go by itself

# What the program runs. It has nothing of ours but this file, which names the folder of our own copy. Nothing is imported while
# the program's own import is between two locks: Python's module locks do not bear that.
ARRIVAL = """
def come(package, job):
    import sys
    frame, said = sys._getframe(), None
    while frame is not None and "<frozen importlib" not in frame.f_code.co_filename:
        frame = frame.f_back
    try:
        if frame is not None and frame.f_code.co_name != "_call_with_frames_removed":
            said = '{{"again": true, "refused": "it is importing"}}'
        elif any(n not in sys.modules or getattr(sys.modules[n].__spec__, "_initializing", False) for n in ("torch", "numpy")):
            said = '{{"again": true, "refused": "it has not yet imported torch"}}'
        else:
            import importlib.machinery, importlib.util
            if "traindx" not in sys.modules:
                spec = importlib.machinery.PathFinder.find_spec("traindx", [package])
                sys.modules["traindx"] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(sys.modules["traindx"])
            from traindx.bedside import inside
            inside.{verb}
    except KeyboardInterrupt:
        import _thread
        _thread.interrupt_main()
    except Exception as why:
        import json
        said = json.dumps({{"refused": "%s: %s" % (type(why).__name__, why)}})
    if said:
        os = sys.modules["os"]
        with open("%s/%d" % (job, os.getpid()), "w") as out:
            out.write(said)
        os.replace("%s/%d" % (job, os.getpid()), "%s/%d.json" % (job, os.getpid()))
come({package!r}, {job!r})
"""


@click.command("attach")
@click.argument("pid", type=int, required=False, metavar="[PID]")
@click.option(
    "--for", "updates", type=click.IntRange(1), default=None, metavar="N", help="Leave after N updates.  [default: stay]"
)
@click.option("--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Folder for the record.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("-v", "--verbose", is_flag=True, help="Show all findings, and why other conditions were not checked.")
def command(pid: int | None, updates: int | None, folder: Path | None, yes: bool, verbose: bool) -> int:
    """Observe a training that is already running, and print what is found. Ctrl-C leaves it; the training continues.

    Without PID, list the trainings that run here. Earlier steps are read from the logs that the process writes.

    Example:  traindx attach

    Example:  traindx attach 4711 --for 200
    """
    if pid is None:
        return _list()
    job = [process.attachable(one.pid) for one in process.ranks(process.attachable(pid))]
    if not yes:
        _agreed(job, updates)
    chosen = settings.load()
    place = folder or fresh_dir(settings.folder(), Path(job[0].script).stem)
    with in_front.job() as letters:
        visit = Visit(job, place.absolute(), letters, chosen, updates or 0)
        visit.come()
        try:
            visit.stay(verbose)
        finally:
            visit.leave()
            visit.complete(read_record(visit.place) if is_record(visit.place) else None)
            visit.close()
    _page(place, chosen, job[0].alive, verbose)
    say(f"the record is in {launcher.near(place.absolute())}")
    return 0


class Visit:
    """One attachment, from the first stop to the last patch."""

    def __init__(self, job: list[Process], place: Path, letters: Path, chosen: Settings, updates: int) -> None:
        self.job, self.place, self.letters, self.chosen, self.updates = job, place, letters, chosen, updates
        self.made: int | None = None
        self.before = history.History(())
        self.past: Writer | None = None  # for what came before; closed once the first step that we saw is known
        self.told = 0  # the past is written up to this step
        self.come_to: list[Process] = []
        self.begun = time.monotonic()

    def come(self) -> None:
        """Attach to every rank, or to none; then write down what came before."""
        self.before = before = history.of(self.job[0])
        since = before.last + 1 if before.last is not None else 100  # a place of its own for what cannot be known
        asked: dict[str, Any] = {"since": since, "for": self.updates, "job": str(self.letters), "folder": str(self.place)}
        asked |= {"settings": in_front.kept(self.chosen), "budget": self.chosen.budget, "live": {"live": False}, "dir": ""}
        if before.runs:
            self.past = Writer(self.place)  # made before the process makes its own, so it is the first part of the record
        try:
            for one in self.job:
                answer = self._ask(one, f"come({asked!r})")
                self.come_to.append(one)
                self.made = answer.get("updates")
        except BaseException:
            self.leave()
            self.close()
            raise
        told = self._tell(self.made if self.made is not None else since)
        say(f"attached to {', '.join(str(one.pid) for one in self.job)} {_at(self.made, before.last)}; {_before(before, told)}")

    def _tell(self, before: int) -> int:
        """Write what its logs hold by now of the steps before that one; how many steps."""
        if self.past is None:
            return 0
        first, self.told = self.told, before
        return history.read(self.before.paths).write(self.past, self.made, first, before)

    def complete(self, run: Run | None) -> None:
        """Once the first step that we saw is known, write what the logs tell of the time up to it."""
        if self.past is not None and run is not None and "attached" in run.facts:
            self._tell(int(run.facts["attached"]))
            self.close()

    def close(self) -> None:
        """Close the past; where nothing was attached, take away the record too."""
        past, self.past = self.past, None
        if past is not None:
            past.close("attached", wait=PATIENCE_S)
            if not self.come_to:
                shutil.rmtree(self.place, ignore_errors=True)

    def _ask(self, one: Process, verb: str) -> dict[str, Any]:
        """Have the process call something of `inside`; its answer. One that has not imported torch yet is asked again."""
        file, answer = self.letters / f"{one.pid}.py", self.letters / f"{one.pid}.json"
        until = time.monotonic() + PATIENCE_S
        said: dict[str, Any] = {"again": True}
        while said.get("again") and time.monotonic() < until:
            answer.unlink(missing_ok=True)
            file.write_text(ARRIVAL.format(package=str(PACKAGE), job=str(self.letters), verb=verb), encoding="utf-8")
            inject.run(one, file)
            came = inject.wait(answer, one, PATIENCE_S)
            file.unlink()  # from now on it does nothing
            if not came and not one.alive:
                raise EnvironmentFault(f"process {one.pid} has ended; read its log: traindx diagnose LOG")
            if not came:
                raise EnvironmentFault(
                    f"the main thread of process {one.pid} was in one long call for {PATIENCE_S:.0f} s, and nothing was "
                    f"changed; try again: traindx attach {one.pid}"
                )
            said = json.loads(answer.read_text(encoding="utf-8"))
            if said.get("again"):
                time.sleep(0.3)
        if "refused" in said:
            look = f"; to look at it: traindx now {said['record']}" if said.get("record") else "; its log: traindx diagnose LOG"
            raise EnvironmentFault(f"process {one.pid}: {said['refused']}{look}")
        return said

    def stay(self, verbose: bool) -> None:
        """Follow the record, say what is settled, show the page once; until the visit or the program is over."""
        judge = Judge(Task(str(self.place), str(launcher.near(self.place)), self.job[0].pid, self.job[0].script), _speak)
        shown, told, began = False, False, 0.0
        try:
            while not self._left(self.job[0]):
                judge.turn()
                run = judge.followed
                self.complete(run)
                if run is not None and "attached" in run.facts:
                    began = began or time.monotonic()
                    seen = run.steps[1] + 1 - int(run.facts["attached"]) if run.steps else 0
                    if not shown and (seen >= PAGE_UPDATES or time.monotonic() - began > PAGE_S):
                        shown = not self.updates  # with an end in sight there is one page, at the end
                        if shown:
                            _page(self.place, self.chosen, True, verbose)
                elif not told and time.monotonic() - self.begun > PAGE_S:
                    told = True
                    say("no update has been made yet: it evaluates, loads or waits. Ctrl-C leaves it")
                time.sleep(0.1)
        except KeyboardInterrupt:
            STDERR.write("\n")

    def leave(self) -> None:
        """Have every patch taken out: at the next update, or, where none comes, at the next call of torch."""
        (self.letters / inside.LEAVE).touch()
        if self._gone(LEAVE_S):
            return
        for one in self.come_to:
            if not self._left(one):
                try:
                    self._ask(one, f"leave({str(self.letters)!r})")
                except EnvironmentFault as why:
                    say(f"{why}. It is observed until it ends")
        if not self._gone(LEAVE_S):
            say("it makes no update just now, so it is left with its next call of torch")

    def _gone(self, seconds: float) -> bool:
        """Wait so long at most until every process has let us go."""
        until = time.monotonic() + seconds
        while not all(self._left(one) for one in self.come_to):
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def _left(self, one: Process) -> bool:
        return not one.alive or (self.letters / f"{one.pid}.left").exists()


def _list() -> int:
    """The trainings that run here."""
    found = process.candidates()
    if not found:
        raise UsageError("no Python process of yours with torch runs here; start one in front of us: traindx run COMMAND")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("PID", "program", "minutes", "CPU", "Python"):
        table.add_column(heading, no_wrap=True)
    for one in found:
        table.add_row(str(one.pid), safe(one.script, 40), f"{one.age_s / 60:.0f}", f"{one.share:.0%}", f"3.{one.minor}")
    options.console().print(table)
    click.echo(f"\nTo attach to one: traindx attach {found[0].pid}")
    return 0


def _agreed(job: list[Process], updates: int | None) -> None:
    """Say what will be done, and ask."""
    which = f"process {job[0].pid} ({job[0].script})" if len(job) == 1 else f"all {len(job)} ranks of {job[0].script}"
    until = f"{updates} updates later" if updates else "when you press Ctrl-C"
    lines = [f"{which} will be stopped for about two seconds, watched from its next update on, and left {until}."]
    lines.append("What it computes stays the same; every patch is taken out at the end.")
    if len(job) > 1:
        lines.append("The others wait while one rank stands still: a time-out of seconds on a collective would end the job.")
    say("\n".join(lines))
    if not sys.stdin.isatty():
        raise UsageError(f"there is nobody to ask; to agree beforehand: traindx attach {job[0].pid} --yes")
    click.confirm("Attach?", abort=True, err=True)


def _page(place: Path, chosen: Settings, alive: bool, verbose: bool) -> None:
    if is_record(place):
        found = [diagnosis_.diagnose(launcher.over(run, alive), chosen) for run in api.load(place)]
        options.deliver(found, "rich", None, verbose=verbose, quiet=False)


def _speak(text: str) -> None:
    STDERR.write(f"{text}\n")


def _at(made: int | None, last: int | None) -> str:
    if made is not None:
        return f"after {made} updates"
    return f"about step {last}, as its log counts" if last is not None else "at a step that is not known; we count from 100"


def _before(before: history.History, told: int) -> str:
    if not told:
        return "none of its logs could be read, so what came before is not known"
    return f"what came before is taken from {', '.join(Path(run.source).name for run in before.runs[:3])}"
