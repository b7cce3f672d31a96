"""How tensors pass from module to module in the first updates: graphs cut, axes swapped, batches mixed, masks."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable
from typing import Any

from torch import Tensor, nn

from traindx.probes.read.common.graph import softmax_over_batch
from traindx.probes.read.model.attention_masks import Masks, Pooling

_MOST = 8  # modules named for their swapped axes


class Passage:
    """What was seen between the modules of one training."""

    def __init__(self) -> None:
        self.samples = 0  # of the latest batch
        self.width = 0  # positions of its sequences, where it has any
        self.masks = Masks()
        self.pooling = Pooling()
        self.condensed = False  # a linear layer was given one vector for each sequence
        self.boundary: str | None = None  # the last module whose output continued without its graph
        self.mixed: set[str] = set()  # modules with a softmax over the batch
        self.time_first: dict[str, tuple[int, int]] = {}  # recurrent and attention modules → first two sizes of their input
        self.scrambled: dict[str, dict[str, list[int]]] = {}  # module → shape before and after a view that swaps axes
        self.outputs: dict[int, tuple[str, int]] = {}  # where an output with a graph lies → (module, its node)
        self._cuts: dict[str, int] = {}  # module whose output continued without its graph → its node
        self._given: list[weakref.ref[Tensor]] = []  # what the model was called with
        self._softmaxes: list[int] = []

    def given(self, values: Iterable[Any]) -> None:
        """The model is called with these."""
        self._given = [weakref.ref(t) for t in values if isinstance(t, Tensor)]

    def through(self, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A module was called."""
        if getattr(module, "batch_first", None) is False and args and isinstance(args[0], Tensor) and args[0].ndim == 3:
            self.time_first[name] = (int(args[0].shape[0]), int(args[0].shape[1]))
        if isinstance(module, nn.Linear) and args and isinstance(args[0], Tensor) and args[0].ndim == 2:
            self.condensed = self.condensed or (self.width > 1 and args[0].shape[0] == self.samples > 1)
        for value in args:
            if not isinstance(value, Tensor):
                continue
            if (shape := self._viewed(value)) is not None and len(self.scrambled) < _MOST:
                self.scrambled[name] = {"from": list(shape), "to": list(value.shape)}
            if not value.requires_grad and (source := self.outputs.get(value.data_ptr())):
                self._cuts[source[0]] = source[1]
        if isinstance(output, Tensor) and output.grad_fn is not None and output.is_floating_point():
            self.outputs[output.data_ptr()] = (name, int(output.grad_fn._sequence_nr()))

    def _viewed(self, value: Tensor) -> tuple[int, ...] | None:
        """The shape of the tensor that this one is the same memory of, in the same order, with its axes called otherwise."""
        if value.ndim < 2 or not value.is_contiguous():
            return None
        for source in (value._base, *(t for r in self._given if (t := r()) is not None)):
            if source is None or source is value or source.numel() != value.numel() or source.data_ptr() != value.data_ptr():
                continue
            if source.is_contiguous() and axes_swapped(tuple(source.shape), tuple(value.shape)):
                return tuple(source.shape)
        return None

    def visit(self, fn: Any) -> None:
        """A node of the loss's graph."""
        self.masks.visit(fn)
        self.pooling.visit(fn, self.samples, self.width)
        if softmax_over_batch(fn, self.samples):
            self._softmaxes.append(int(fn._sequence_nr()))

    def walked(self, nodes: Container[int]) -> None:
        """The graph of a loss, which has these nodes, was walked."""
        for node in self._softmaxes:  # the innermost module that ran it is the first to return after it
            later = [(number, name) for name, number in self.outputs.values() if number >= node]
            self.mixed.add(min(later)[1] if later else "")
        self._softmaxes = []
        cut = [name for name, node in self._cuts.items() if node not in nodes]
        self.boundary = cut[-1] if cut else self.boundary


def axes_swapped(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes have the same sizes in another order, axes of one left out.

    >>> axes_swapped((8, 28, 28, 3), (8, 3, 28, 28)), axes_swapped((8, 1, 5), (8, 5, 1)), axes_swapped((8, 6), (8, 2, 3))
    (True, False, False)
    """
    a, b = [n for n in one if n > 1], [n for n in other if n > 1]
    return a != b and sorted(a) == sorted(b)
