"""States that a checkpoint brought and that nobody restored: `resume.left`.

What `torch.load` gave is searched for the states of optimizers and schedulers. Before the first update they are compared with
what lives: an optimizer without any state, a scheduler that is at its beginning, next to a model that was loaded.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from traindx.probe import Probe, Scene
from traindx.probes.read.common.names import working


def mappings(obj: Any, depth: int = 3) -> Iterator[Mapping[Any, Any]]:
    """The mappings inside what a file held, outermost first."""
    if isinstance(obj, Mapping):
        yield obj
        if depth:
            for value in obj.values():
                yield from mappings(value, depth - 1)
    elif isinstance(obj, list | tuple) and depth and len(obj) <= 64:
        for value in obj:
            yield from mappings(value, depth - 1)


class Resumes(Probe):
    """`resume.left`: {left, taken, same_schedule}."""

    def __init__(self) -> None:
        self._optimizer = self._model = False
        self._schedule: frozenset[str] | None = None
        self._built: list[weakref.ref[Any]] = []
        self._found: dict[str, Any] = {}

    def on_read(self, scene: Scene, obj: Any) -> None:
        for held in mappings(obj):
            if "param_groups" in held and held.get("state"):
                self._optimizer = True
            last = held.get("last_epoch")
            if "_step_count" in held and isinstance(last, int) and last > 0:
                self._schedule = frozenset(str(k) for k in held)

    def on_load(self, scene: Scene, module: Any, keys: tuple[str, ...], missing: list[str], unexpected: list[str]) -> None:
        self._model = self._model or hasattr(module, "parameters")

    def on_built(self, scene: Scene, kind: str, thing: Any) -> None:
        if kind == "scheduler" and len(self._built) < 64:
            self._built.append(weakref.ref(thing))

    def start(self, scene: Scene) -> None:
        if not self._model:
            return
        held: dict[str, bool] = {}  # part → whether it was restored
        if self._optimizer and scene.optimizers:
            held["optimizer"] = any(len(working(o).state) for o in scene.optimizers)
        living = [s for r in self._built if (s := r()) is not None]
        if self._schedule is not None and living:
            held["scheduler"] = any(getattr(s, "last_epoch", 0) > 0 for s in living)
        if not all(held.values()):
            same = any(self._schedule == frozenset(str(k) for k in s.state_dict()) for s in living)
            left, taken = ([p for p, restored in held.items() if restored is which] for which in (False, True))
            self._found = {"resume.left": {"left": left, "taken": taken, "same_schedule": same}}

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        return self._found


PROBES = [Resumes]
