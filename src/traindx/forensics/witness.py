"""The witness: keeps what the current step was made of, until the step ends, so that it can be made again when it breaks.

References only, never copies: the inputs of the outermost forwards with their version counters, the random state before each,
autocast, and a tape of the few torch calls between the model's exit and `backward()`: the user's own loss. The tape is a
`TorchFunctionMode`, on only there, and only when no other mode is, so that nobody's mode stack is disturbed.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from traindx.forensics.places import user_line
from traindx.forensics.tensors import tensors_in
from traindx.probe import VAL, Forward, Probe, Reading, Scene

MOST_FORWARDS, MOST_CALLS = 256, 2000
_BESIDE = f"{os.sep}torch{os.sep}optim{os.sep}"
Autocast = tuple[str, torch.dtype] | None


@dataclass
class Called:
    """An outermost forward of this step."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: tuple[int, ...]
    random: Tensor
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
    root: Tensor | None = None  # what backward was called on
    overflow: bool = False
    untaped: str = ""  # why there is no tape


class Tape(TorchFunctionMode):
    """Writes down every torch call of the user's and lets it pass."""

    def __init__(self, moment: Moment, busy: Callable[[], bool]) -> None:
        super().__init__()
        self.moment: Moment | None = moment  # None: closed, lets everything pass
        self.busy = busy  # whether it is traindx itself that calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            out = func(*args, **(kwargs or {}))
        except BaseException as error:
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # the user's traceback is the user's
            raise
        moment = self.moment
        writes = out is None and getattr(func, "__name__", "") == "__setitem__"
        if moment is None or not (writes or isinstance(out, Tensor | tuple | list)) or self.busy():
            return out
        caller = sys._getframe(1)
        if _BESIDE in caller.f_code.co_filename or getattr(func, "__self__", None) is Tensor.grad:
            return out  # clearing gradients is no part of the loss, and old gradients must go when they are cleared
        if len(moment.happened) >= MOST_CALLS:
            moment.overflow = True
        else:
            file, line, _ = user_line(caller)
            moment.happened.append(
                Taped(func, args, kwargs or {}, () if writes else out, _autocast(), torch.is_grad_enabled(), file, line)
            )
        return out


class Witness(Probe):
    """Keeps the moment; forgets it when the update is made."""

    def __init__(self, busy: Callable[[], bool] = lambda: False, batches: bool = False) -> None:
        self.moment = Moment()
        self.batch: Any = None  # the latest of the loader, when it is wanted
        self._batches = batches
        self._others: dict[str, list[weakref.ref[Any]]] = {"schedulers": [], "scalers": []}
        self.on = True
        self._busy = busy
        self._tape: Tape | None = None
        self._paused = False
        self._forwards = 0

    def on_batch(self, scene: Scene, batch: Any, phase: str) -> Reading | None:
        if self._batches and self.on and phase != VAL:
            self.batch = batch
        return None

    def on_built(self, scene: Scene, kind: str, thing: Any) -> None:
        if f"{kind}s" in self._others:
            self._others[f"{kind}s"].append(weakref.ref(thing))

    def others(self) -> dict[str, list[Any]]:
        """Schedulers and scalers that are still alive."""
        return {kind: [t for r in refs if (t := r()) is not None] for kind, refs in self._others.items()}

    def before_forward(self, scene: Scene, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._stop()
        if not self.on or scene.compiled:
            return
        if self.moment.root is not None:
            self.forget()  # a backward has been made since: another micro-batch, another loss
        if self._forwards >= MOST_FORWARDS:
            self.moment.overflow = True
            return
        self._forwards += 1
        versions = tuple(t._version for t in tensors_in((args, kwargs)) if not t.is_inference())
        file, line, _ = user_line(sys._getframe(1))
        called = Called(model, args, kwargs, versions, torch.get_rng_state(), scene.autocast, model.training, file, line)
        self.moment.happened.append(called)

    def on_forward(self, scene: Scene, forward: Forward) -> Reading | None:
        happened = self.moment.happened
        last = happened[-1] if happened else None
        if not isinstance(last, Called) or last.model is not forward.model or last.output is not None:
            return None
        if not forward.grad or forward.phase == VAL:
            happened.pop()  # a validation, or a target nobody goes back through: a number like any other
            if any(isinstance(thing, Called) for thing in happened):
                self._start()
            return None
        last.output = forward.output
        self._start()
        return None

    def before_clear(self, scene: Scene) -> None:
        self._paused = self._tape is not None  # clearing touches every parameter, and a mode costs a microsecond a touch
        self._stop()

    def after_clear(self, scene: Scene) -> None:
        if self._paused and self.on:
            self._start()
        self._paused = False

    def before_backward(self, scene: Scene) -> None:
        self._stop()

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        self._stop()
        self.moment.root = loss
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        self._stop()
        return None

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        self._stop()
        self.forget()
        return None

    def on_eval_begin(self, scene: Scene, evaluation: Any) -> Reading | None:
        self._stop()
        return None

    def last(self, scene: Scene) -> Reading | None:
        self.off()
        return None

    def off(self) -> None:
        """Be a witness no more: nothing is kept and no mode is on."""
        self.on = False
        self._stop()
        self.forget()
        self.batch = None

    def forget(self) -> None:
        """Let go of every reference."""
        self.moment = Moment()
        self._forwards = 0

    # -- the tape

    def _start(self) -> None:
        if torch._C._len_torch_function_stack():
            self.moment.untaped = "another torch function mode was active around the loss"
            return
        self._tape = Tape(self.moment, self._busy)
        _push_mode(self._tape)

    def _stop(self) -> None:
        """Close the tape and take our mode off, wherever it is: the user may have entered one above it.

        Inside a call that the tape itself let pass torch has put it aside and will put it back, so that it can only be
        closed; the next moment takes it off.
        """
        tape = self._tape
        if tape is None:
            return
        tape.moment = None
        stack = _get_current_function_mode_stack()
        if not any(mode is tape for mode in stack):
            return
        self._tape = None
        above = []
        while (top := _pop_mode()) is not tape:
            above.append(top)
        for mode in reversed(above):
            _push_mode(mode)


def _autocast() -> Autocast:
    if not torch._C._is_any_autocast_enabled():
        return None
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            return device, torch.get_autocast_dtype(device)
    return None
