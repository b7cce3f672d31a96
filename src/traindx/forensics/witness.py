"""The witness: keeps what the current step was made of, until the step ends, so that it can be made again when it breaks.

References only, never copies: the inputs of the outermost forwards with their version counters, the random state before each
and autocast. On steps that are looked at, the tape (`tape.py`) hears the few torch calls between the model's exit and
`backward()`, the user's own loss, and what it heard is learnt as a recipe (`recipe.py`). On all other steps nothing of the loss
is heard: when such a step breaks, its loss is made again from the recipe.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from itertools import zip_longest
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from traindx import innards
from traindx.forensics import recipe, unheard
from traindx.forensics.moment import Called, Moment, Taped
from traindx.forensics.places import user_line
from traindx.forensics.tape import TAPE
from traindx.forensics.tensors import tensors_in
from traindx.probe import VAL, Forward, Keeper, Noted, Reading, Scene

MOST_FORWARDS, MOST_CALLS = 256, 2000
_BESIDE = f"{os.sep}torch{os.sep}optim{os.sep}"
TAPED_S = 3e-6  # of a taped call that its own clock cannot see: the wrapper
clock = time.perf_counter
_random_state = torch.default_generator.get_state


class Witness(Keeper):
    """Keeps the moment; forgets it when the update is made."""

    def __init__(
        self,
        busy: Callable[[], bool] = lambda: False,
        batches: bool = False,
        spend: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self._moment = Moment()
        self.batch: Any = None  # the latest of the loader, until the step ends; longer when it is wanted
        self._batches = batches
        self._others: dict[str, list[weakref.ref[Any]]] = {"schedulers": [], "scalers": []}
        self.on = True
        self._busy, self._spend = busy, spend
        self._draws: dict[int, bool] = {}  # model → whether its forward draws random numbers, as full steps have shown
        self._recipe: recipe.Recipe | None = None  # of the latest taped step
        self._before: recipe.Before | None = None
        self._lines: dict[int, tuple[str, int]] = {}  # model → where it was called on the latest full step
        self._taping = False
        self._forwards = 0

    @property
    def moment(self) -> Moment:
        """Everything of the step on the way."""
        if self.untold is not None:
            self.untold()
        return self._moment

    def _taped(self) -> list[Taped]:
        return [one for one in self._moment.happened if isinstance(one, Taped)]

    def on_batch(self, scene: Scene, batch: Any, phase: str) -> Reading | None:
        if self.on and phase != VAL:
            self.batch = batch
            self._stop()
            if self._moment.root is not None:
                self.forget()  # another micro-batch
            if scene.full and not scene.compiled and not self._moment.happened:
                self._moment.before.clear()
                self._start()
        return None

    def on_built(self, scene: Scene, kind: str, thing: Any) -> None:
        if f"{kind}s" in self._others:
            self._others[f"{kind}s"].append(weakref.ref(thing))
        elif kind == "optimizer" and self.on and scene.full and not scene.compiled:
            TAPE.on()  # training is about to begin

    def kept(self) -> tuple[Any, str]:
        """The batch to keep and what it is: the loader's, or the model's inputs where no loader gave it; None when unwanted."""
        if not self._batches:
            return None, ""
        if self.batch is not None:
            return self.batch, "loader"
        first = next((c for c in self.moment.happened if isinstance(c, Called)), None)
        return (None, "") if first is None else ([list(first.args), dict(first.kwargs)], "inputs")

    def others(self) -> dict[str, list[Any]]:
        """Schedulers and scalers that are still alive."""
        return {kind: [t for r in refs if (t := r()) is not None] for kind, refs in self._others.items()}

    def before_forward(self, scene: Scene, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._stop()
        TAPE.off()  # the calls of a model are no calls of the loss: it finds torch's own functions
        if self.untold is not None:
            self.untold()
        if not self.on or scene.compiled:
            return
        if self._moment.root is not None:
            self.forget()  # a backward has been made since: another micro-batch, another loss
        if self._forwards >= MOST_FORWARDS:
            self._moment.overflow = True
            return
        self._forwards += 1
        if scene.full:
            scene.taped = self._taped
            scene.taped_whole = TAPE.whole and (scene.taped_whole or not self._moment.happened)
            if self._recipe is not None and self._forwards > len(self._recipe.models):
                TAPE.doubt()  # a batch was left out, and its loss may have been made of calls that were not heard
        key = id(model)
        if scene.full or key not in self._lines:
            self._lines[key] = user_line(sys._getframe(1))[:2]
        random = _random_state() if scene.full or self._draws.get(key, True) else None
        called = Called(model, args, kwargs, _versions(args, kwargs), random, scene.autocast, model.training, *self._lines[key])
        self._moment.happened.append(called)

    def on_forward(self, scene: Scene, forward: Forward) -> Reading | None:
        happened = self._moment.happened
        last = happened[-1] if happened else None
        if not isinstance(last, Called) or last.model is not forward.model or last.output is not None:
            return None
        if scene.full and last.random is not None and not self._draws.get(id(forward.model)):
            self._draws[id(forward.model)] = _bytes(last.random) != _bytes(_random_state())
        if not forward.grad or forward.phase == VAL:
            happened.pop()  # a validation, or a target nobody goes back through: a number like any other
            if scene.full and any(isinstance(thing, Called) for thing in happened):
                self._start()
            return None
        last.output = forward.output
        if scene.full:
            self._start()
        return None

    def on_call(
        self, scene: Scene, name: str, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, site: str
    ) -> None:
        """Where the loss is one call of torch and nothing else, that call is all there is to hear."""
        last = self._moment.happened[-1] if self._moment.happened else None
        unheard = not (self._taping and TAPE.inside)  # looked up before the tape was there, or no tape is
        if unheard and last is not None and last.output is not None:
            file, _, line = site.rpartition(":")
            func = getattr(functional, name, module)
            self._moment.happened.append(Taped(func, args, kwargs, output, scene.autocast, True, file, int(line or 0)))

    # -- steps that are told afterwards

    def patient(self, model: nn.Module | None) -> bool:
        key = id(model)
        return self.on and not self._taping and key in self._lines and key in self._draws

    def draws(self, model: nn.Module | None) -> bool:
        return self._draws[id(model)]

    def versions(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
        return _versions(args, kwargs)

    def recall(self, calls: Sequence[Noted], outputs: Sequence[Any], batch: Any, root: Tensor | None) -> None:
        if not self.on:
            return
        self.forget()
        for call, output in zip_longest(calls, outputs[: len(calls)]):
            state = (call.versions, call.random, call.autocast, call.model.training, *self._lines[id(call.model)], output)
            self._moment.happened.append(Called(call.model, call.args, call.kwargs, *state))
        self.batch = batch if batch is not None else self.batch
        if root is not None:
            self._moment.root = root

    def on_backward(self, scene: Scene, loss: Tensor) -> Reading | None:
        taped = self._taping
        self._stop()
        self._moment.root = loss
        if taped:
            self._moment.batch = self.batch
            unheard.fill(self._moment, loss)
            learnt = recipe.learnt(self._moment, sys._getframe(1))
            TAPE.learnt(learnt is not None)
            self._recipe = learnt or self._recipe
            self._before = recipe.learnt_before(self._moment, sys._getframe(1)) or self._before
        return None

    def complete(self) -> Moment:
        """The moment with the calls of its loss, from the recipe where they were not heard."""
        moment = self.moment
        heard = moment.happened
        moment.batch = self.batch
        if not moment.before:
            moment.before = recipe.before_again(self._before, moment, sys._getframe(1))
        if moment.root is not None and not any(tensor is moment.root for one in heard for tensor in tensors_in(one.output)):
            again = recipe.told_again(self._recipe, moment, sys._getframe(1))
            moment.happened = again or heard
        return moment

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        self._stop()
        return None

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        self._stop()
        self.forget()
        if not self._batches:
            self.batch = None
        return None

    def on_eval_begin(self, scene: Scene, evaluation: Any) -> Reading | None:
        self._stop()
        return None

    def last(self, scene: Scene) -> Reading | None:
        self.off()
        return None

    def off(self) -> None:
        """Be a witness no more: nothing is kept or heard."""
        self.on = False
        self._stop()
        TAPE.off()
        self.forget()
        self.batch = None

    def forget(self) -> None:
        """Let go of every reference."""
        moment = self._moment
        if moment.happened or moment.before or moment.root is not None or moment.overflow:
            self._moment = Moment()
        self._forwards = 0

    # -- the tape

    def _start(self) -> None:
        self._taping = TAPE.open(self._heard, self._busy)
        if not self._taping:
            self._moment.untaped = "another observer was hearing the calls of the loss"

    def _stop(self) -> None:
        if self._taping:
            self._taping = False
            TAPE.close(self._heard)

    def _heard(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, caller: FrameType) -> None:
        """A torch call of the user's."""
        writes = out is None and getattr(func, "__name__", "") == "__setitem__"
        if not (writes or isinstance(out, Tensor | tuple | list)):
            return
        if _BESIDE in caller.f_code.co_filename:
            return  # clearing gradients is no part of the loss, and old gradients must go when they are cleared
        begun, moment = clock(), self._moment
        heard = moment.happened or moment.before
        if len(heard) < MOST_CALLS:
            file, line, _ = user_line(caller)
            grad = torch.is_grad_enabled()
            heard.append(Taped(func, args, kwargs, () if writes else out, innards.autocast(), grad, file, line))
        elif heard is moment.happened:
            moment.overflow = True
        else:  # much is made of the batch: then nothing is known of it
            moment.before = []
            self._stop()
        self._spend(clock() - begun + TAPED_S)


def _versions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    return tuple(t._version for t in tensors_in((args, kwargs)) if not t.is_inference())


def _bytes(state: Tensor) -> bytes:
    """A random state, to compare it without a dispatch."""
    return ctypes.string_at(state.data_ptr(), state.numel())
