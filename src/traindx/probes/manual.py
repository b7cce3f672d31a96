"""Updates without an optimizer: the leaves of the graph are the parameters, and a change of their values is a step."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

from traindx.measures import peek
from traindx.probes.stage import Stage

NODES = 20_000  # of the graph, at most
HEAD = 64  # bytes of each parameter that are compared
SKETCH = 4096  # entries of the largest parameter the learning rate is inferred from


class Manual:
    """Watches a loop that changes its weights by hand."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._leaves: list[Tensor] = []
        self._seen: list[tuple[int, bytes]] = []
        self._old: Tensor | None = None  # sketch of the largest parameter before the update
        self._grad: Tensor | None = None  # and of its gradient
        self._largest = 0
        self._rebinds = False

    @property
    def on(self) -> bool:
        """Whether updates may be made by hand: nobody has built an optimizer."""
        stage = self._stage
        return not (stage._optimizers or stage.optimizers_built or stage.given_optimizers)

    def changed(self, root: Tensor | None) -> bool:
        """Whether the weights changed since the last backward: in place, or by new leaves of the same shapes."""
        if not self.on:
            return False
        old, self._fresh = self._leaves, _leaves(root) if root is not None else self._leaves
        if not self._seen:
            return False
        if [_state(p) for p in old] != self._seen:
            return True
        new = self._fresh
        if root is None:
            return self._rebinds  # the last update of a functional loop leaves no later backward to tell
        rebound = any(a is not b for a, b in zip(old, new)) and [p.shape for p in old] == [p.shape for p in new]
        self._rebinds = self._rebinds or rebound
        return rebound

    def backward(self) -> None:
        """A backward is about to run: remember the leaves it will fill and what they hold."""
        if not self.on:
            return
        if [id(p) for p in self._fresh] != [id(p) for p in self._leaves]:
            self._leaves = self._fresh
            self._stage.by_hand(self._leaves)
        self._seen = [_state(p) for p in self._leaves]

    def graded(self) -> None:
        """The gradients are there: keep a sketch of the largest parameter and its gradient."""
        self._old = self._grad = None
        if not self._leaves:
            return
        self._largest = max(range(len(self._leaves)), key=lambda i: self._leaves[i].numel())
        param = self._leaves[self._largest]
        if param.grad is not None and param.device.type == "cpu" and param.layout is torch.strided:
            self._old, self._grad = _head(param).clone(), _head(param.grad).clone()

    def rate(self) -> float | None:
        """The learning rate that explains the change: -Δw·g / |g|²; None where it cannot be inferred."""
        if self._old is None or self._grad is None or self._largest >= len(self._fresh):
            return None
        new = self._fresh[self._largest]
        if new.numel() < self._old.numel():
            return None
        moved = _head(new) - self._old
        return peek(-torch.dot(moved.float(), self._grad.float()) / torch.dot(self._grad.float(), self._grad.float()))

    def closed(self) -> None:
        """The update was recorded."""
        self._seen = []

    _fresh: list[Tensor] = []  # noqa: RUF012  leaves of the backward that is about to run


def _head(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1)[:SKETCH]


def _leaves(root: Tensor) -> list[Tensor]:
    """The leaf tensors below a loss, roughly in forward order."""
    found: dict[int, Tensor] = {}
    seen: set[Any] = set()
    todo: list[Any] = [root.grad_fn]
    while todo and len(seen) < NODES:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        todo.extend(following for following, _ in node.next_functions)
    return list(found.values())[::-1]


def _state(p: Tensor) -> tuple[int, bytes]:
    head = b""
    if p.device.type == "cpu" and p.layout is torch.strided and p.numel():
        head = ctypes.string_at(p.data_ptr(), min(HEAD, p.numel() * p.element_size()))
    return p._version, head
