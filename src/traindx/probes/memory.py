"""Memory of the process and the accelerator, and a census of live tensors now and then."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from traindx.probe import Probe, Reading, Scene

EVERY_S = 1.0
CENSUS_FIRST, CENSUS_GROWTH = 20, 3  # steps of a census: 20, 60, 180 …: each walks all objects of the program
_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Memory(Probe):
    """`mem/rss`, `mem/allocated`, `mem/reserved` about once a second; `mem/tensors`, `mem/graph_tensors` at a census."""

    def __init__(self) -> None:
        self._at = 0.0
        self._census = CENSUS_FIRST

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        now = time.perf_counter()
        out: dict[str, Any] = {}
        if now - self._at > EVERY_S or scene.step in (0, 19):
            self._at = now
            resident = rss()
            if resident is not None:
                out["mem/rss"] = resident
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                out["mem/allocated"] = float(torch.cuda.memory_allocated())
                out["mem/reserved"] = float(torch.cuda.memory_reserved())
                out["mem/peak"] = float(torch.cuda.max_memory_allocated())
        if scene.step >= self._census:
            self._census *= CENSUS_GROWTH
            out.update(census())
        return out


def rss() -> float | None:
    """Resident bytes of this process; None where they cannot be read cheaply."""
    try:
        return float(int(_STATM.read_bytes().split()[1]) * _PAGE)
    except (OSError, IndexError, ValueError):
        return None


def census() -> dict[str, float]:
    """Live tensors of the program, and those that hold a graph."""
    tensors = graphs = 0
    for thing in gc.get_objects():
        if issubclass(type(thing), Tensor):
            tensors += 1
            graphs += thing.grad_fn is not None
    return {"mem/tensors": float(tensors), "mem/graph_tensors": float(graphs)}


PROBES = [Memory]
