"""Forwards, loss calls and loaders as they are remembered: without their tensors."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from traindx.measures import peek
from traindx.probe import OTHER, TRAIN, VAL, LossCall


class Loader:
    """What is known of one loader: how its batches were used."""

    def __init__(self, loader: Any) -> None:
        self.ref: Any = _ref(loader)
        self.dataset = id(getattr(loader, "dataset", loader))
        self.train = 0  # batches a backward followed
        self.val = 0  # batches used without one
        self.epochs = 0
        self.batches = 0  # of the iteration under way
        self.passes = 0  # forwards seen in it
        self.begun = False  # an iteration is under way
        self.ahead = False  # it fetches a batch before the last one is used (accelerate), and ends before that

    @property
    def phase(self) -> str:
        if self.train:
            return TRAIN
        return VAL if self.val else OTHER


@dataclass(slots=True, eq=False)
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
    source: int = -1  # node of its input, where another pass made it
    batch: int = 0  # serial of the batch it used; 0 when none came from a loader
    fed: weakref.ref[Tensor] | None = None  # its first input
    line: str = ""  # of the user's code, as long as no training pass has one
    place: int = 0  # `sites.way` of a pass of an evaluation without a loader
    passed_over: int = 0  # backwards that did not go through it
    left: bool = False  # it is counted among the batches that were left out
    broke: bool | None = None  # whether its output or loss held NaN or infinity, as far as anybody looked
    remembered: tuple[int, float] | None = None  # without a loader: a name for its data, and the share that was trained on


@dataclass(slots=True)
class Pending:
    """A loss call that no backward has claimed yet."""

    name: str
    site: str
    node: int  # sequence number of its output's node, -1 without a graph
    of: Pass | None
    value: Any  # float on CPU, own tensor elsewhere, None when it is not a scalar
    call: LossCall | None  # what probes know it by; None when none of them listened
    samples: int = 1  # where no forward tells
    summed: int = 0  # over how many targets its value is a sum; 0: it is a mean
    targets: tuple[int, int] = (0, 0)  # of class targets in host memory: how many count, of how many


def rows(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The samples that a call without gradients is given; features without a batch axis are those of one."""
    source = args[0] if args and type(args[0]) is Tensor else first_tensor(args, kwargs)
    if source is None or not source.dim():
        return 0
    return 1 if source.dim() == 1 and source.is_floating_point() else int(source.shape[0])


def node_of(tensor: Any) -> int:
    """The sequence number of a tensor's node, -1 without one: names the node without holding its graph."""
    grad_fn = tensor.grad_fn if isinstance(tensor, Tensor) else None
    return -1 if grad_fn is None else int(grad_fn._sequence_nr())


def reached(root: Tensor, floor: int, most: int) -> set[int]:
    """Sequence numbers of the nodes below `root`; those older than `floor` are met but not passed; at most `most` nodes."""
    found: set[int] = set()
    todo = [root.grad_fn]
    while todo and len(found) < most:
        node = todo.pop()
        if node is None:
            continue
        number = int(node._sequence_nr())
        if number in found:
            continue
        found.add(number)
        if number >= floor:
            todo.extend(following for following, _ in node.next_functions)
    return found


_SUM = 2  # what torch calls reduction="sum" inside


def scalar(tensor: Any) -> Any:
    """The value of a one-element tensor without waiting for it: a float on CPU, an own detached tensor elsewhere."""
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.numel() != 1:
        return None
    value = peek(tensor)
    if value is not None:
        return value
    return tensor.detach().clone() if tensor.device.type != "meta" else None


def divisor(root: Tensor) -> float:
    """The constant a loss was divided by last (`loss / 4`, `loss * own / all`), 1.0 when it was not."""
    node = _past_ones(root.grad_fn)
    value = _divided(node)
    if value is None:
        return 1.0
    below = _divided(_past_ones(node.next_functions[0][0]))
    return value * below if below is not None and (value > 1) != (below > 1) else value


def summed(root: Tensor) -> int:
    """How many numbers a loss is the sum of that was then divided (`nll.sum() / tokens`); 0 where it is no such sum."""
    node, divided = root.grad_fn, 0
    for _ in range(2):  # the division, a sign
        node = _past_ones(node)
        name = type(node).__name__
        if name not in ("DivBackward0", "NegBackward0"):
            break
        divided += name == "DivBackward0"
        node = node.next_functions[0][0]
    if divided != 1:  # a mean that is shared among several backwards is divided twice
        return 0
    if type(node).__name__ == "SumBackward0":
        return math.prod(getattr(node, "_saved_self_sym_sizes", ()) or (0,))
    target = getattr(getattr(node, "_raw_saved_target", None), "data", None)
    return target.numel() if getattr(node, "_saved_reduction", None) == _SUM and isinstance(target, Tensor) else 0


def _past_ones(node: Any) -> Any:
    """The first node below that is no factor of one: trainers scale by 1 what they have divided already."""
    while _divided(node) == 1.0:
        node = node.next_functions[0][0]
    return node


def _divided(node: Any) -> float | None:
    """The constant this node of the graph divides by; None when it does something else."""
    name = type(node).__name__
    if name not in ("DivBackward0", "MulBackward0"):
        return None
    if sum(following is not None for following, _ in node.next_functions) != 1:
        return None
    other = getattr(node, "_saved_other", None)
    value = peek(other) if isinstance(other, Tensor) else other
    if not isinstance(value, float | int) or not value or value != value:
        return None
    return float(value) if name == "DivBackward0" else 1.0 / float(value)


def first_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The first tensor of a call, looking one level into lists and dicts."""
    for thing in (*args, *kwargs.values()):
        if isinstance(thing, Tensor):
            return thing
        if isinstance(thing, list | tuple | dict):
            for inner in thing.values() if isinstance(thing, dict) else thing:
                if isinstance(inner, Tensor):
                    return inner
    return None


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
