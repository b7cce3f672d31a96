"""What the process uses: memory of it and of the accelerator, a census of live tensors occasionally, processor time."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from traindx.innards import sequence_nr
from traindx.probe import Probe, Reading, Scene

EVERY_S = 1.0
EFFORT_S = 0.02  # the clock of a thread costs a system call
CENSUS_STEP = 20  # the first census: what the program holds once it runs
CENSUS_SHARE = 0.002  # of the time: a census walks all objects of the program
_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Memory(Probe):
    """`mem/rss`, `mem/allocated`, `mem/reserved` about once a second; `mem/tensors`, `mem/graph_tensors` at a census."""

    light = True

    def __init__(self) -> None:
        self._at = self._begun = 0.0
        self._spent = self._cost = 0.0  # on all, and on the latest
        self._census = CENSUS_STEP
        self._made = 0  # the number of the latest node of any graph at the last update

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        now = time.perf_counter()
        self._begun = self._begun or now
        self._made = sequence_nr()
        out: dict[str, Any] = {}
        if now - self._at > EVERY_S or scene.step in (0, 19):
            self._at = now
            out.update(resident())
        if scene.step >= self._census and self._spent + self._cost <= CENSUS_SHARE * (now - self._begun):
            self._census = scene.step + max(scene.step // 4, 1)
            out.update(census())
            self._cost = time.perf_counter() - now
            self._spent += self._cost
        return out

    def last(self, scene: Scene) -> Reading | None:
        return {**resident(), **census(self._made)}


def resident() -> dict[str, float]:
    """Resident bytes of this process (where they can be read cheaply), and bytes on the accelerator."""
    out: dict[str, float] = {}
    with contextlib.suppress(OSError, IndexError, ValueError):
        out["mem/rss"] = float(int(_STATM.read_bytes().split()[1]) * _PAGE)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        out["mem/allocated"] = float(torch.cuda.memory_allocated())
        out["mem/reserved"] = float(torch.cuda.memory_reserved())
        out["mem/peak"] = float(torch.cuda.max_memory_allocated())
    return out


def census(before: float = math.inf) -> dict[str, float]:
    """Live tensors of the program, and those that hold a graph; what the program predicts after training is no leak."""
    kinds = (Tensor, torch.nn.Parameter)
    found = [thing for thing in gc.get_objects() if type(thing) in kinds]
    graphs = sum(t.grad_fn is not None and t.grad_fn._sequence_nr() < before for t in found)
    return {"mem/tensors": float(len(found)), "mem/graph_tensors": float(graphs)}


class Effort(Probe):
    """`time/cpu`: what an update cost the thread that trains. Another program that is busy does not add to it."""

    light = True

    def __init__(self) -> None:
        self._at = self._used = 0.0
        self._step = self._thread = -1

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        now = time.perf_counter()
        if now - self._at < EFFORT_S or scene.step <= self._step:
            return None
        used, thread = time.thread_time(), threading.get_ident()
        begun, same = self._step >= 0, thread == self._thread
        each = (used - self._used) / (scene.step - self._step)
        self._at, self._used, self._step, self._thread = now, used, scene.step, thread
        return {"time/cpu": each} if begun and same else None


PROBES = [Memory, Effort]
