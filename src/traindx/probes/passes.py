"""Forwards, loss calls and loaders as they are remembered: without their tensors."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from traindx.measures import peek
from traindx.probe import OTHER, TRAIN, VAL, LossCall

GRAPH_NODES = 256  # nodes looked at between a loss and the forward that led to it


class Loader:
    """What is known of one loader: how its batches were used."""

    def __init__(self, loader: Any) -> None:
        self.ref: Any = _ref(loader)
        self.dataset = id(getattr(loader, "dataset", loader))
        self.train = 0  # batches a backward followed
        self.val = 0  # batches used without one
        self.epochs = 0
        self.batches = 0  # of the iteration under way

    @property
    def phase(self) -> str:
        if self.train:
            return TRAIN
        return VAL if self.val else OTHER


@dataclass(slots=True)
class Pass:
    """One outermost forward."""

    serial: int
    model: int  # id
    phase: str
    grad: bool
    training: bool
    samples: int
    loader: Loader | None
    first: int  # autograd sequence numbers of its nodes: first <= n < last
    last: int
    begun: float
    ended: float
    batch: int = 0  # serial of the batch it used; 0 when none came from a loader


@dataclass(slots=True)
class Pending:
    """A loss call that no backward has claimed yet."""

    call: LossCall
    node: int  # sequence number of its output's node
    of: Pass | None
    value: Any  # float on CPU, own tensor elsewhere, None when it is not a scalar


def node_of(tensor: Any) -> int:
    """The sequence number of a tensor's node, -1 without one: names the node without holding its graph."""
    grad_fn = tensor.grad_fn if isinstance(tensor, Tensor) else None
    return -1 if grad_fn is None else int(grad_fn._sequence_nr())


def reached(root: Tensor, oldest: int) -> set[int]:
    """Sequence numbers of the nodes below `root`, down to those older than `oldest` (these included)."""
    found: set[int] = set()
    todo = [root.grad_fn]
    while todo and len(found) < GRAPH_NODES:
        node = todo.pop()
        if node is None:
            continue
        number = int(node._sequence_nr())
        if number in found:
            continue
        found.add(number)
        if number > oldest:
            todo.extend(following for following, _ in node.next_functions)
    return found


def scalar(tensor: Any) -> Any:
    """The value of a one-element tensor without waiting for it: a float on CPU, an own detached tensor elsewhere."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.numel() != 1:
        return None
    value = peek(tensor)
    if value is not None:
        return value
    return tensor.detach().clone() if tensor.device.type != "meta" else None


def divisor(root: Tensor) -> float:
    """The constant a loss was divided by last (`loss / 4`), 1.0 when it was not."""
    node = root.grad_fn
    name = type(node).__name__ if node is not None else ""
    if node is None or name not in ("DivBackward0", "MulBackward0"):
        return 1.0
    if sum(following is not None for following, _ in node.next_functions) != 1:
        return 1.0
    other = getattr(node, "_saved_other", None)
    value = peek(other) if isinstance(other, Tensor) else other
    if not isinstance(value, float | int) or not value or value != value:
        return 1.0
    return float(value) if name == "DivBackward0" else 1.0 / float(value)


def samples_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Samples in a forward's input: the size of its first tensor's first axis."""
    for thing in args or kwargs.values():
        if isinstance(thing, Tensor):
            if thing.dim():
                return int(thing.shape[0])
        elif isinstance(thing, list | tuple | dict):
            inner = thing.values() if isinstance(thing, dict) else thing
            tensor = next((t for t in inner if isinstance(t, Tensor)), None)
            if tensor is not None and tensor.dim():
                return int(tensor.shape[0])
    return samples_in(tuple(kwargs.values()), {}) if args and kwargs else 0


class _Strong:
    """Stands in for a weak reference to what cannot have one."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __call__(self) -> Any:
        return self._thing


def _ref(thing: Any) -> Any:
    try:
        return weakref.ref(thing)
    except TypeError:
        return _Strong(thing)
