"""What ranks must agree on, written by each into its own file and compared offline; and whether this one still moves.

Nothing here talks to another rank: fingerprints are made on the same steps everywhere because the choice depends on the step's
number alone. In a single process every moment returns at once.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from traindx.measures import readable
from traindx.probe import Probe, Reading, Scene

DENSE, EARLY, LATE = 4, 1000, 100  # every step below DENSE, about 1 in 20 below EARLY, then about 1 in LATE
_ODD = -7046029254386353131
BITS = 52  # that a float64 carries exactly
PATIENCE_S, PATIENCE_STEPS = 60.0, 5.0  # CATALOGUE DIST005: no progress for a minute and five median steps


def place() -> tuple[int, int]:
    """Rank and number of ranks: from the launcher's environment, else from an initialised process group."""
    try:
        rank, world = int(os.environ.get("RANK", "")), int(os.environ.get("WORLD_SIZE", ""))
    except ValueError:
        rank, world = 0, 1
    if world > 1:
        return rank, world
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return (torch.distributed.get_rank(), torch.distributed.get_world_size()) if there else (0, 1)


def due(step: int) -> bool:
    """Whether ranks compare at this step: the same answer on all of them, and no fixed stride that a habit could hide in.

    >>> [s for s in range(60) if due(s)][:6]
    [0, 1, 2, 3, 4, 21]
    """
    mixed = ((step * 2654435761) & 0xFFFFFFFF) >> 9
    return step < DENSE or mixed % (20 if step < EARLY else LATE) == 0


def fingerprint(tensors: Sequence[Tensor]) -> Tensor:
    """One number of all bits of all tensors, on their device: equal tensors give equal numbers, whatever the thread count."""
    parts = [_bits(t) * (2 * i + 1) for i, t in enumerate(tensors) if t.numel()]
    if not parts:
        return torch.zeros((), dtype=torch.float64)
    mixed = torch.stack([p.to(parts[0].device) for p in parts]).sum() * _ODD  # bits of short numbers lie high: spread them
    mixed = mixed ^ (mixed >> 31)
    return (mixed & ((1 << BITS) - 1)).to(torch.float64)


def _bits(tensor: Tensor) -> Tensor:
    """A 64-bit number of a tensor's content. XOR alone is blind to order and to pairs: a spread sample is weighed in beside."""
    flat = tensor.detach().reshape(-1)
    if hasattr(torch, "hash_tensor"):
        whole = torch.hash_tensor(flat).view(torch.int64).reshape(())
    else:
        whole = flat.double().sum().view(torch.int64)
    some = flat[:: max(1, flat.numel() // 1024)].to(torch.float64)
    weights = torch.arange(1, 2 * some.numel(), 2, device=flat.device)
    return whole * 3 + (some.view(torch.int64) * weights).sum()


class Replicas(Probe):
    """`rank/fingerprint` and `rank/grad_fingerprint` on the ranks' common steps; `world_size`, `rank`, `distributed`."""

    ordinary: ClassVar[tuple[str, ...] | None] = ("before_step", "after_step")

    def __init__(self) -> None:
        self.rank, self.world = 0, 1
        self._sharded = False
        self._kind: str | None = None
        self._watchdog: Watchdog | None = None

    def start(self, scene: Scene) -> Reading | None:
        self.rank, self.world = place()
        self._sharded = any(not _plain(p) for p in scene.params)
        if self.world > 1:
            self._watchdog = Watchdog(scene, self.rank)
            self._watchdog.start()
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if self.world < 2 or self._sharded or not due(scene.step):
            return None
        grads = [p.grad for p in scene.owned(optimizer)[0] if p.grad is not None and readable(p.grad)]
        return {"rank/grad_fingerprint": fingerprint(grads)} if grads else None

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if self.world < 2:
            return None
        if self._watchdog is not None:
            self._watchdog.moved()
        if self._sharded or not due(scene.step) or optimizer is not scene.optimizer:
            return None
        params = [p for p in scene.params if readable(p)]
        return {"rank/fingerprint": fingerprint(params)} if params else None

    def last(self, scene: Scene) -> Reading | None:
        if self._watchdog is not None:
            self._watchdog.stop()
        return None

    def facts(self, scene: Scene) -> Mapping[str, Any] | None:
        self._kind = self._kind or _kind(scene, look=self.world > 1)  # at the end the wrapper may be gone
        if self.world < 2:
            return {"distributed": self._kind}
        return {"world_size": self.world, "rank": self.rank, "distributed": self._kind}


def _plain(tensor: Tensor) -> bool:
    return type(tensor).__name__ != "DTensor" and not hasattr(tensor, "_local_tensor")


def _kind(scene: Scene, *, look: bool) -> str | None:
    """ddp, fsdp, fsdp2 or dp; None when there is no such wrapper (`look`: also among objects that no forward went through)."""
    if any(not _plain(p) for p in scene.params):
        return "fsdp2"
    names = {"DistributedDataParallel": "ddp", "FullyShardedDataParallel": "fsdp", "DataParallel": "dp"}
    for model in scene.models:
        for module in model.modules():
            if type(module).__name__ in names and type(module).__module__.startswith("torch."):
                return names[type(module).__name__]
    if look:  # a wrapper whose inside is called: it exists all the same
        kinds = {type(thing).__name__ for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)}
        return next((short for name, short in names.items() if name in kinds), None)
    return None


class Watchdog(threading.Thread):
    """Notes, once, that this rank has not made a step for long, and where it stands. It only looks."""

    def __init__(self, scene: Scene, rank: int, least: float | None = None) -> None:
        super().__init__(name="traindx-watchdog", daemon=True)
        self.least = float(os.environ.get("TRAINDX_HANG_SECONDS", PATIENCE_S)) if least is None else least
        self._scene, self._rank = scene, rank
        self._main = threading.get_ident()
        self._at = time.monotonic()
        self._gaps: list[float] = []
        self._over = threading.Event()

    def moved(self) -> None:
        """A step was made."""
        now = time.monotonic()
        self._gaps = [*self._gaps[-20:], now - self._at]
        self._at = now

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        said_at = -1.0
        while not self._over.wait(min(1.0, self.least / 4)):
            typical = sorted(self._gaps)[len(self._gaps) // 2] if self._gaps else 0.0
            still = time.monotonic() - self._at
            if still > self.least + PATIENCE_STEPS * typical and said_at != self._at:
                said_at = self._at
                frame = sys._current_frames().get(self._main)
                stack = "".join(traceback.format_stack(frame)[-12:]) if frame is not None else ""
                self._scene.event("hang", rank=self._rank, seconds=round(still, 1), stack=stack)


PROBES = [Replicas]
