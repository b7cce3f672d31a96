"""Updates without an optimizer: the leaves of the graph are the parameters, and a change of their values is a step."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import torch
from torch import Tensor

from traindx.measures import peek
from traindx.probes.follow.models import Stage

NODES = 20_000  # of the graph, at most
HEAD = 64  # bytes of each parameter that are compared
SKETCH = 4096  # entries of the largest parameter the learning rate is inferred from
Leaf = tuple["weakref.ref[Tensor]", torch.Size, int, bytes]  # who, its shape, its version and its first bytes


class Manual:
    """Watches a loop that changes its weights by hand."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._leaves: list[Leaf] = []  # as they were at the last backward
        self._fresh: list[weakref.ref[Tensor]] = []  # leaves of the backward that is about to run
        self._old: Tensor | None = None  # sketch of the largest parameter before the update
        self._grad: Tensor | None = None  # and of its gradient
        self._largest = 0
        self._rebinds = self._proven = False

    @property
    def possible(self) -> bool:
        """Whether updates may be made by hand: no optimizer has ever stepped."""
        stage = self._stage
        return not (stage.optimizer_refs or stage.given_optimizers)

    @property
    def on(self) -> bool:
        """Whether they are: no optimizer exists, or the weights were seen to change without one."""
        return self.possible and (self._proven or not self._stage.optimizers_built)

    def changed(self, root: Tensor | None) -> bool:
        """Whether the weights changed since the last backward: in place, or by new leaves of the same shapes."""
        if not self.possible:
            return False
        if root is not None:
            self._fresh = [weakref.ref(p) for p in _leaves(root)]
        if not self._leaves:
            return False
        old = [ref() for ref, _, _, _ in self._leaves]
        if any(p is not None and _state(p) != (version, head) for p, (_, _, version, head) in zip(old, self._leaves)):
            self._proven = True
            return True
        if root is None:
            return self._rebinds  # the last update of a functional loop leaves no later backward to tell
        new = self._now()
        shapes = [shape for _, shape, _, _ in self._leaves] == [p.shape for p in new]
        rebound = shapes and any(a is not b for a, b in zip(old, new))
        self._rebinds = self._rebinds or rebound
        self._proven = self._proven or rebound
        return rebound

    def backward(self) -> None:
        """A backward is about to run: remember the leaves it will fill and what they hold."""
        if not self.possible:
            return
        leaves = self._now()
        if not self._stage.optimizers_built or self._proven:
            self._stage.by_hand(leaves)
        self._leaves = [(weakref.ref(p), p.shape, *_state(p)) for p in leaves]

    def graded(self) -> Tensor | None:
        """The gradients are there: keep a sketch of the largest parameter and its gradient, and give that parameter."""
        self._old = self._grad = None
        leaves = self._now()
        if not leaves:
            return None
        self._largest = max(range(len(leaves)), key=lambda i: leaves[i].numel())
        param = leaves[self._largest]
        if param.grad is not None and param.device.type == "cpu" and param.layout is torch.strided:
            self._old, self._grad = _head(param).clone(), _head(param.grad).clone()
        return param

    def rate(self) -> float | None:
        """The learning rate that explains the change: -Δw·g / |g|²; None where it cannot be inferred."""
        new = self._now()
        if self._old is None or self._grad is None or self._largest >= len(new):
            return None
        now = _head(new[self._largest])
        if now.shape != self._old.shape:
            return None
        moved, grad = (now - self._old).float(), self._grad.float()
        return peek(-torch.dot(moved, grad) / torch.dot(grad, grad))

    def closed(self) -> None:
        """The update was recorded."""
        self._leaves = []

    def _now(self) -> list[Tensor]:
        return [p for ref in self._fresh if (p := ref()) is not None]


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
