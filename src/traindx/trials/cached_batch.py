"""Cached batch: how much faster would training be if data cost nothing? (CATALOGUE T18)"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.state import random_kept
from traindx.trials.task import Task, to_device

INPUT_BOUND = 1.15
WORTH_S = 0.01  # a wait of less than 10 ms a step is a toy-sized task, not a bottleneck


@trial("cached-batch", steps=40, most=lambda t: 2 * t.steps + 1)
@dataclass(frozen=True)
class CachedBatch:
    """Steps on fresh batches against steps on one batch that is already there: what waiting for data costs."""

    steps: int = 20

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Time both kinds of steps, alternating, so that a noisy machine treats them alike."""
        if task.captured:
            why = "cannot tell: a script's own loader is not available here; `traindx run` times it (PERF001)"
            return Result("cached-batch", "refused", {"blind": True}, why)
        real, cached = [], []
        with task.twin() as twin, random_kept(seed=0):
            if twin.optimizer is None:
                twin.use(torch.optim.SGD(twin.model.parameters(), lr=0.0))
            twin.model.train()
            fresh = iter(task.train)
            kept = to_device(next(fresh), task.device)
            twin.step(kept)
            for i in range(self.steps):
                began = time.perf_counter()
                batch = next(fresh, None)
                if batch is None:
                    break
                twin.step(batch)
                self._wait()
                middle = time.perf_counter()
                twin.step(kept)
                self._wait()
                real.append(middle - began)
                cached.append(time.perf_counter() - middle)
                progress(i + 1, self.steps, "fresh and cached batches")
        return timed(real, cached)

    def _wait(self) -> None:
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()


def timed(real: list[float], cached: list[float]) -> Result:
    """What seconds on fresh and on cached batches say."""
    if len(real) < 3:
        return Result("cached-batch", "undecided", {}, "fewer than 4 batches in the data", steps=2 * len(real))
    speedup = float(np.median(real) / np.median(cached))
    answer = {"speedup": speedup, "real_s": float(np.median(real)), "cached_s": float(np.median(cached))}
    run = Run.of({"trial/real": real, "trial/cached": cached}, facts={"perf.cached_speedup": speedup}, kind="trial")
    if speedup >= INPUT_BOUND and answer["real_s"] - answer["cached_s"] > WORTH_S:
        return Result(
            "cached-batch",
            "fail",
            answer,
            f"input-bound: without waiting for data a step would be {speedup:.2f} times faster",
            run,
            2 * len(real),
        )
    return Result(
        "cached-batch",
        "pass",
        answer,
        f"no loader to speed up: a fresh batch costs {1e3 * max(0.0, answer['real_s'] - answer['cached_s']):.2g} ms of a step of "
        f"{1e3 * answer['real_s']:.2g} ms",
        run,
        2 * len(real),
    )
