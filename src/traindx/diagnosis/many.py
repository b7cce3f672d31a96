"""The diagnoses of many runs: on all cores of this machine, or on a Ray cluster when asked. The same as one by one."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from traindx.diagnosis import Diagnosis, diagnose
from traindx.errors import EnvironmentFault, UsageError
from traindx.plain import say
from traindx.run import Run
from traindx.settings import Settings

FEW = 16  # [x] a diagnosis takes about 0.1 s, starting the processes about as much as a few of them
CHUNK = 8
_shared: list[Run] = []  # what forked workers find in their memory: runs need not travel


def diagnose_all(
    runs: Sequence[Run], settings: Settings | None = None, *, on: str = "here", jobs: int | None = None
) -> list[Diagnosis]:
    """One diagnosis per run, in their order. `on`: "here" (processes, when there are enough runs) or "ray"."""
    if on == "ray":
        return _on_ray(runs, settings)
    if on != "here":
        raise UsageError(f"runs can be diagnosed on 'here' or 'ray', not on {on!r}")
    workers = min(jobs or cores(), max(1, len(runs) // CHUNK))
    if len(runs) < FEW or workers < 2 or not _may_fork():
        return [diagnose(run, settings) for run in runs]
    return _forked(runs, settings, workers)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _may_fork() -> bool:
    """Forking is cheap and safe here: the system can, no other thread holds a lock, and torch has started none of its own."""
    return hasattr(os, "fork") and sys.platform != "darwin" and threading.active_count() == 1 and "torch" not in sys.modules


def _forked(runs: Sequence[Run], settings: Settings | None, workers: int) -> list[Diagnosis]:
    importlib.import_module("traindx.rule").catalogue()  # once, before the children are made
    _shared[:] = runs
    parts = [range(i, min(i + CHUNK, len(runs))) for i in range(0, len(runs), CHUNK)]
    done: dict[int, Diagnosis] = {}
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
            for part, found in zip(parts, pool.map(_part, parts, [settings] * len(parts)), strict=True):
                done |= dict(zip(part, found, strict=True))
    except BrokenProcessPool:
        say("a worker process ended; the rest is diagnosed one by one")
    finally:
        _shared.clear()
    return [_with(done[i], run) if i in done else diagnose(run, settings) for i, run in enumerate(runs)]


def _part(places: range, settings: Settings | None) -> list[Diagnosis]:
    """In a worker: diagnoses without their runs, which the parent has."""
    return [_with(diagnose(_shared[i], settings), _NONE) for i in places]


_NONE = Run()


def _with(diagnosis: Diagnosis, run: Run) -> Diagnosis:
    return Diagnosis(run, diagnosis.outcomes, diagnosis.stories, diagnosis.causes, diagnosis.verdict_, diagnosis.facts)


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
