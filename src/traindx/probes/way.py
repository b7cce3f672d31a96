"""A step that goes as the steps before it, noted in references and times only: what the two short ways through it share.

When the step turns out otherwise (a second forward, a loss from another line, no backward, a loss that is not finite),
everything noted is told as if it had happened just now, and the step goes on at length.
"""

from __future__ import annotations

import math
import time
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from traindx.measures import peek

if TYPE_CHECKING:
    from traindx.probes.attach import Observer, Patches

clock = time.perf_counter
INDIFFERENT = frozenset({"zero_grad", "noted", "clipped", "scheduled"})
# where in the step it is: nothing noted, inside the forward, after it, after the loss, inside the backward, done
OUTSIDE, INSIDE, FORWARDED, LOSS, BACKWARD, DONE = range(6)
_grad_enabled, _autocasting = torch.is_grad_enabled, torch._C._is_any_autocast_enabled
_graph_task = torch._C._current_graph_task_id


class Way:
    """One observer's short way through a step; `Patches.lane` is the one that is open."""

    counts = True  # wants to hear of gradients being cleared

    def __init__(self, observer: Observer, patches: Patches) -> None:
        story = observer.story
        self._observer, self._patches, self._recorder = observer, patches, observer.recorder
        self._stage, self._phases, self._updates, self._loop = story.stage, story.phases, story.updates, story.loop
        self.key = 0  # id of the model
        self._model: weakref.ref[nn.Module] | None = None
        self._site = ""  # of the loss call; empty when the loss is written by hand
        self.noted = False  # something waits to be told
        self.misses = 0  # steps in a row that turned out otherwise
        self._at = OUTSIDE
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._output: Any = None
        self._call: tuple[Any, ...] = ()
        self._first = self._last = 0
        self._begun = self._ended = 0.0

    def aim(self, model: int, site: str) -> None:
        """The model (by id) whose steps these are, and where their loss is called."""
        self.key, self._model, self._site = model, self._stage._outermost.get(model), site

    @property
    def aimed(self) -> bool:
        return self._model is not None

    def _expected(self, model: nn.Module) -> bool:
        """Whether a call of this model begins a step as usual."""
        phases = self._phases
        return not (
            self._at != OUTSIDE
            or self._model is None
            or self._model() is not model
            or not _grad_enabled()
            or _autocasting()
            or _graph_task() != -1
            or phases._passes
            or phases._pending
            or phases._forced
            or phases._evaluations._open is not None
            or (phases._loader is not None and not phases._loader.train)
            or not self._observer.free()
        )

    def _drop(self) -> None:
        self.noted, self._at = False, OUTSIDE
        self._args, self._kwargs, self._output, self._call = (), {}, None, ()

    def shut(self) -> None:
        """Never again in this run."""
        self._drop()
        self._model, self._patches.lane = None, None

    def failed(self) -> None:
        """The forward raised: nothing of it is worth telling."""
        self._drop()

    def flush(self) -> None:
        """Tell what was noted as if it happened now."""
        at, args, kwargs, output, call = self._at, self._args, self._kwargs, self._output, self._call
        model = self._model() if self._model is not None else None
        self._drop()
        if model is None:
            return
        self.misses += 1
        self._patches.lane = None
        phases = self._phases
        phases.forward_begins(model, args, kwargs, (self._begun, self._first), True)
        if at >= FORWARDED:
            phases.forward_ends(model, args, kwargs, output, (self._ended, self._last), True)
        if at >= LOSS:
            name, module, given, named, out, site = call
            phases.loss_called(name, module, given, named, out, site, True)

    def _failed(self, error: Exception) -> None:
        self.shut()
        self._recorder.failed("recorder", type(self).__name__.lower(), error)

    # -- what the taps bring

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """The model is called; whether it is taken in short."""
        raise NotImplementedError

    def leave(self, output: Any) -> bool:
        """It has returned; False when this way was left meanwhile."""
        raise NotImplementedError

    def loss(self, call: tuple[Any, ...]) -> bool:
        """A loss function returned: (name, module, args, kwargs, output, site)."""
        raise NotImplementedError

    def backward(self, root: Any) -> bool:
        """A backward is about to begin; whether it is taken in short."""
        raise NotImplementedError

    def backward_ended(self) -> bool:
        """It is done; False when it was not taken in short."""
        raise NotImplementedError

    def cleared(self) -> None:
        """Gradients are about to be cleared."""
        raise NotImplementedError

    def steps(self, optimizer: Any, closure: Any) -> bool:
        """An optimizer's step begins; whether it is taken in short."""
        raise NotImplementedError

    def stepped(self, optimizer: Any) -> bool:
        """It is over."""
        raise NotImplementedError

    def clipped(self, norm: Any, limit: Any, kind: Any) -> bool:
        """Gradients were clipped by their norm; whether that was taken in short."""
        return False

    def scheduled(self, scheduler: Any) -> bool:
        """A scheduler has stepped; whether that was taken in short."""
        return False

    def _loss_of(self, root: Any, source: Tensor | None) -> float | None:
        """The loss that a backward from here begins with; None when it is not the backward that is expected."""
        if self._at != (LOSS if self._site else FORWARDED) or type(root) is not Tensor or root.grad_fn is None:
            return None
        if self._stage.batch_norm and source is not None and source.dim() > 0 and source.shape[0] == 1:
            return None  # one sample through batch normalisation: an event
        value = peek(root)
        return value if value is not None and math.isfinite(value) else None
