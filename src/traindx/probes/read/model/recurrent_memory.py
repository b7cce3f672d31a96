"""How much of its past a recurrent layer can keep: a bound from its weights, and the length it is asked to remember.

A plain recurrent layer passes on at most the largest singular value of its hidden-to-hidden matrix per step; the memory of an
LSTM or GRU is kept by a gate, whose opening without any input is the sigmoid of its bias. Raised to the number of steps this is
what is left of the first one.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from traindx.probe import Probe, Reading, Scene

_LARGE = 2048  # hidden units beyond which the singular value is not worked out
_BEST = 0.95  # quantile over units: a few that remember are enough


class Recall(Probe):
    """`model.recall`: recurrent layer → {kind, length, keep: what is passed on per step, at the start}."""

    cadence = "full"

    def __init__(self) -> None:
        self._layers: dict[str, tuple[weakref.ref[nn.Module], int]] = {}
        self._keep: dict[str, Tensor] = {}
        self._kinds: dict[str, str] = {}

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        if not isinstance(module, nn.RNNBase) or name in self._keep or not args or not isinstance(args[0], Tensor):
            return None
        if args[0].dim() == 3 and module.hidden_size <= _LARGE:
            self._keep[name] = kept(module)
            self._kinds[name] = type(module).__name__
            self._layers[name] = (weakref.ref(module), int(args[0].shape[1 if module.batch_first else 0]))
        return None

    def facts(self, scene: Scene) -> Mapping[str, Any]:
        if not self._keep:
            return {}
        told = {n: {"kind": self._kinds[n], "length": self._layers[n][1], "keep": float(k)} for n, k in self._keep.items()}
        return {"model.recall": told}


def kept(module: nn.RNNBase) -> Tensor:
    """The share of its state that the first layer passes on per step: a bound, or what an open gate leaves.

    >>> lstm = nn.LSTM(2, 4)
    >>> with torch.no_grad():
    ...     _ = lstm.bias_ih_l0.zero_(), lstm.bias_hh_l0.zero_()
    >>> float(kept(lstm))
    0.5
    """
    units = module.hidden_size
    weight: Tensor = module.weight_hh_l0
    if module.mode not in ("LSTM", "GRU"):
        return torch.linalg.matrix_norm(weight.detach().float(), 2)
    gate = slice(units, 2 * units)  # forget of i, f, g, o; update of r, z, n
    if not module.bias:
        return torch.tensor(0.5)
    one: Tensor = module.bias_ih_l0
    two: Tensor = module.bias_hh_l0
    return torch.quantile(torch.sigmoid((one + two).detach().float()[gate]), _BEST)


PROBES = [Recall]
