"""What a step was made of: the calls of its models, the torch calls of its loss, what backward was called on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Autocast = tuple[str, torch.dtype] | None


@dataclass
class Called:
    """An outermost forward of this step."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: tuple[int, ...]
    random: Tensor | None  # None: it draws no random numbers
    autocast: Autocast
    training: bool
    file: str
    line: int
    output: Any = None


@dataclass
class Taped:
    """One torch call of the user's between forward and backward."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    autocast: Autocast
    grad: bool
    file: str
    line: int


@dataclass
class Moment:
    """Everything of the step on the way."""

    happened: list[Called | Taped] = field(default_factory=list)
    before: list[Taped] = field(default_factory=list)  # calls between the loader and the model
    batch: Any = None  # as the loader gave it
    drawn: Any = None  # its indices in the data set, where the sampler tells
    root: Tensor | None = None  # what backward was called on
    overflow: bool = False
    untaped: str = ""  # why there is no tape
