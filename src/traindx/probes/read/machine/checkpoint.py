"""What is saved, what is seeded, and where the run happens.

A checkpoint is told by its contents, not by its keys: an optimizer's state has groups, a scheduler's has a last epoch,
a random state has its own form. What lived while it was written and is in no file is missing.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from traindx.probe import Probe, Scene
from traindx.probes.read.common.names import working
from traindx.probes.read.machine import generators
from traindx.probes.read.machine.surroundings import commit_of, redacted, versions

# What people call the place in the training (documented aliases, lower case); any whole number equal to the step counts too.
STEP_NAMES = ("step", "epoch", "iter", "iteration", "global_step", "current_epoch", "n_iter", "it", "steps", "epochs")
_RNG_BYTES = (5056, 16)  # sizes of torch's CPU and CUDA generator states
_UNSEEDED = 67280421310721  # torch's generator before anybody seeds it; since 2.13 64 bits from the system's entropy
_DRAWN = 2**53  # seeds that people set are smaller
_PARTS = ("optimizer", "scheduler", "scaler", "rng", "step")


def parts_of(obj: Any, step: int = -1, depth: int = 3) -> set[str]:
    """What a saved object holds: model, optimizer, scheduler, scaler, rng, step."""
    if isinstance(obj, nn.Module):
        return {"model"}
    if isinstance(obj, Optimizer):
        return {"optimizer"}
    if _is_rng(obj):
        return {"rng"}
    if isinstance(obj, Mapping):
        return _of_mapping(obj, step, depth)
    if isinstance(obj, list | tuple) and depth and len(obj) <= 64:
        return set().union(*(parts_of(o, -1, depth - 1) for o in obj)) if obj else set()
    if hasattr(obj, "last_epoch") and hasattr(obj, "step"):
        return {"scheduler"}
    return set()


def _of_mapping(obj: Mapping[Any, Any], step: int, depth: int) -> set[str]:
    keys = {str(k) for k in obj}
    if {"state", "param_groups"} <= keys:
        return {"optimizer"}
    if {"scale", "growth_factor"} <= keys:
        return {"scaler"}
    if "last_epoch" in keys and keys & {"_step_count", "base_lrs", "_last_lr", "num_bad_epochs", "_schedulers", "total_steps"}:
        return {"scheduler"}
    tensors = sum(isinstance(v, Tensor) and not _is_rng(v) for v in obj.values())
    if tensors and tensors >= 0.5 * len(obj):
        return {"model"}
    found: set[str] = set()
    for key, value in obj.items():
        if isinstance(value, int) and not isinstance(value, bool) and (str(key).lower() in STEP_NAMES or value == step > 0):
            found.add("step")
        elif depth:
            found |= parts_of(value, step, depth - 1)
    return found


def _is_rng(value: Any) -> bool:
    """A state of torch's, numpy's or python's generator."""
    if isinstance(value, Tensor):
        return value.dtype == torch.uint8 and value.ndim == 1 and value.numel() in _RNG_BYTES
    if isinstance(value, tuple) and value:
        return value[0] == "MT19937" or (len(value) == 3 and isinstance(value[1], tuple) and len(value[1]) == 625)
    return isinstance(value, Mapping) and "bit_generator" in value


class Checkpoints(Probe):
    """`checkpoint.*`, `seeds`, `deterministic`, `versions`, `argv`, `git.commit`."""

    def __init__(self) -> None:
        self.saves = 0
        self._held: dict[int, set[str]] = {}  # step → parts of all that was written there (states may go to files of their own)
        self._alive: set[str] = set()  # what lived at a save
        self._built: dict[str, list[weakref.ref[Any]]] = {}
        self._seeds: dict[str, bool] = {}
        self._first_seed = torch.initial_seed()
        self._dice = generators.untouched()  # those used or seeded before we could hear of it are left out
        self._commit: str | None = None
        self._looked = False

    def on_built(self, scene: Scene, kind: str, thing: Any) -> None:
        known = self._built.setdefault(kind, [])
        if len(known) < 64:
            known.append(weakref.ref(thing))
        if kind == "loader" and (
            getattr(thing, "worker_init_fn", None) is not None or getattr(thing, "generator", None) is not None
        ):
            self._seeds["worker"] = True

    def start(self, scene: Scene) -> None:
        seed = torch.initial_seed()  # torch.manual_seed has no tap
        if seed != _UNSEEDED and (seed < _DRAWN or seed != self._first_seed):
            self.on_seed(scene, "torch", seed)

    def on_seed(self, scene: Scene, what: str, value: Any) -> None:
        self._seeds[what] = True
        if what == "torch":  # manual_seed seeds every device
            self._seeds["cuda"] = True

    def on_save(self, scene: Scene, obj: Any, path: str) -> None:
        parts = parts_of(obj, scene.step)
        if not parts:
            return  # a tensor, a list of losses: not a checkpoint
        self.saves += 1
        alive = self._living(scene)
        self._alive |= alive
        if len(self._held) >= 32 and scene.step not in self._held:
            poorest = min(self._held, key=lambda at: len(self._held[at]))
            del self._held[poorest]
        self._held.setdefault(scene.step, set()).update(parts)
        keys = [str(k) for k in obj][:20] if isinstance(obj, Mapping) and parts != {"model"} else sorted(parts)
        scene.event("checkpoint", keys=keys, holds=sorted(parts), missing=_listed(alive - parts))

    def _living(self, scene: Scene) -> set[str]:
        """What a resume would need now: state that exists and matters."""
        alive = {"step", "rng"}
        if any(len(working(o).state) for o in scene.optimizers):
            alive.add("optimizer")  # plain SGD keeps nothing
        if any(r() is not None for r in self._built.get("scheduler", ())):
            alive.add("scheduler")
        if any((s := r()) is not None and s.is_enabled() for r in self._built.get("scaler", ())):
            alive.add("scaler")
        return alive

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        found: dict[str, Any] = {"deterministic": torch.are_deterministic_algorithms_enabled(), "versions": versions()}
        found["argv"] = redacted(sys.argv)
        found["seeds"] = {k: self._seeds.get(k, False) for k in ("python", "numpy", "torch", "cuda", "worker")}
        if self._dice:
            found["rng.used"] = {k: k not in generators.untouched() for k in self._dice} | {"torch": True}  # initial weights
        if not self._looked:
            self._looked = True
            self._commit = commit_of(Path(sys.argv[0]).resolve().parent if sys.argv and sys.argv[0] else Path.cwd())
        if self._commit:
            found["git.commit"] = self._commit
        found["checkpoint.saves"] = self.saves
        if self._held:
            best = max(self._held.values(), key=lambda parts: len(parts & self._alive))
            found["checkpoint.missing"] = _listed(self._alive - best)
        return found


def _listed(parts: set[str]) -> list[str]:
    return [p for p in _PARTS if p in parts]


PROBES = [Checkpoints]
