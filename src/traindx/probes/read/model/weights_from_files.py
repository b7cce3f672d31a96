"""Weights that were read from a file, fit the model that is trained, and never reached it, or did and were overwritten.

A wrong key (`if "model" in state`), a load into a copy, a branch that is not taken: no call fails, and training begins from
random numbers. A read state counts as unused when no `load_state_dict` was given its keys and none of its tensors equals the
parameter of its name before the first update, however they might have been copied. Loaded weights count as overwritten when
they have nothing to do any more with what was loaded when the first update is made (`model.apply(init)` after the load);
rounding, averaging and noise leave them alike.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from traindx.probe import Probe, Scene
from traindx.probes.read.common.names import unwrapped
from traindx.probes.read.common.sketch import few

_STATES = 8  # states kept
_TENSORS = 4096  # tensors of a state that are kept
_FITS = 0.9  # share of the model's parameters that a state must name with their shapes to have been meant for it
_ALIKE = 0.5  # cosine of a loaded tensor with what became of it, below which nothing is left
_PREFIXES = ("module.", "_orig_mod.", "model.")

State = dict[str, tuple[tuple[int, ...], Tensor]]


def states(obj: Any, depth: int = 3) -> Iterator[Mapping[Any, Any]]:
    """The mappings of names to tensors in what a file held."""
    if not isinstance(obj, Mapping):
        return
    tensors = sum(isinstance(v, Tensor) for v in obj.values())
    if tensors and tensors >= 0.5 * len(obj):
        yield obj
    elif depth:
        for value in obj.values():
            yield from states(value, depth - 1)


def sketched(state: Mapping[Any, Any]) -> State:
    """Shape and a few numbers of each floating tensor, by its name without wrappers."""
    kept: State = {}
    for name, value in state.items():
        plain = type(value) is Tensor or isinstance(value, nn.Parameter)
        if not plain or not value.is_floating_point() or value.layout != torch.strided or not value.numel():
            continue
        if value.device.type == "meta" or len(kept) >= _TENSORS:
            continue
        kept[_bare(str(name))] = (tuple(value.shape), few(value).cpu())
    return kept


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


class Reads(Probe):
    """`model.read_unused`, `model.overwritten`."""

    def __init__(self) -> None:
        self._states: list[State] = []
        self._unused: dict[str, Any] | None = None
        self._loaded: dict[int, tuple[weakref.ref[Tensor], str, Tensor]] = {}  # id → parameter, its name, what was loaded
        self._overwritten: dict[str, Any] | None = None
        self._again = False
        self._begun = False
        self._said = False

    def on_read(self, scene: Scene, obj: Any) -> None:
        for state in states(obj):
            if len(self._states) < _STATES and (kept := sketched(state)):
                self._states.append(kept)

    def on_load(self, scene: Scene, module: Any, keys: tuple[str, ...], missing: list[str], unexpected: list[str]) -> None:
        given = {_bare(k) for k in keys}
        self._states = [s for s in self._states if len(given & s.keys()) <= 0.1 * len(s)]
        if not self._begun and isinstance(module, nn.Module):
            brought = [(n, p) for n, p in module.named_parameters() if n not in missing and _told(p)]
            self._loaded |= {id(p): (weakref.ref(p), n, few(p).cpu()) for n, p in brought[: _TENSORS - len(self._loaded)]}

    def start(self, scene: Scene) -> None:
        self._unused = self._compare(scene) if self._states else None
        if not self._begun:
            self._begun = True
            self._overwritten = self._lost(scene)
            self._loaded.clear()

    def _lost(self, scene: Scene) -> dict[str, Any] | None:
        """Of loaded tensors that are about to be trained, those of which nothing is left."""
        trained = {id(p) for p in scene.params}
        held = [(p, n, was) for ref, n, was in self._loaded.values() if (p := ref()) is not None and id(p) in trained]
        varied = [(p, n, was) for p, n, was in held if len(torch.unique(was)) > 1 and p.numel() > 1]
        gone = [(p.numel(), n) for p, n, was in varied if torch.cosine_similarity(few(p).cpu(), was, dim=0) < _ALIKE]
        every = sum(p.numel() for p, _, _ in varied)
        return {"share": sum(size for size, _ in gone) / every, "names": [n for _, n in gone[:3]]} if gone else None

    def on_event(self, scene: Scene, kind: str, data: Mapping[str, Any]) -> None:
        self._again = self._again or (kind == "retrained" and not data["same_parameters"])

    def changed(self, scene: Scene) -> None:
        if self._again:
            self._again = False
            self.start(scene)

    def _compare(self, scene: Scene) -> dict[str, Any] | None:
        for model in scene.models:
            named = {_bare(n): p for n, p in unwrapped(model).named_parameters()}
            for state in self._states:
                fit = [n for n, p in named.items() if n in state and state[n][0] == tuple(p.shape)]
                if len(fit) < 2 or len(fit) < _FITS * len(named):
                    continue
                # biases and gains begin at zero and one everywhere: only what varies can be recognised
                told = [n for n in fit if len(torch.unique(state[n][1])) > 1]
                if told and not any(torch.equal(few(named[n]).cpu(), state[n][1]) for n in told):
                    return {"share": len(fit) / len(named), "names": fit[:3]}
        return None

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        lost = {"model.overwritten": self._overwritten} if self._overwritten is not None else {}
        if self._unused is None and not self._said:
            return lost
        self._said = True
        return {"model.read_unused": self._unused, **lost}


def _told(parameter: Tensor) -> bool:
    return parameter.is_floating_point() and parameter.layout == torch.strided and parameter.device.type != "meta"


PROBES = [Reads]
