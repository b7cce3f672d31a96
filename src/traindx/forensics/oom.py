"""When memory runs out: what was alive, who asked for more, and what to try first."""

from __future__ import annotations

import gc
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from traindx.forensics.leaks import holder
from traindx.forensics.places import ours, source
from traindx.forensics.tensors import tensors_in
from traindx.probe import Scene

_WORDS = ("out of memory", "can't allocate memory", "defaultcpuallocator", "cannot allocate memory", "bad alloc", "bad_alloc")
_ASKED = re.compile(r"[Tt]ried to allocate (?P<n>[\d.]+) ?(?P<unit>bytes|[KMGT]i?B)")
_UNITS = {"B": 0, "K": 10, "M": 20, "G": 30, "T": 40}
MOST_NODES, MOST_SECONDS, LARGEST = 20_000, 1.0, 6
KINDS = ("parameters", "gradients", "optimizer", "graph", "batch", "other")


def ran_out(error: BaseException) -> bool:
    """Whether an error says that memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(word in str(error).lower() for word in _WORDS)


def report(error: BaseException, scene: Scene) -> dict[str, Any]:
    """The fact `memory.oom`: where and in which part of the step, what was asked for, bytes alive by kind, what to try."""
    file, line, phase = _where(error.__traceback__)
    alive, largest = _alive(scene)
    asked = _asked(str(error))
    told: dict[str, Any] = {
        "message": str(error).splitlines()[0][:200] if str(error) else type(error).__name__,
        "where": f"{file}:{line}" if file else "",
        "text": source(file, line) if file else "",
        "phase": phase,
        "asked": asked,
        "alive": {kind: alive[kind] for kind in KINDS if alive[kind]},
        "largest": largest,
        "host": _host(),
        "device": _device(),
    }
    return {**told, "try": advice(told, scene)}


def advice(told: dict[str, Any], scene: Scene) -> list[str]:
    """What to try, the most promising first."""
    alive = told["alive"]
    total = sum(alive.values()) or 1
    share = {kind: alive.get(kind, 0) / total for kind in KINDS}
    state = share["parameters"] + share["gradients"] + share["optimizer"]
    out: list[str] = []
    if told["asked"] and told["asked"] > total:
        out.append(
            f"this one allocation ({_size(told['asked'])}) is larger than all that was alive: look at the shapes at {told['where']}"
        )
    held = next((row for row in told["largest"] if row["kind"] == "other" and row.get("holder")), None)
    if share["other"] > 0.4 and held and held["bytes"] > 0.1 * max(told["asked"] or 0, alive["other"]):
        out.append(f"tensors kept in {held['holder']} take {_size(held['bytes'])}: keep numbers, or .detach().cpu()")
    device = told["device"]
    if device and device["reserved"] > 1.3 * max(device["allocated"], 1):
        out.append("reserved memory is not in use: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, batches of even length")
    training = scene.model is None or scene.model.training
    if share["graph"] > 0.3 and not training:
        out.append("evaluate under torch.no_grad(): the graph of an evaluation is alive")
    if share["graph"] >= state or not out:
        out += ["half the micro-batch and accumulate twice", "activation checkpointing", "bf16 autocast"]
    if state > 0.5:
        out.append("the optimizer's state: 8-bit or fused Adam, SGD, or sharding (FSDP); zero_grad(set_to_none=True)")
    workers = told["host"].get("workers", 0)
    if workers > 0.3 * (told["host"].get("resident") or 1) and not device:
        out.append("fewer loader workers: their copies take " + _size(workers))
    return out[:4]


def _where(tb: TracebackType | None) -> tuple[str, int, str]:
    """The innermost line of the user's in a traceback, and whether it was forward, backward or the optimizer."""
    file, line, phase = "", 0, "forward"
    while tb is not None:
        code = tb.tb_frame.f_code
        if not ours(code.co_filename):
            file, line = code.co_filename, tb.tb_lineno
        if code.co_name == "backward" and "torch" in code.co_filename:
            phase = "backward"
        elif code.co_name in ("step", "_init_group") and "optim" in code.co_filename:
            phase = "optimizer"
        tb = tb.tb_next
    return file, line, phase


