"""What ranks must agree on, written by each into its own file and compared offline; and whether this one still moves.

Nothing here talks to another rank: fingerprints and counts are made on the same steps everywhere because the choice depends on
the step's number alone. In a single process every moment returns at once.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from traindx import innards
from traindx.measures import norms, readable
from traindx.probe import TRAIN, VAL, LossCall, Probe, Reading, Row, Scene
from traindx.probes.read.common import losses
from traindx.record import flight

DENSE, EARLY, LATE = 4, 1000, 100  # every step below DENSE, 1 in 20 below EARLY, then 1 in LATE
COUNTED = 80  # steps from the first on in which targets are counted, too: it is cheap, and DIST006 needs 50 of them
_CALLS = 64  # loss calls that wait for their phase
_ODD = -7046029254386353131
CLOCKED = 100
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

    >>> [s for s in range(100) if due(s)]
    [0, 1, 2, 3, 12, 24, 57, 69, 81]
    """
    every = 20 if step < EARLY else LATE
    block, place = divmod(step, every)
    return step < DENSE or place == ((((block + 1) * 2654435769) & 0xFFFFFFFF) * every) >> 32  # one step of every block


def counted(step: int) -> bool:
    """Whether ranks count their targets at this step: they compare it, or the run is young."""
    return step < COUNTED or due(step)


def fingerprint(tensors: Sequence[Tensor]) -> Tensor:
    """One number of all bits of all tensors, on their device: equal tensors give equal numbers, whatever the thread count."""
    parts = [_bits(t) * (2 * i + 1) for i, t in enumerate(tensors) if t.numel()]
    if not parts:
        return torch.zeros((), dtype=torch.float64)
    mixed = torch.stack([p.to(parts[0].device) for p in parts]).sum() * _ODD  # bits of short numbers lie high: spread them
    mixed = mixed ^ (mixed >> 31)
    return (mixed & ((1 << BITS) - 1)).to(torch.float64)


