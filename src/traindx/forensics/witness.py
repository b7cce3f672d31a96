"""The witness: keeps what the current step was made of, until the step ends, so that it can be made again when it breaks.

References only, never copies: the inputs of the outermost forwards with their version counters, the random state before each,
autocast, and a tape of the few torch calls between the model's exit and `backward()`: the user's own loss. The tape is a
`TorchFunctionMode`, on only there, and only when no other mode is, so that nobody's mode stack is disturbed.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from traindx.probe import Forward, Probe, Reading, Scene

MOST_FORWARDS, MOST_CALLS = 16, 2000


@dataclass
class Called:
    """An outermost forward of this step."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: tuple[int, ...]
    random: Tensor
    autocast: tuple[str, torch.dtype] | None
    training: bool
    output: Any = None


@dataclass
class Taped:
    """One torch call of the user's between forward and backward."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    file: str
    line: int


@dataclass
class Moment:
    """Everything of the step on the way."""

    happened: list[Called | Taped] = field(default_factory=list)
    root: Tensor | None = None  # what backward was called on
    overflow: bool = False
    untaped: str = ""  # why there is no tape


class Tape(TorchFunctionMode):
    """Writes down every torch call and lets it pass."""

    def __init__(self, moment: Moment) -> None:
        super().__init__()
        self.moment = moment

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        moment = self.moment
        if len(moment.happened) >= MOST_CALLS:
            moment.overflow = True
        elif isinstance(out, Tensor | tuple | list):
            frame = sys._getframe(1)
            moment.happened.append(Taped(func, args, kwargs or {}, out, frame.f_code.co_filename, frame.f_lineno))
        return out


class Witness(Probe):
    """Keeps the moment; forgets it when the update is made."""

    def __init__(self) -> None:
        self.moment = Moment()
        self._tape: Tape | None = None
        self._forwards = 0

    def before_forward(self, scene: Scene, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._stop()
        if scene.compiled or self._forwards >= MOST_FORWARDS or not model.training:
            return
        self._forwards += 1
        versions = tuple(t._version for t in _tensors((args, kwargs)) if not t.is_inference())
        called = Called(model, args, kwargs, versions, torch.get_rng_state(), _autocast(), model.training)
        self.moment.happened.append(called)

    def on_forward(self, scene: Scene, forward: Forward) -> Reading | None:
        last = next((c for c in reversed(self.moment.happened) if isinstance(c, Called)), None)
        if last is not None and last.model is forward.model and last.output is None and forward.grad:
            last.output = forward.output
            self._start()
        return None

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        self._stop()
        self.moment.root = loss
        return None

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        self._stop()
        self.forget()
        return None

    def on_eval_begin(self, scene: Scene, evaluation: Any) -> Reading | None:
        self._stop()
        return None

    def last(self, scene: Scene) -> Reading | None:
        self._stop()
        self.forget()
        return None

    def forget(self) -> None:
        """Let go of every reference."""
        self.moment = Moment()
        self._forwards = 0

    def _start(self) -> None:
        if torch._C._len_torch_function_stack():
            self.moment.untaped = "another torch function mode was active around the loss"
            return
        self._tape = Tape(self.moment)
        _push_mode(self._tape)

    def _stop(self) -> None:
        """Take our mode off, wherever it is: the user may have entered one above it."""
        tape, self._tape = self._tape, None
        if tape is None:
            return
        stack = _get_current_function_mode_stack()
        if not any(mode is tape for mode in stack):
            return
        above = []
        while (top := _pop_mode()) is not tape:
            above.append(top)
        for mode in reversed(above):
            _push_mode(mode)


def _autocast() -> tuple[str, torch.dtype] | None:
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            return device, torch.get_autocast_dtype(device)
    return None


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors(v)]
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return []
