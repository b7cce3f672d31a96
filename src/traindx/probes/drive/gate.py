"""The cheap look at every step: is its loss unlike the ones before it, is a gradient not finite?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from traindx.measures import NUMBERS, look, readable
from traindx.probe import Scene

SMALL = 1 << 14  # entries whose norm costs no more than the call itself
ENTRIES = 64  # of a small gradient that are looked at: what is not finite spreads to every unit that is active


class LossGate:
    """A running level and spread of the loss; `z` says how far above its level a new one is.

    >>> gate = LossGate()
    >>> max(gate.z(1.0 + 0.01 * (i % 3)) for i in range(50)) < 6
    True
    >>> gate.z(2.0) > 6
    True
    """

    ABNORMAL = 6.0  # CATALOGUE 2.4: the level at which a spike may begin
    _EARLY = 20  # losses before it may speak
    _PACE = 0.05

    def __init__(self) -> None:
        self._n = 0
        self._level = self._spread = 0.0

    def takes(self, loss: float) -> bool:
        """Take it in as `z` does, unless it is abnormal: then nothing changes. One frame: it runs in cold caches."""
        level, spread, n = self._level, self._spread, self._n
        if n < self._EARLY:
            self.z(loss)
            return True
        away = loss - level
        size = away if away > 0.0 else -away
        if away > self.ABNORMAL * 1.2533 * spread and away > self.ABNORMAL * self._sigma():
            return False
        self._n = n + 1
        self._level, self._spread = level + self._PACE * away, spread + self._PACE * (size - spread)
        return True

    def _sigma(self) -> float:
        return max(1.2533 * self._spread, 1e-9 * abs(self._level), 1e-30)

    def z(self, loss: float) -> float:
        """How many mean absolute deviations (as a normal σ) the loss is above its level; 0 early on."""
        self._n += 1
        if self._n == 1:
            self._level = loss
            return 0.0
        away = loss - self._level
        sigma = self._sigma()
        z = away / sigma if self._n > self._EARLY else 0.0
        pace = max(self._PACE, 1.0 / self._n)
        held = math.copysign(min(abs(away), 4.0 * sigma), away) if z > self.ABNORMAL else away
        self._level += pace * held
        self._spread += pace * (abs(held) - self._spread)
        return z


class GradGate:
    """One small gradient near the input, where what goes wrong in a backward arrives; read on steps that are not full."""

    def __init__(self) -> None:
        self._optimizer, self._version = 0, -1  # whose, and at which version of the scene it was chosen
        self._param: Callable[[], Tensor | None] = _nobody
        self._kind: torch.dtype | None = None  # of the gradient, where it can be read from memory
        self._read: Callable[[int], Any] = _unread  # the numbers at an address
        self._entries, self._every = 0, 1  # how many they are, and which of them are looked at

    def bad(self, scene: Scene, optimizer: Any) -> bool:
        """Whether that gradient is not finite (known at once on the CPU only)."""
        if self._version != scene.version or self._optimizer != id(optimizer):
            self._choose(scene, optimizer)
        param = self._param()
        grad = None if param is None else param.grad
        if grad is None:
            return False
        if grad.dtype is self._kind and type(grad) is Tensor and grad.numel() == self._entries and grad.is_contiguous():
            total = sum(self._read(grad.data_ptr())[:: self._every])
            return bool(total - total)  # nan where it is not finite, and no call
        wide = grad.dtype if grad.dtype in NUMBERS else torch.float32
        norm = look(torch.linalg.vector_norm(grad.detach() if grad.requires_grad else grad, dtype=wide))
        return norm is not None and not math.isfinite(norm)

    def _choose(self, scene: Scene, optimizer: Any) -> None:
        self._optimizer, self._version = id(optimizer), scene.version
        self._param, self._kind = _nobody, None
        place = _nearest_the_input(*scene.owned(optimizer)) if len(scene.optimizer_refs) < 2 else -1
        if place < 0:
            return
        self._param = scene.param_refs[place]
        param = self._param()
        grad = None if param is None else param.grad
        kind = None if grad is None else NUMBERS.get(grad.dtype)
        if grad is not None and kind is not None and grad.numel() <= SMALL:
            self._kind, self._entries, self._every = grad.dtype, grad.numel(), -(-grad.numel() // ENTRIES)
            self._read = (kind * self._entries).from_address


def _nobody() -> Tensor | None:
    return None


def _unread(address: int) -> list[float]:
    return []


def _nearest_the_input(params: list[Tensor], names: tuple[str, ...]) -> int:
    """The smallest gradient of the first layer that has a small one; of later layers it would miss what begins before them."""
    have = [i for i, p in enumerate(params) if p.grad is not None and p.is_cpu and readable(p.grad)]
    small = [i for i in have if params[i].numel() <= SMALL] or have
    if not small:
        return -1
    layer = names[small[0]].rpartition(".")[0]
    own = [i for i in small if names[i].rpartition(".")[0] == layer] if layer else small[:1]
    return min(own, key=lambda i: params[i].numel())
