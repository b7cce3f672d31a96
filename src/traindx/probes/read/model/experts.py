"""Who gets the samples: modules that are alike and stand side by side, of which each step calls some with a part of the batch.

No name is read. Experts are the children of one container, of one class and with parameters of the same shapes, at least four
of them, that were called with different numbers of rows in one forward; the layers of a stack all get the same.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from traindx.probe import Probe, Reading, Row, Scene
from traindx.probes.read.common.names import module_names

_LEAST = 4  # experts; two or three alike are heads or branches
_LOOKS = 20  # updates after which a container that never split a batch is taken for a stack of layers


class Experts(Probe):
    """`expert_load/expert`: the share of the rows that each expert of a container was given, on full steps."""

    cadence = "full"

    def __init__(self) -> None:
        self._homes: dict[str, tuple[str, ...]] = {}  # expert → all experts of its container
        self._names: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}
        self._split = False  # a batch was divided among some: these are experts
        self._looked = 0
        self._version = -1

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        if scene.version != self._version:
            self._find(scene)
        if name in self._homes:
            given: Any = next((a for a in args if isinstance(a, Tensor)), None)
            if given is not None and given.dim():
                self._rows[name] = self._rows.get(name, 0) + (given.numel() // given.shape[-1] if given.shape[-1] else 0)
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        rows, self._rows = self._rows, {}
        if not rows:
            return None
        self._looked += 1
        groups = {self._homes[name] for name in rows}
        self._split = self._split or any(len({rows.get(n, 0) for n in group}) > 1 for group in groups)
        if not self._split:
            if self._looked >= _LOOKS:
                self._homes = {}
            return None
        totals = {n: sum(rows.get(m, 0) for m in self._homes[n]) for n in self._names}
        shares = [rows.get(n, 0) / totals[n] if totals[n] else float("nan") for n in self._names]
        return {"expert_load/expert": Row(self._names, shares)}

    def _find(self, scene: Scene) -> None:
        self._version, self._homes, self._split, self._looked = scene.version, {}, False, 0
        found: list[str] = []
        known = module_names(scene.models)
        for model in scene.models:
            for module in model.modules():
                alike = [child for child in module.children() if any(True for _ in child.parameters())]
                if len(alike) < _LEAST or len({_form(child) for child in alike}) > 1:
                    continue
                group = tuple(known[id(child)] for child in alike if id(child) in known)
                found += group
                self._homes |= dict.fromkeys(group, group)
        self._names = tuple(found)


def _form(module: nn.Module) -> tuple[str, tuple[tuple[int, ...], ...]]:
    return type(module).__name__, tuple(tuple(p.shape) for p in module.parameters())


PROBES = [Experts]