def _asked(message: str) -> int | None:
    found = _ASKED.search(message)
    if found is None:
        return None
    unit = found["unit"][0] if found["unit"] != "bytes" else "B"
    return int(float(found["n"]) * (1 << _UNITS[unit]))


def _alive(scene: Scene) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Bytes of living tensors by kind, each storage once, and the largest of them in groups of equal shape."""
    kinds: dict[int, str] = {}
    for kind, tensors in _known(scene):
        for t in tensors:
            kinds.setdefault(_storage(t), kind)
    alive: dict[str, int] = defaultdict(int)
    groups: dict[tuple[str, tuple[int, ...], str], list[Tensor]] = defaultdict(list)
    seen: set[int] = set()
    everything = [t for t in gc.get_objects() if issubclass(type(t), Tensor)]
    for t in [*everything, *_saved(everything)]:
        key = _storage(t)
        if key in seen or not key:
            continue
        seen.add(key)
        kind = kinds.get(key) or ("graph" if t.grad_fn is not None or t not in _Identity(everything) else "other")
        alive[kind] += t.untyped_storage().nbytes()
        groups[kind, tuple(t.shape), str(t.dtype).removeprefix("torch.")].append(t)
    ordered = sorted(groups.items(), key=lambda item: -sum(t.untyped_storage().nbytes() for t in item[1]))
    largest = []
    for (kind, shape, dtype), tensors in ordered[:LARGEST]:
        size = sum(t.untyped_storage().nbytes() for t in tensors)
        row = {"kind": kind, "shape": list(shape), "dtype": dtype, "count": len(tensors), "bytes": size}
        largest.append({**row, **holder(tensors[0])} if kind == "other" else row)
    return alive, largest


class _Identity:
    """Membership by identity: comparing tensors compares their numbers."""

    def __init__(self, things: Iterable[Any]) -> None:
        self._ids = {id(t) for t in things}

    def __contains__(self, thing: object) -> bool:
        return id(thing) in self._ids


def _known(scene: Scene) -> Iterator[tuple[str, list[Tensor]]]:
    params = scene.params
    yield "parameters", [*params, *(b for m in scene.models for b in m.buffers())]
    yield "gradients", [p.grad for p in params if p.grad is not None]
    yield "optimizer", [t for o in scene.optimizers for t in tensors_in(list(o.state.values()))]


def _saved(tensors: Iterable[Tensor]) -> list[Tensor]:
    """What autograd nodes have put aside for the backward, found from the living tensors."""
    todo = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen: set[Any] = set()
    out: list[Tensor] = []
    ends = time.monotonic() + MOST_SECONDS
    while todo and len(seen) < MOST_NODES and time.monotonic() < ends:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved_"):
                out += _kept(node, name)
        todo += [n for n, _ in node.next_functions]
    return out


def _kept(node: Any, name: str) -> list[Tensor]:
    try:
        return tensors_in(getattr(node, name))
    except RuntimeError:  # freed already, or changed in place
        return []


def _storage(t: Tensor) -> int:
    try:
        return int(t.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # sparse, meta and wrapped tensors have none
        return 0


def _host() -> dict[str, int]:
    try:
        import psutil
    except ModuleNotFoundError:  # in an environment that is not ours
        return {}
    try:
        own = psutil.Process()
        workers = sum(child.memory_info().rss for child in own.children())
        resident, memory = own.memory_info().rss, psutil.virtual_memory()
        return {"resident": resident, "workers": workers, "available": memory.available, "total": memory.total}
    except psutil.Error:
        return {}


def _device() -> dict[str, int] | None:
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return None
    found = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    return {
        "allocated": int(found.get("allocated_bytes.all.current", 0)),
        "reserved": int(found.get("reserved_bytes.all.current", 0)),
        "peak": int(found.get("allocated_bytes.all.peak", 0)),
        "retries": int(found.get("num_alloc_retries", 0)),
        "free": int(free),
        "total": int(total),
    }


def _size(n: float) -> str:
    """
    >>> _size(3_200_000_000)
    '3.2 GB'
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}"
    return f"{n / 1e3:.3g} kB"
