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

from traindx.forensics.moment import Called, Moment, Taped
from traindx.forensics.recipe import Call, CannotCapture, Place, Writer, filled, note
from traindx.trials.task import LOSSES


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
        return self._follow(model, batch, last + 1, made) and filled(self.calls[last].gives, (), made, {})

    def _follow(self, model: nn.Module, batch: Any, count: int, made: dict[int, Tensor] | None = None) -> dict[int, Tensor]:
        made = {} if made is None else made
        batch = (batch,) if isinstance(batch, Tensor) else tuple(batch)
        parts = list(model.children()) if isinstance(model, Parts) else [model]
        own: dict[str, Tensor] = dict(model.named_parameters()) | dict(model.named_buffers())
        asked = torch.is_grad_enabled()
        for call in self.calls[:count]:
            func = parts[call.part] if call.part is not None else call.func
            args, kwargs = (filled(v, batch, made, own) for v in (call.args, call.kwargs))
            cast: Any = torch.autocast(call.autocast[0], dtype=call.autocast[1]) if call.autocast else nullcontext()
            with cast, torch.set_grad_enabled(asked and call.grad):
                note(call.gives, func(*args, **kwargs), made)
        return made


class Parts(nn.ModuleList):
    """Several outermost modules of one step, as the one model a task has."""


def written(moment: Moment, own: Mapping[int, str], parts: Mapping[int, int]) -> tuple[Recipe, tuple[Tensor, ...]]:
    """The recipe of a step, and its batch; `own` names parameters and buffers, `parts` numbers modules, both by id."""
    if moment.root is None or moment.overflow:
        raise CannotCapture("there were too many torch calls between the model and backward()")
    writer = Writer(own)
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
    return Recipe(tuple(calls), place, "\n".join(key), inputs, kind, ends == Place("made", place)), tuple(
        t.detach() for t in writer.batch
    )


def _loss_kind(thing: Taped) -> nn.Module | None:
    """The loss of torch this call is, as a module that carries its smoothing; it describes, nobody calls it."""
    name = getattr(thing.func, "__name__", "")
    if name not in LOSSES:
        return None
    smoothing = float(thing.kwargs.get("label_smoothing", 0.0) or 0.0)
    return nn.CrossEntropyLoss(label_smoothing=smoothing) if name == "cross_entropy" else LOSSES[name]()
