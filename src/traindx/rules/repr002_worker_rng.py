"""Loader workers draw the same random numbers.

## What it sees

Randomly augmented samples that two workers both produced (content hashes within an epoch), at least three of them. Where
samples differ anyway: a generator that the data set keeps and its `__getitem__` draws from, with two workers or more and no
`worker_init_fn`.

## Why it matters

A generator that is stored on the data set (`self.rng = np.random.default_rng(0)`) is copied to every worker. With four
workers a quarter of the augmentation is left, and every epoch repeats it.

## What else looks like this

- DATA010: the data set itself holds equal samples. Those are not augmented.
- DATA009: the augmentation is frozen for all, workers or not.
- NumPy's global generator: seeded per worker since PyTorch 1.9; a generator *object* is not.

## What to do

`DataLoader(..., worker_init_fn=traindx.seed_worker)`, which gives the generators of each worker's copy a seed of their own;
or draw from torch's generator in `__getitem__`.
"""

from __future__ import annotations

from collections.abc import Iterator

from traindx import facts
from traindx.finding import Confidence, Evidence, Severity
from traindx.rule import rule
from traindx.run import Run


@rule(
    "REPR002",
    needs={"fact:data.worker_duplicates | fact:data.copied_generator": 1},
    says={
        "": "two workers produced the same {count:.0f} augmented samples ({workers} workers)",
        "copied": "the data set keeps its own random generator, so each of {workers} workers has a copy in the same state",
    },
    fix="Seed generators per worker from get_worker_info().seed, e.g. DataLoader(…, worker_init_fn=traindx.seed_worker).",
    severity=Severity.WARNING,
    confidence=Confidence.EXACT,
    explains=("DATA009",),
    at="dataset",
)
def worker_rng(run: Run, *, least: int = 3) -> Iterator[Evidence]:  # one or two can be equal samples
    count = facts.number(run.fact("data.worker_duplicates"), 0.0)
    loader = facts.table(run, "data.loader")
    workers = facts.number(loader.get("num_workers"), 2.0)
    where = (str(loader.get("dataset")),) if loader.get("dataset") else ()
    if count >= least and workers >= 2:
        yield Evidence({"count": count, "workers": f"{workers:.0f}"}, where)
    elif run.fact("data.copied_generator") and workers >= 2:
        yield Evidence({"workers": f"{workers:.0f}"}, where, say="copied")
