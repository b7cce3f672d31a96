"""A step as a recipe: the forwards and the loss of one step, with places where a batch goes in.

The witness (`forensics/witness.py`) saw which modules were called and which torch calls led from their outputs to the loss.
Written down as a recipe the step can be made again with other weights and another batch; no graph and no output is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from traindx.forensics.witness import Called, Moment, Taped

LOSSES = {
    "cross_entropy": nn.CrossEntropyLoss,
    "nll_loss": nn.NLLLoss,
    "mse_loss": nn.MSELoss,
    "l1_loss": nn.L1Loss,
    "smooth_l1_loss": nn.SmoothL1Loss,
    "binary_cross_entropy": nn.BCELoss,
    "binary_cross_entropy_with_logits": nn.BCEWithLogitsLoss,
}


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


@dataclass(frozen=True)
class Recipe:
    """How a step's loss is made of a model and a batch."""

    calls: tuple[Call, ...]
    loss: int
    key: str  # equal for steps that differ in their batch only
    inputs: int  # tensors of the batch that go into modules; the rest go into the loss
    kind: nn.Module | None = field(default=None, compare=False)  # the loss of torch it ends in
    plain: bool = False  # … and nothing is done to it afterwards

    def __call__(self, model: nn.Module, batch: Any) -> Tensor:
        """The loss of a batch under `model`, with its graph."""
        made = self._follow(model, batch, len(self.calls))
        found: Tensor = made[self.loss]
        return found

    def output(self, model: nn.Module, batch: Any) -> Any:
        """What the last module of the step gives."""
        last = max(i for i, c in enumerate(self.calls) if c.part is not None)
        made: dict[int, Tensor] = {}
        return self._follow(model, batch, last + 1, made) and _filled(self.calls[last].gives, (), made, {})

    def _follow(self, model: nn.Module, batch: Any, count: int, made: dict[int, Tensor] | None = None) -> dict[int, Tensor]:
        made = {} if made is None else made
        batch = (batch,) if isinstance(batch, Tensor) else tuple(batch)
        parts = list(model.children()) if isinstance(model, Parts) else [model]
        own: dict[str, Tensor] = dict(model.named_parameters()) | dict(model.named_buffers())
        asked = torch.is_grad_enabled()
        for call in self.calls[:count]:
            func = parts[call.part] if call.part is not None else call.func
            args, kwargs = (_filled(v, batch, made, own) for v in (call.args, call.kwargs))
            cast: Any = torch.autocast(call.autocast[0], dtype=call.autocast[1]) if call.autocast else nullcontext()
            with cast, torch.set_grad_enabled(asked and call.grad):
                _note(call.gives, func(*args, **kwargs), made)
        return made


class Parts(nn.ModuleList):
    """Several outermost modules of one step, as the one model a task has."""


def written(moment: Moment, own: Mapping[int, str], parts: Mapping[int, int]) -> tuple[Recipe, tuple[Tensor, ...]]:
    """The recipe of a step, and its batch; `own` names parameters and buffers, `parts` numbers modules, both by id."""
    if moment.root is None or moment.overflow:
        raise CannotCapture("there were too many torch calls between the model and backward()")
    writer = _Writer(own)
    calls, key, kind, inputs = [], [], None, 0
    ends: Any = None  # what the last loss of torch gave
    for thing in moment.happened:
        if isinstance(thing, Called):
            calls.append(writer.call(thing, parts[id(thing.model)], thing.model, True))
            inputs = len(writer.batch)
        elif thing.output is not None:
            calls.append(writer.call(thing, None, thing.func, thing.grad))
            found = _loss_kind(thing)
            kind, ends = (found, calls[-1].gives) if found is not None else (kind, ends)
        key.append(f"{thing.file}:{thing.line}")
    place = writer.made.get(id(moment.root))
    if place is None:
        raise CannotCapture(moment.untaped or "the loss was not made from the model's output by torch calls alone")
    key += [repr((c.part, getattr(c.func, "__name__", ""), c.args, c.kwargs)) for c in calls]
    return Recipe(tuple(calls), place, "\n".join(key), inputs, kind, ends == Place("made", place)), tuple(writer.batch)


class _Writer:
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
            self.batch.append(t.detach())
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


def _filled(value: Any, batch: tuple[Tensor, ...], made: Mapping[int, Tensor], own: Mapping[str, Tensor]) -> Any:
    if isinstance(value, Place):
        source: Any = {"batch": batch, "made": made, "own": own}[value.kind]
        return source[value.key]
    if type(value) is dict:
        return {k: _filled(v, batch, made, own) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_filled(v, batch, made, own) for v in value))
    if type(value) in (list, tuple):
        return type(value)(_filled(v, batch, made, own) for v in value)
    return value


def _note(place: Any, value: Any, made: dict[int, Tensor]) -> None:
    if isinstance(place, Place):
        made[int(place.key)] = value
    elif isinstance(place, dict):
        inner = value if isinstance(value, Mapping) else vars(value)
        for k, v in place.items():
            if v is not None and k in inner:
                _note(v, inner[k], made)
    elif isinstance(place, list) and isinstance(value, list | tuple):
        for p, v in zip(place, value, strict=False):
            _note(p, v, made)


def _loss_kind(thing: Taped) -> nn.Module | None:
    """The loss of torch this call is, as a module that carries its smoothing; it describes, nobody calls it."""
    name = getattr(thing.func, "__name__", "")
    if name not in LOSSES:
        return None
    smoothing = float(thing.kwargs.get("label_smoothing", 0.0) or 0.0)
    return nn.CrossEntropyLoss(label_smoothing=smoothing) if name == "cross_entropy" else LOSSES[name]()
