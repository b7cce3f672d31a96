"""Many trials at once: each in a process of its own, on the cores of this machine or on a Ray cluster when asked.

Every process computes with one thread wherever it runs, so that the answers do not depend on how many run at the same time.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traindx.children import ours
from traindx.diagnosis.many import cluster, cores
from traindx.errors import UsageError

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Job:
    """One trial on one target, with its limits as they stand on a command line."""

    trial: str
    target: str
    limits: tuple[tuple[str, str], ...] = ()
    where: str = ""  # the folder in which it is run: a Ray worker stands elsewhere
    home: str = ""  # where its record goes: of its own, because names of records have only seconds to differ in

    def words(self) -> list[str]:
        """The command."""
        given = [word for key, value in self.limits for word in ("--set", f"{key}={value}")]
        return ours("traindx", "trial", self.trial, self.target, "--format", "json", "-q", *given)


def jobs(
    trials: Sequence[str],
    targets: Sequence[str],
    over: Mapping[str, Sequence[str]],
    fixed: Mapping[str, str] | None = None,
) -> list[Job]:
    """Every trial on every target with every combination of the limits that are varied.

    >>> [j.limits for j in jobs(["lr-range"], ["a.py"], {"steps": ["50", "100"]})]
    [(('steps', '50'),), (('steps', '100'),)]
    """
    varied = [[(key, value) for value in values] for key, values in over.items()]
    always = tuple((fixed or {}).items())
    where = Path.cwd()
    base = where / os.environ.get("TRAINDX_DIR", "traindx-runs") / f"sweep-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    product = itertools.product(targets, trials, itertools.product(*varied))
    return [
        Job(trial, target, (*always, *chosen), str(where), str(base / f"{i:04d}"))
        for i, (target, trial, chosen) in enumerate(product)
    ]


def run_one(job: Job) -> dict[str, Any]:
    """Run a trial to its end: its result (`traindx.trial/1`) with the target and the limits; `failed` with the reason."""
    own = {**os.environ, **ONE_THREAD, **({"TRAINDX_DIR": job.home} if job.home else {})}
    done = subprocess.run(  # without a terminal nothing is asked
        job.words(),
        env=own,
        cwd=job.where or None,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    about = {"target": job.target, "limits": dict(job.limits)}
    try:
        return {**json.loads(done.stdout), **about}
    except ValueError:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = lines[-1].removeprefix("traindx: ") if lines else f"it ended with code {done.returncode} and without a word"
        return {"schema": "traindx.trial/1", "trial": job.trial, "result": "failed", "reason": why[:500], **about}


def run_all(
    given: Sequence[Job], *, on: str = "here", workers: int | None = None, one: Callable[[Job], dict[str, Any]] = run_one
) -> Iterator[dict[str, Any]]:
    """The results, in the order of the jobs, each as soon as it and those before it are there."""
    if on == "ray":
        ray = cluster()
        task = ray.remote(one)
        for waiting in [task.remote(job) for job in given]:
            yield dict(ray.get(waiting))
        return
    if on != "here":
        raise UsageError(f"trials can be run on 'here' or 'ray', not on {on!r}")
    with ThreadPoolExecutor(max(1, min(workers or cores(), len(given) or 1))) as pool:  # a thread only waits for its process
        yield from pool.map(one, given)
