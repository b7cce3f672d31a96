"""The observation of one program: begins with its first use of torch, ends with the program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx.bedside import spawned
from traindx.errors import EnvironmentFault
from traindx.live import start as live_
from traindx.plain import say
from traindx.probes.drive import session
from traindx.probes.launch import torchrun
from traindx.probes.launch.script_runner import Ended, when_torch_is_there
from traindx.record import is_record, read, remote
from traindx.settings import Settings


class Watcher:
    """What is to be observed and how; `begin` once torch is imported, `end` when the program does."""

    def __init__(
        self,
        target: str,
        args: list[str],
        chosen: Settings,
        *,
        folder: Path | None = None,
        place: Callable[[], Path] | None = None,
        budget: float | None = None,
        addresses: Sequence[str] = (),
        ranked: bool = False,
        live: dict[str, Any] | None = None,
        sync: str | None = None,
        profiler: int | None = None,
        name: str = "",
    ) -> None:
        self.target, self.args, self.chosen, self.folder, self.budget = target, args, chosen, folder, budget
        self.addresses, self.ranked, self.sync, self.profiler = addresses, ranked, sync, profiler
        self.live = live or {"live": False}  # how a judge next to it speaks
        self.name = name or (Path(target).stem if target.endswith(".py") else target.rpartition(".")[2] or "run")
        self.place = place  # where the record goes, decided with its first numbers
        self.recorder: Any = None
        self._observer: Any = None
        self.without = ""  # why no training was seen, where that is known
        self._disarm: Callable[[], None] = lambda: None
        self._spool: remote.Spool | None = None
        self.spawned = self.forked = 0  # processes, or groups of them, that observe themselves; and that cannot
        self._unfollow: Callable[[], None] = lambda: None

    def begin(self, *, follow: bool = True, since: int | None = None) -> None:
        """Attach; `follow` wraps the processes that the program starts, where nothing else observes them.

        `since`: the program has made so many updates already. Then nothing is put in place that outlives the observation.
        """
        try:
            from traindx.integrations import zero_code
            from traindx.probes.drive.recorder import Recorder
            from traindx.probes.drive.sink import DiskSink
            from traindx.probes.launch import other_ranks
            from traindx.probes.launch.attach import attach
        except EnvironmentFault as why:  # a torch that we cannot observe trains all the same
            self.without = f": {why}"
            return

        if since is None:
            torchrun.larger_batches()
        path = session.folder(self.name, self.folder) if self.place is None else Path()
        sink = DiskSink(path, self.name, session.rank(), ranked=self.ranked, place=self.place)
        self.recorder = Recorder(sink, budget=session.share(self.budget))
        self.recorder.scene.facts.update(session.about(self.target, self.args))
        if self.profiler:
            self.recorder.scene.facts["perf.window"] = self.profiler
        if self.chosen.capture_batch:
            self.recorder.scene.facts["data.captured"] = True
        if self.chosen.replay:
            from traindx.forensics.arm import arm

            arm(self.recorder, capture_batch=self.chosen.capture_batch)
        if since is not None:
            self.recorder.joins(since)
        self._observer = attach(self.recorder)
        live_.beside(self.recorder, Path(self.target).name, addresses=self.addresses, chosen=self.chosen, **self.live)
        if since is None:
            sink.begun.append(other_ranks.follow)
            self._disarm = zero_code.arm()
        if follow:
            self._unfollow = spawned.follow(self._spawns, self._forks)
        if self.sync is not None and os.environ.get("LOCAL_RANK", "0") == "0":  # one of each machine's ranks copies for all
            sink.begun.append(self._copy)

    def _copy(self, path: Path) -> None:
        assert self.sync is not None
        self._spool = remote.Spool(path, self.sync)
        self._spool.start()

    def _spawns(self, function: Callable[..., Any], ranked: bool) -> Observed:
        self.spawned += 1
        return Observed(function, self.target, self.args, self.recorder.sink.path, self.budget, self.chosen, ranked)

    def _forks(self) -> None:
        self.forked += 1

    def end(self, ended: Ended) -> None:
        """Detach and close the record."""
        if self._observer is None:
            return
        self._disarm()
        self._unfollow()
        from traindx.forensics.lookup import beyond
        from traindx.probes.launch.attach import detach

        detach(self._observer)
        if ended.error is not None:
            self.recorder.attempted |= beyond(ended.error) is not None  # it died on the way to its first loss
            self.recorder.fails(ended.error, session.told(ended.error))
        if ended.how == "exit" and ended.code:
            self.recorder.scene.facts["exit.code"] = ended.code
        self.recorder.close(ended.how)
        if self._spool is not None and not self._spool.close():
            trouble = self._spool.trouble or "it took too long"
            say(f"the last copy to {self.sync} was not made ({trouble}); the record is in {self.recorder.sink.path}")
        self.without = _why_nothing(self._observer)
        self._observer = None
        if not self.recorder.started and not (self.spawned and is_record(self.recorder.sink.path)):
            self.recorder = None

    def run(self) -> Any:
        """What was recorded."""
        return self.recorder.sink.run() if self.recorder.started else read(self.recorder.sink.path)


def _why_nothing(observer: Any) -> str:
    """What was seen of a training that never made an update."""
    if observer.follower.phases.barren:
        return f": {observer.follower.phases.barren}"
    return ": an optimizer was made, but it never made a step" if observer.follower.stage.optimizers_built else ""


@dataclass(frozen=True)
class Observed:
    """A function for a spawned process, with observation around it; pickled by its names, like the function itself."""

    function: Callable[..., Any]
    target: str
    words: list[str]
    folder: Path
    budget: float | None
    chosen: Settings
    ranked: bool  # it counts only as one of several ranks

    def __call__(self, *args: Any) -> Any:
        watcher = Watcher(self.target, self.words, self.chosen, folder=self.folder, budget=self.budget, ranked=self.ranked)
        off = when_torch_is_there(watcher.begin)
        try:
            out = self.function(*args)
        except BaseException as error:
            watcher.end(Ended(1, "exception", error))
            raise
        finally:
            off()
        watcher.end(Ended(0, "closed"))
        return out
