"""Reading a record: process starts joined into one run, ranks side by side, and a live run as it grows."""

from __future__ import annotations

import itertools
from pathlib import Path

from traindx.errors import NothingReadable
from traindx.record import endings, flight
from traindx.record.manifest import MANIFEST, read_manifest, starts
from traindx.record.process import ProcessReader
from traindx.record.ranks import merge_ranks, since
from traindx.run import Run


def read(path: str | Path, rank: int | None = None) -> Run:
    """The run in that directory as its lowest rank (or `rank`) saw it, process starts joined, with `rank/*` signals of all."""
    runs = read_ranks(path)
    if rank is None:
        if len(runs) == 1:
            return merge_ranks(runs)
        home = run_dir(path)
        dumps, notes = flight.beside(home, runs)
        return merge_ranks(runs, endings.launches(home, since(runs)), dumps).with_(notes=notes)
    if rank not in runs:
        raise NothingReadable(f"{path}: rank {rank} wrote nothing; there are ranks {', '.join(map(str, runs))}")
    return runs[rank]


def read_ranks(path: str | Path) -> dict[int, Run]:
    """Each rank's own run, by rank."""
    run = run_dir(path)
    return {rank: _joined_starts(run, rank) for rank in _ranks(run)}


def follow(path: str | Path, rank: int | None = None) -> Follower:
    """An incremental reader of a run that may still be growing; of its lowest rank unless one is named."""
    run = run_dir(path)
    ranks = _ranks(run)
    follower = Follower(run, ranks[0] if rank is None else rank)
    follower.poll()
    return follower


def run_dir(path: str | Path) -> Path:
    """The run's directory, whether it or its manifest was named."""
    path = Path(path)
    return path.parent if path.name == MANIFEST and path.is_file() else path


def _ranks(run: Path) -> list[int]:
    try:
        read_manifest(run)
        ranks = sorted({s.rank for s in starts(run)})
    except OSError as why:
        raise NothingReadable(f"{run}: no traindx record can be read there ({why.strerror})") from None
    if not ranks:
        raise NothingReadable(f"{run}: there is no traindx record in it, or nothing was written yet")
    return ranks


class Follower:
    """A live run, read as it grows: `poll()` says whether there is news, `run` is everything so far."""

    def __init__(self, path: Path, rank: int = 0) -> None:
        self.path, self.rank = path, rank
        self._processes: dict[int, ProcessReader] = {}
        self._run: Run | None = None

    def poll(self) -> bool:
        """Read what was added since the last time; True if there was anything. A run that is gone has no news."""
        news = False
        try:
            for start in starts(self.path):
                if start.rank == self.rank:
                    news |= self._processes.setdefault(start.number, ProcessReader(start)).poll()
        except FileNotFoundError:
            return False
        if news:
            self._run = None
        return news

    @property
    def run(self) -> Run:
        """The run so far: process starts joined, the later believed where steps overlap."""
        if self._run is None:
            readers = [reader for _, reader in sorted(self._processes.items())]
            self._run = _joined(self.path, [(reader, reader.run()) for reader in readers])
        return self._run


def _joined_starts(path: Path, rank: int) -> Run:
    """A rank's run, read once: each process's raw records are let go of before the next is read."""
    pairs = []
    for start in starts(path):
        if start.rank == rank:
            reader = ProcessReader(start)
            reader.poll()
            pairs.append((reader, reader.run(last=True)))
    return _joined(path, pairs)


def _joined(path: Path, pairs: list[tuple[ProcessReader, Run]]) -> Run:
    out = pairs[0][1] if pairs else Run()
    notes: list[str] = []
    fresh = not _loads_first(out)
    for (before, _), (reader, run) in itertools.pairwise(pairs):
        out = out.then(_continued(out, run) if fresh else run)
        if _overlap(before, reader):
            notes.append(
                f"{before.start.path.name} was still being written when {reader.start.path.name} began: "
                "two processes recorded as the same rank; the later start is believed where their steps overlap"
            )
    trouble = read_manifest(path).trouble
    if trouble:
        notes.append(f"{trouble}; the segments were read without it")
    return Run(out.signals, out.facts, out.events, (*out.notes, *notes), str(path), "record")


def _continued(before: Run, after: Run) -> Run:
    """A process that counts from its own first update, though it continued from a checkpoint: its steps follow those before.

    Only where the first process began from nothing and saved checkpoints: else the same weights may have been loaded twice,
    for two trainings.
    """
    ends, begins = before.steps, after.steps
    resumes = ends and begins and begins[0] == ends[0] and before.events_of("checkpoint") and _loads_first(after)
    return after.moved(ends[1] + 1 - begins[0]) if resumes and ends and begins else after


def _loads_first(run: Run) -> bool:
    """Whether a model was loaded before the first update."""
    first = run.steps[0] if run.steps else 0
    return any(e.step <= first and e.data.get("what") == "model" for e in run.events_of("load"))


def _overlap(before: ProcessReader, after: ProcessReader) -> bool:
    last, begun = before.pulse.get("time"), after.created
    return isinstance(last, int | float) and begun is not None and begun < last
