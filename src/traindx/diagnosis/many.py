"""The diagnoses of many runs: on all cores of this machine, or on a Ray cluster when asked. The same as one by one."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any, TypeVar

from traindx.diagnosis import Diagnosis, diagnose
from traindx.errors import EnvironmentFault, UsageError
from traindx.plain import say
from traindx.run import Run
from traindx.settings import Settings

FEW = 16  # [x] a diagnosis takes about 0.1 s, starting the processes about as much as a few of them
CHUNK = 8
T = TypeVar("T")
R = TypeVar("R")
_shared: list[Any] = []  # what forked workers find in their memory: runs need not travel


def diagnose_all(
    runs: Sequence[Run], settings: Settings | None = None, *, on: str = "here", jobs: int | None = None
) -> list[Diagnosis]:
    """One diagnosis per run, in their order. `on`: "here" (processes, when there are enough runs) or "ray"."""
    if on == "ray":
        return _on_ray(runs, settings)
    if on != "here":
        raise UsageError(f"runs can be diagnosed on 'here' or 'ray', not on {on!r}")
    made = each(runs, lambda run: _with(diagnose(run, settings), _NONE), jobs=jobs)
    return [_with(d, run) for d, run in zip(made, runs, strict=True)]


def each(items: Sequence[T], work: Callable[[T], R], *, jobs: int | None = None) -> Iterator[R]:
    """`work` on every item, in their order: in processes when there are enough of them."""
    workers = min(jobs or cores(), max(1, len(items) // CHUNK))
    if len(items) < FEW or workers < 2 or not _may_fork():
        yield from map(work, items)
        return
    importlib.import_module("traindx.rule").catalogue()  # once, before the children are made
    _shared[:] = [items, work]
    parts = [range(i, min(i + CHUNK, len(items))) for i in range(0, len(items), CHUNK)]
    done = 0
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
            for found in pool.map(_part, parts):
                yield from found
                done += len(found)
    except BrokenProcessPool:
        say("a worker process ended; the rest is judged one by one")
    finally:
        _shared.clear()
    yield from map(work, items[done:])


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _may_fork() -> bool:
    """Forking is cheap and safe here: the system can, no other thread holds a lock, and torch has started none of its own."""
    return hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1 and "torch" not in sys.modules


def _part(places: range) -> list[Any]:
    """In a worker."""
    items, work = _shared
    return [work(items[i]) for i in places]


_NONE = Run()


def _with(diagnosis: Diagnosis, run: Run) -> Diagnosis:
    return replace(diagnosis, run=run)


def cluster() -> Any:
    """Ray, connected to the cluster that is running; we start none."""
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError:
        raise EnvironmentFault("--on ray needs Ray: pip install 'traindx[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
        except ConnectionError as why:
            if (address := os.environ.get("RAY_ADDRESS")) is not None:
                told = f"the Ray cluster at {address} cannot be reached: {str(why).splitlines()[0][:200]}"
                raise EnvironmentFault(f"{told}; is it up, and are RAY_AUTH_MODE and RAY_AUTH_TOKEN those it wants?") from None
            raise EnvironmentFault(
                "no Ray cluster is running here: `ray start --head` starts one, or set RAY_ADDRESS"
            ) from None
    return ray


def _on_ray(runs: Sequence[Run], settings: Settings | None) -> list[Diagnosis]:
    """Diagnose on the Ray cluster that is running; it must have the same traindx installed."""
    ray = cluster()

    def part(chunk: list[Run], chosen: Settings | None) -> list[Diagnosis]:
        return [_with(diagnose(run, chosen), _NONE) for run in chunk]

    task = ray.remote(part)
    chunks = [list(runs[i : i + CHUNK]) for i in range(0, len(runs), CHUNK)]
    found = [d for made in ray.get([task.remote(chunk, settings) for chunk in chunks]) for d in made]
    return [_with(d, run) for d, run in zip(found, runs, strict=True)]
