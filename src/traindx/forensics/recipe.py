"""A step written down as a recipe: which calls led from the model's output to the loss, with places where tensors go in.

The tape (`tape.py`) is open on steps that are looked at. The recipe keeps no tensor of such a step, only where each came from.
A later step, of which only the model's inputs are known, can then be made again: its other tensors are looked for in the
loader's batch and in the variables of the script.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from traindx.forensics.moment import Called, Moment, Taped
from traindx.forensics.places import library
from traindx.forensics.tensors import tensors_in

MOST_NODES = 200  # of a loss
MOST_COUNTED = 100_000  # values of a tensor that is looked at, whether they go up evenly
MOST_FRAMES = 40  # of the script and its frameworks, in which a tensor is looked for
_OPTIMIZED = 0x1  # a function's frame: before Python 3.13 looking at its variables leaves a copy of them behind


class CannotCapture(Exception):
    """Why the step cannot be written down."""


@dataclass(frozen=True)
class Place:
    """Where a tensor comes from: `batch` (an input), `made` (an earlier call) or `own` (a parameter or buffer)."""

    kind: str
    key: int | str


@dataclass(frozen=True)
class Call:
    """One call of the step: the `part`-th module, or a torch function."""

    part: int | None
    func: Any
    args: Any
    kwargs: Any
    gives: Any  # the output's nest with a Place("made") for each tensor, None for the rest
    autocast: tuple[str, torch.dtype] | None
    grad: bool


class Writer:
    """Replaces tensors by places, in the order of the step."""

    def __init__(self, own: Mapping[int, str]) -> None:
        self.own = own
        self.made: dict[int, int] = {}
        self.batch: list[Tensor] = []
        self._known: dict[int, int] = {}
        self._count = 0

    def call(self, thing: Called | Taped, part: int | None, func: Any, grad: bool) -> Call:
        args, kwargs = self.placed(thing.args), self.placed(thing.kwargs)
        return Call(part, None if part is not None else func, args, kwargs, self.noted(thing.output), thing.autocast, grad)

    def placed(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._place(value)
        if type(value) is dict:
            return {k: self.placed(v) for k, v in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self.placed(v) for v in value))
        if type(value) in (list, tuple):
            return type(value)(self.placed(v) for v in value)
        return value

    def _place(self, t: Tensor) -> Place:
        if id(t) in self.made:
            return Place("made", self.made[id(t)])
        if id(t) in self.own:
            return Place("own", self.own[id(t)])
        if t.grad_fn is not None:
            raise CannotCapture("a tensor of the loss was made by calls that are not seen (a custom autograd function?)")
        if id(t) not in self._known:
            self._known[id(t)] = len(self.batch)
            self.batch.append(t)
        return Place("batch", self._known[id(t)])

    def noted(self, value: Any) -> Any:
        """The output's nest with a place for each tensor."""
        if isinstance(value, Tensor):
            self.made[id(value)] = self._count
            self._count += 1
            return Place("made", self._count - 1)
        if isinstance(value, Mapping):
            return {k: self.noted(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.noted(v) for v in value]
        if hasattr(value, "__dict__"):
            return {k: self.noted(v) for k, v in vars(value).items()}
        return None


def filled(value: Any, batch: tuple[Tensor, ...], made: Mapping[int, Tensor], own: Mapping[str, Tensor]) -> Any:
    if isinstance(value, Place):
        source: Any = {"batch": batch, "made": made, "own": own}[value.kind]
        return source[value.key]
    if type(value) is dict:
        return {k: filled(v, batch, made, own) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(filled(v, batch, made, own) for v in value))
    if type(value) in (list, tuple):
        return type(value)(filled(v, batch, made, own) for v in value)
    return value


def note(place: Any, value: Any, made: dict[int, Tensor]) -> None:
    if isinstance(place, Place):
        made[int(place.key)] = value
    elif isinstance(place, dict):
        inner = value if isinstance(value, Mapping) else vars(value)
        for k, v in place.items():
            if v is not None and k in inner:
                note(v, inner[k], made)
    elif isinstance(place, list) and isinstance(value, list | tuple):
        for p, v in zip(place, value, strict=False):
            note(p, v, made)


# -- a step that was not taped


@dataclass(frozen=True)
class _Counted:
    """A tensor of equal values, or of values that go up evenly: the script makes it anew at each step and holds it nowhere."""

    shape: tuple[int, ...]
    first: Any
    by: Any
    rows: int | None  # the tensor that the model was called with and that has as many rows

    def made(self, given: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
        like = [] if self.rows is None else given[self.rows : self.rows + 1]
        shape = (len(like[0]), *self.shape[1:]) if like else self.shape
        return (self.first + self.by * torch.arange(math.prod(shape))).to(dtype).reshape(shape)


def _counted(t: Tensor, given: Sequence[Tensor]) -> _Counted | None:
    if t.device.type != "cpu" or not 0 < t.numel() <= MOST_COUNTED or t.dtype is torch.bool or t.is_complex():
        return None
    flat = t.detach().flatten()
    first, by = flat[0].item(), (flat[1] - flat[0]).item() if len(flat) > 1 else 0
    rows = next((i for i, one in enumerate(given) if t.ndim and one.ndim and len(one) == len(t)), None)
    counted = _Counted(tuple(t.shape), first, by, rows)
    return counted if torch.equal(counted.made(given, t.dtype), t) else None


@dataclass(frozen=True)
class _Source:
    """Where a tensor of the loss comes from."""

    like: tuple[Any, ...]
    given: int | None  # its place among the tensors that the model was called with
    held: int | None  # its place among the tensors of the loader's batch
    name: str | None  # the variable that held it
    alive: weakref.ref[Tensor]  # the very tensor: class weights, a batch that is used again and again
    counted: _Counted | None  # how to make it again: an index `range(n)`, ones for targets


@dataclass(frozen=True)
class Recipe:
    """What the loss of a taped step was made of."""

    models: tuple[int, ...]  # ids of the models that were called
    calls: tuple[tuple[Call, str, int], ...]  # with the user's file and line
    loss: int
    sources: tuple[_Source, ...]
    way: tuple[str, ...]  # kinds of the graph's nodes between the model's outputs and the loss


def _way(root: Tensor, called: Sequence[Called]) -> tuple[str, ...]:
    """What the graph says that a loss was made by: a step whose loss went another way is not told by this recipe."""
    floor = max(
        (int(t.grad_fn._sequence_nr()) for c in called for t in tensors_in(c.output) if t.grad_fn is not None), default=0
    )
    nodes: list[Any] = [root.grad_fn]
    found: list[str] = []
    while nodes and len(found) < MOST_NODES:
        node = nodes.pop()
        if node is not None and int(node._sequence_nr()) > floor:
            found.append(type(node).__name__)
            nodes += [following for following, _ in node.next_functions]
    return tuple(found)


def learnt(moment: Moment, frame: FrameType) -> Recipe | None:
    """The recipe of a taped step; None when it cannot be written."""
    called = [c for c in moment.happened if not hasattr(c, "func")]
    if moment.overflow or moment.untaped or not called or moment.root is None:
        return None
    writer, calls = Writer(_own(called)), []
    try:
        for thing in moment.happened:
            part = None if hasattr(thing, "func") else 0
            calls.append(
                (writer.call(thing, part, getattr(thing, "func", None), getattr(thing, "grad", True)), thing.file, thing.line)
            )
    except CannotCapture:
        return None
    loss = writer.made.get(id(moment.root))
    if loss is None:
        return None
    sources = _sources(writer, _given(called), moment.batch, frame)
    return Recipe(tuple(id(c.model) for c in called), tuple(calls), loss, sources, _way(moment.root, called))


def _sources(writer: Writer, given: Sequence[Tensor], batch: Any, frame: FrameType) -> tuple[_Source, ...]:
    """Where the tensors come from that no call made."""
    at, held = ({id(t): i for i, t in enumerate(ts)} for ts in (given, tensors_in(batch)))
    names = {id(v): name for name, v in _variables(frame, learning=True) if isinstance(v, Tensor)}
    return tuple(
        _Source(_like(t), at.get(id(t)), held.get(id(t)), names.get(id(t)), weakref.ref(t), _counted(t, given))
        for t in writer.batch
    )


def _all_found(
    sources: Sequence[_Source], given: Sequence[Tensor], held: Sequence[Tensor], frame: FrameType
) -> tuple[Tensor, ...] | None:
    """The same in a later step; None when one is not found."""
    variables = [(name, v) for name, v in _variables(frame, learning=False) if isinstance(v, Tensor) and v.grad_fn is None]
    found = [_found(s, given, held, variables) for s in sources]
    return None if any(t is None for t in found) else tuple(t for t in found if t is not None)


@dataclass(frozen=True)
class Before:
    """What a taped step made of the loader's batch before the model got it."""

    calls: tuple[tuple[Call, str, int], ...]
    ends: tuple[int | None, ...]  # which of what was made is each tensor that the model was called with
    sources: tuple[_Source, ...]


def learnt_before(moment: Moment, frame: FrameType) -> Before | None:
    """The way from the loader's batch to the model in a taped step; None when nothing was made on it, or it cannot be written."""
    if not moment.before:
        return None
    called = [c for c in moment.happened if not hasattr(c, "func")]
    writer, calls = Writer(_own(called)), []
    try:
        for thing in moment.before:
            calls.append((writer.call(thing, None, thing.func, thing.grad), thing.file, thing.line))
    except CannotCapture:
        return None
    ends = tuple(writer.made.get(id(t)) for t in _given(called))
    if not any(end is not None for end in ends):
        return None
    return Before(tuple(calls), ends, _sources(writer, [], moment.batch, frame))


def before_again(recipe: Before | None, moment: Moment, frame: FrameType) -> list[Taped]:
    """The calls between loader and model in a step of which only the batch and the model's inputs are held; empty when unknown."""
    from traindx.forensics.moment import Taped

    given = _given([c for c in moment.happened if not hasattr(c, "func")])
    if recipe is None or len(given) != len(recipe.ends):
        return []
    found = _all_found(recipe.sources, [], tensors_in(moment.batch), frame)
    if found is None:
        return []
    made: dict[int, Tensor] = {}
    known = {end: t for end, t in zip(recipe.ends, given, strict=True) if end is not None}
    out = []
    for call, file, line in recipe.calls:
        args, kwargs = (filled(v, found, made, {}) for v in (call.args, call.kwargs))
        output = _standing(call.gives, made, known)
        out.append(Taped(call.func, args, kwargs, output, call.autocast, call.grad, file, line))
    return out


def told_again(recipe: Recipe | None, moment: Moment, frame: FrameType) -> list[Any] | None:
    """What happened in a step of which only the model's calls were seen; None when a tensor cannot be found."""
    called = [c for c in moment.happened if not hasattr(c, "func")]
    if recipe is None or recipe.models != tuple(id(c.model) for c in called) or any(c.output is None for c in called):
        return None
    if moment.root is None or _way(moment.root, called) != recipe.way:
        return None
    found = _all_found(recipe.sources, _given(called), tensors_in(moment.batch), frame)
    if found is None:
        return None
    own = {name: t for m in called for name, t in _named(m.model)}
    made: dict[int, Tensor] = {}
    happened: list[Any] = []
    waiting = iter(called)
    for call, file, line in recipe.calls:
        if call.part is not None:
            one: Any = next(waiting)
            try:
                note(call.gives, one.output, made)
            except TypeError:  # the model gave something of another build this time
                return None
        else:
            args, kwargs = (filled(v, found, made, own) for v in (call.args, call.kwargs))
            output = _standing(call.gives, made, {recipe.loss: moment.root})
            one = Taped(call.func, args, kwargs, output, call.autocast, call.grad, file, line)
        happened.append(one)
    return happened


def _standing(place: Any, made: dict[int, Tensor], known: Mapping[int, Tensor | None]) -> Any:
    """Something of its own for each tensor that a call gave then: what is made again will be known by it."""
    if isinstance(place, Place):
        held = known.get(int(place.key))
        made[int(place.key)] = torch.empty(0) if held is None else held
        return made[int(place.key)]
    if isinstance(place, dict):
        return {k: _standing(v, made, known) for k, v in place.items()}
    if isinstance(place, list):
        return [_standing(v, made, known) for v in place]
    return None


def _found(
    source: _Source, given: Sequence[Tensor], held: Sequence[Tensor], variables: list[tuple[str, Tensor]]
) -> Tensor | None:
    for place, tensors in ((source.given, given), (source.held, held)):
        if place is not None:
            return tensors[place] if place < len(tensors) and _like(tensors[place]) == source.like else None
    counted = source.counted
    again = None if counted is None else counted.made(given, source.like[0])
    if counted is not None and counted.by and source.name is None:
        return again  # an index, and not the labels that look like one
    alike = [(name, t) for name, t in variables if _like(t) == source.like]
    named = [t for name, t in alike if name == source.name]
    if named:
        return named[0]
    if len({id(t) for _, t in alike}) == 1:
        return alike[0][1]
    held_on = source.alive()
    return again if held_on is None else held_on


def _like(t: Tensor) -> tuple[Any, ...]:
    return t.dtype, t.ndim, tuple(t.shape[1:])


def _given(called: Sequence[Called]) -> list[Tensor]:
    return [t for c in called for t in tensors_in((c.args, c.kwargs))]


def _own(called: Sequence[Called]) -> dict[int, str]:
    return {id(t): name for c in called for name, t in _named(c.model)}


def _named(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers, a shared one under each of its names; torch's own way takes milliseconds on deep models."""
    waiting, seen = [(str(id(model)), model)], set()
    while waiting:
        prefix, module = waiting.pop()
        seen.add(id(module))
        for name, t in (*module._parameters.items(), *module._buffers.items()):
            if t is not None:
                yield f"{prefix}.{name}", t
        waiting += [(f"{prefix}.{name}", m) for name, m in module._modules.items() if m is not None and id(m) not in seen]


def _variables(frame: FrameType | None, learning: bool) -> Iterator[tuple[str, Any]]:
    """The variables of the script and its frameworks, innermost first; while learning, only where looking leaves no trace."""
    for _ in range(MOST_FRAMES):
        while frame is not None and library(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return
        if not learning or not frame.f_code.co_flags & _OPTIMIZED or sys.version_info >= (3, 13):
            yield from list(frame.f_locals.items())
        frame = frame.f_back
