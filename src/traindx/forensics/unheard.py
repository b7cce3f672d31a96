"""Calls of a loss that the tape cannot hear, read off the graph instead.

`x[i]` cannot be heard (a `__getitem__` of ours would turn every tensor of no dimension into a sequence), and frameworks keep
`torch.mean`, `sum`, `max` and `min` and compare them later, so those stay as they are. Each leaves a node in the graph that
says what was called, on what.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch
from torch import Tensor

from traindx import innards
from traindx.forensics.moment import Moment, Taped
from traindx.forensics.tensors import tensors_in

MOST_DEEP = 4  # calls in a row that were not heard
_Arguments = tuple[Any, tuple[Any, ...]]  # a function, and its arguments behind the first


def fill(moment: Moment, root: Tensor) -> None:
    """Put the calls that were not heard among those that were, each before the first call that uses it."""
    held = tensors_in(moment.batch)
    finder = _Finder(held + [t for one in moment.happened for t in tensors_in((one.args, one.kwargs))])
    happened = _filled(moment.happened, finder)
    moment.before = _filled(moment.before, _Finder(held))
    last = next((one for one in reversed(moment.happened) if hasattr(one, "func")), None)
    if last is not None or len(moment.happened) == 1:
        happened += finder.makers([root], last or moment.happened[0])
    moment.happened = happened


def _filled(heard: Iterable[Any], finder: _Finder) -> list[Any]:
    out: list[Any] = []
    for one in heard:
        if hasattr(one, "func"):
            out += finder.makers(tensors_in((one.args, one.kwargs)), one)
        out.append(one)
        finder.note(tensors_in(one.output))
    return out


class _Finder:
    """Knows the tensors of the step, and makes calls of the nodes between them."""

    def __init__(self, given: Collection[Tensor]) -> None:
        self._made: set[int] = set()
        self._by_node: dict[Any, Tensor] = {}
        self._given = {id(t): t for t in given}
        self._by_place = {_place(t): t for t in given if t.grad_fn is None and type(t) is Tensor}

    def note(self, tensors: Iterable[Tensor]) -> None:
        """These were made by calls that are known."""
        for tensor in tensors:
            self._made.add(id(tensor))
            if tensor.grad_fn is not None:
                self._by_node[tensor.grad_fn] = tensor

    def makers(self, tensors: Iterable[Tensor], near: Any) -> list[Taped]:
        """The calls that made these tensors, as far as they were not heard."""
        found: list[Taped] = []
        for tensor in tensors:
            if id(tensor) in self._made:
                continue
            if tensor.grad_fn is not None:
                found += self._chain(tensor, near)
            elif (base := tensor._base) is not None and id(base) in self._given:  # a part of the batch
                self._made.add(id(tensor))
                shape = (tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
                found.append(_taped(torch.as_strided, (base, *shape), tensor, near))
        return found

    def _chain(self, tensor: Tensor, near: Any, deep: int = MOST_DEEP) -> list[Taped]:
        node = tensor.grad_fn
        read = _NODES.get(node.name()) if node is not None else None
        if node is None or read is None or not deep:
            return []
        source, before = self._source(node.next_functions[0][0], near, deep)
        if source is None:
            return []
        func, behind = read(node)
        behind = tuple(self._known(value) for value in behind)
        self.note([tensor])
        return [*before, _taped(func, (source, *behind), tensor, near)]

    def _source(self, node: Any, near: Any, deep: int) -> tuple[Tensor | None, list[Taped]]:
        """What a node was called on; made again where nobody holds it any more."""
        if node is None or node.name() == "torch::autograd::AccumulateGrad":
            return getattr(node, "variable", None), []
        if node in self._by_node:
            return self._by_node[node], []
        read = _NODES.get(node.name())
        if read is None or deep < 2:
            return None, []
        source, before = self._source(node.next_functions[0][0], near, deep - 1)
        if source is None:
            return None, []
        func, behind = read(node)
        behind = tuple(self._known(value) for value in behind)
        with innards.FunctionsOff(), torch.enable_grad():
            made = func(source, *behind)
        self._by_node[node] = made
        return made, [*before, _taped(func, (source, *behind), made, near)]

    def _known(self, value: Any) -> Any:
        """A tensor of the graph's as the script's own, by where it lies in memory."""
        if type(value) is tuple:
            return tuple(self._known(one) for one in value)
        return self._by_place.get(_place(value), value) if isinstance(value, Tensor) else value


def _taped(func: Any, args: tuple[Any, ...], output: Tensor, near: Any) -> Taped:
    return Taped(func, args, {}, output, near.autocast, True, near.file, near.line)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _signed(number: int) -> int:
    """The graph keeps -1 as the largest number there is."""
    return number - 2**64 if number >= 2**63 else number


def _index(node: Any) -> _Arguments:
    return Tensor.__getitem__, (tuple(slice(None) if i is None else i for i in node._saved_indices),)


def _slice(node: Any) -> _Arguments:
    cut = slice(*(_signed(n) for n in (node._saved_start, node._saved_end, node._saved_step)))
    return Tensor.__getitem__, ((*(slice(None),) * _signed(node._saved_dim), cut),)


def _along(func: Any) -> Callable[[Any], _Arguments]:
    def read(node: Any) -> _Arguments:
        dim = node._saved_dim
        return func, (tuple(map(_signed, dim)) if isinstance(dim, tuple) else _signed(dim), node._saved_keepdim)

    return read


def _whole(func: Any) -> Callable[[Any], _Arguments]:
    return lambda node: (func, ())


_NODES: dict[str, Callable[[Any], _Arguments]] = {
    "IndexBackward0": _index,
    "SelectBackward0": lambda node: (torch.select, (_signed(node._saved_dim), _signed(node._saved_index))),
    "SliceBackward0": _slice,
    "UnsqueezeBackward0": lambda node: (torch.unsqueeze, (_signed(node._saved_dim),)),
    "MeanBackward0": _whole(torch.mean), "MeanBackward1": _along(torch.mean),
    "SumBackward0": _whole(torch.sum), "SumBackward1": _along(torch.sum),
    "MaxBackward1": _whole(torch.max), "MinBackward1": _whole(torch.min),
    "MaxBackward0": _along(torch.amax), "MinBackward0": _along(torch.amin),
}  # fmt: skip