def _bits(tensor: Tensor) -> Tensor:
    """A 64-bit number of a tensor's content. XOR alone is blind to order and to pairs: a weighted sample is added."""
    flat = tensor.detach().reshape(-1)
    if hasattr(torch, "hash_tensor"):
        whole = torch.hash_tensor(flat).view(torch.int64).reshape(())
    else:
        whole = flat.double().sum().view(torch.int64)
    some = flat[:: max(1, flat.numel() // 1024)].to(torch.float64)
    weights = torch.arange(1, 2 * some.numel(), 2, device=flat.device)
    return whole * 3 + (some.view(torch.int64) * weights).sum()


def _running(models: Sequence[torch.nn.Module]) -> list[Tensor]:
    norms = (m for model in models for m in model.modules() if isinstance(m, innards.NormBase))
    return [t for m in norms for t in (m.running_mean, m.running_var) if t is not None]


class Replicas(Probe):
    """`rank/fingerprint` and `rank/grad_fingerprint` on the ranks' common steps, or the norms of the gradients' shards where
    the model is sharded; targets and the loss per target; what DDP clocks of itself; `world_size`, `rank`, `distributed`."""

    ordinary: ClassVar[tuple[str, ...] | None] = ("before_forward", "on_loss", "on_settled", "before_step", "after_step")
    wakes: ClassVar[tuple[str, ...]] = ("before_step", "after_step")

    def __init__(self) -> None:
        self.rank, self.world = 0, 1
        self.idle = True  # the step on the way is none in which targets are counted
        self._calls: dict[int, tuple[str, Tensor]] = {}  # loss call → its site; its targets and the sum of their losses
        self._targets: dict[str, Tensor] = {}  # of this update, by site
        self._kind: str | None = None
        self._watchdog: Watchdog | None = None
        self._ddp: weakref.ref[torch.nn.Module] | None = None
        self._timed = -1  # the latest iteration that DDP has clocked
        self._statistics: list[Tensor] = []  # of BatchNorm, which no wrapper sends from rank 0 to the others
        self._print: tuple[int, Tensor] | None = None  # a step, and the fingerprint of the parameters it began with

    def start(self, scene: Scene) -> Reading | None:
        self.rank, self.world = place()
        if self.world > 1:
            scene.world = self.world
            self._kind = _kind(scene, look=True)
            inside = (m for model in scene.models for m in model.modules())
            self._ddp = next((weakref.ref(m) for m in inside if _named(m) == "ddp"), None)
            sends = any(_sends_buffers(m) for m in scene.models)
            scene.waits_in_forward = self._sharded or sends
            if not self._sharded and not sends:
                self._statistics = _running(scene.models)
            self._watchdog = Watchdog(scene, self.rank)
            self._watchdog.start()
        return None

    @property
    def _sharded(self) -> bool:
        return self._kind in ("fsdp", "fsdp2", "tp")

    def before_forward(self, scene: Scene, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What the first training forward of a step begins with: averaged, where ranks average after their updates, and not
        yet moved away for a look at the loss around it."""
        if self.world > 1 and model.training and torch.is_grad_enabled() and due(scene.step):
            self._fingerprinted(scene)

    def _fingerprinted(self, scene: Scene) -> Tensor | None:
        if self._print is None or self._print[0] != scene.step:
            params = [] if self._sharded else [p for p in scene.params if readable(p)]
            self._print = (scene.step, fingerprint(params)) if params else None
        return self._print[1] if self._print is not None else None

    def on_loss(self, scene: Scene, call: LossCall) -> None:
        if self.world < 2 or call.phase == VAL or not call.grad or not counted(scene.step):
            return
        found = _asked(call)
        if found is None:
            return
        if len(self._calls) >= _CALLS:
            self._calls.pop(next(iter(self._calls)))
        self._calls[call.serial] = (call.site, found)

    def on_settled(self, scene: Scene, call: LossCall, phase: str) -> None:
        known = self._calls.pop(call.serial, None) if self._calls else None
        if known is not None and phase == TRAIN:
            site, found = known
            before = self._targets.get(site)
            self._targets[site] = found if before is None or before.device != found.device else before + found

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if self.world < 2:
            return None
        out: dict[str, Any] = {}
        if self._targets:  # of several losses the first: all ranks have the same program
            number, total = next(iter(self._targets.values())).unbind()
            self._targets = {}
            out |= {"batch/targets": number, "loss/target_mean": total / number}
        if not due(scene.step):
            return out or None
        if optimizer is scene.optimizer and (held := self._fingerprinted(scene)) is not None:
            out["rank/fingerprint"] = held
            if self._statistics:
                out["rank/buffer_fingerprint"] = fingerprint(self._statistics)
        model: Any = self._ddp() if self._ddp is not None else None
        if model is not None and model._join_config.enable:
            scene.fact("distributed.joined", True)
        params, names = scene.owned(optimizer)
        if self._sharded:
            return out | dict(_shard_norms(params, names, _copies(scene.models)) or {})
        grads = [p.grad for p in params if p.grad is not None and readable(p.grad)]
        return out | {"rank/grad_fingerprint": fingerprint(grads)} if grads else out

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        if self.world < 2:
            return None
        self.idle = not counted(scene.step + 1)
        if self._watchdog is not None:
            self._watchdog.moved()
        out: dict[str, Any] = {}
        if scene.step % CLOCKED == CLOCKED // 2:  # DDP clocks every hundredth iteration
            out |= self._clocked()
        return out or None

    def _clocked(self) -> dict[str, Any]:
        """Seconds of computing and of communicating in the latest step that DDP has clocked of itself."""
        model: Any = self._ddp() if self._ddp is not None else None
        if model is None:
            return {}
        told = model._get_ddp_logging_data()
        compute = (told.get("forward_compute_time") or 0) + (told.get("backward_compute_time") or 0)
        new, self._timed = told.get("iteration", -1) != self._timed, told.get("iteration", -1)
        if not new or compute <= 0:
            return {}
        return {"time/ddp_compute": compute * 1e-9, "time/ddp_comm": told.get("backward_comm_time", 0) * 1e-9}

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "traindx_off" and self._watchdog is not None:
            self._watchdog.stop()  # nobody will say any more that a step was made
        if kind in ("exception", "hang") and self.world > 1:
            entries = collectives()
            if entries:
                scene.event("collectives", rank=self.rank, entries=entries)

    def last(self, scene: Scene) -> Reading | None:
        if self._watchdog is not None:
            self._watchdog.stop()
        return None

    def facts(self, scene: Scene) -> Mapping[str, Any] | None:
        self._kind = self._kind or _kind(scene, look=self.world > 1)  # at the end the wrapper may be gone
        if self.world < 2:
            return {"distributed": self._kind}
        prefix = next((os.environ[v] for v in flight.FLIGHT if os.environ.get(v)), None)
        return {"world_size": self.world, "rank": self.rank, "distributed": self._kind, "flight_recorder": prefix}


def collectives() -> list[dict[str, Any]]:
    """The last collectives of this process as torch's flight recorder kept them; it is asked, nobody is waited for."""
    native = getattr(torch._C, "_distributed_c10d", None)
    dump = getattr(native, "_dump_fr_trace", None) or getattr(native, "_dump_nccl_trace", None)
    return flight.tail(flight.loaded(dump())) if dump is not None else []


def _asked(call: LossCall) -> Tensor | None:
    """How many targets a classification counts and the sum of their losses; None where that cannot be told."""
    said = losses.read(call)
    if said is None or not said.indices or said.target is None or not losses.plain(call.output):
        return None
    number = torch.ne(said.target, said.ignore_index).sum().float()
    value = call.output.detach().float().sum()
    return torch.stack([number, value * number if said.reduction == "mean" else value])


def _shard_norms(params: Sequence[Tensor], names: tuple[str, ...], copies: int) -> Reading | None:
    """The 2-norm of this rank's part of each gradient; over all ranks their squares add up to that of the whole."""
    held = [(name, *_part(param.grad, copies)) for param, name in zip(params, names)]
    have = [(name, part, times) for name, part, times in held if part is not None and readable(part)]
    if not have:
        return None
    size = norms([part for _, part, _ in have])
    shares = torch.tensor([times**-0.5 for _, _, times in have], dtype=size.dtype).to(size.device)
    return {"shard_norm/param": Row(tuple(name for name, _, _ in have), size * shares)}


def _part(grad: Any, copies: int) -> tuple[Tensor | None, int]:
    """What this rank holds of a gradient, and on how many ranks the same part lies."""
    if grad is None or _plain(grad):
        return grad, copies
    times = 1
    for dim, placement in enumerate(grad.placements):
        if placement.is_partial():
            return None, 1  # a sum that is not made yet: no part of the whole
        times *= grad.device_mesh.size(dim) if placement.is_replicate() else 1
    return grad._local_tensor, times


def _copies(models: Sequence[Any]) -> int:
    """On how many ranks a flat parameter's shard lies (FullyShardedDataParallel)."""
    world = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    for model in models:
        group = getattr(model, "process_group", None) if _named(model) == "fsdp" else None
        if group is not None:
            return max(1, world // group.size())
    return 1


def _sends_buffers(model: torch.nn.Module) -> bool:
    """Whether a forward waits for rank 0's buffers, or for everybody's statistics."""
    if any(type(m).__name__ == "SyncBatchNorm" for m in model.modules()):
        return True
    return _named(model) == "ddp" and bool(getattr(model, "broadcast_buffers", False)) and any(True for _ in model.buffers())


def _plain(tensor: Tensor) -> bool:
    return type(tensor).__name__ != "DTensor" and not hasattr(tensor, "_local_tensor")


_WRAPPERS = {"DistributedDataParallel": "ddp", "FullyShardedDataParallel": "fsdp", "DataParallel": "dp"}


def _named(module: Any) -> str | None:
    kind = type(module)
    return _WRAPPERS.get(kind.__name__) if kind.__module__.startswith("torch.") else None


def _kind(scene: Scene, *, look: bool) -> str | None:
    """ddp, fsdp, fsdp2, tp or dp; None when there is no wrapper (`look`: also among objects that no forward went through)."""
    parts: list[Any] = [p for p in scene.params if not _plain(p)]
    if parts:
        inside = (kind for model in scene.models for m in model.modules() for kind in type(m).__mro__)
        by_data = any(kind.__name__ == "FSDPModule" for kind in inside)
        return "fsdp2" if by_data and all(p.device_mesh.ndim == 1 or p.placements[0].is_replicate() for p in parts) else "tp"
    for model in scene.models:
        for module in model.modules():
            if (name := _named(module)) is not None:
                return name
    if look:  # a wrapper whose inside is called: it exists all the same
        kinds = {type(thing).__name__ for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)}
        return next((short for name, short in _WRAPPERS.items() if name in kinds), None)
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
