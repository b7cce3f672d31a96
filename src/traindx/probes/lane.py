"""The ordinary step in short: one forward of the known model, one loss, one backward, noted and taken as read.

While a step goes as the steps before it, what `Phases` would find out about it is known already. The lane keeps references
and times only, and hands them on in one go when the backward begins. Where even that is more than the budget allows,
`glimpse.py` takes over.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from traindx.probe import TRAIN, Forward
from traindx.probes.glimpse import Glimpse
from traindx.probes.passes import Pass, first_tensor, node_of
from traindx.probes.recorder import Listeners
from traindx.probes.step import Step
from traindx.probes.way import BACKWARD, DONE, FORWARDED, INSIDE, LOSS, Way, clock

if TYPE_CHECKING:
    from traindx.probes.attach import Observer, Patches

_sequence = torch._C._autograd._get_sequence_nr
MISSES = 8  # steps in a row that did not go as usual: then the lane stays shut until the next full step


class Lane(Way):
    """One observer's short way through ordinary steps."""

    def __init__(self, observer: Observer, patches: Patches) -> None:
        super().__init__(observer, patches)
        self.glimpse = Glimpse(observer, patches, self)
        self._usual: Any = None
        self._batch = 0
        self._before: Listeners = ()
        self._after: Listeners = ()
        self._after_fresh: Listeners = ()
        self._heard: Listeners = ()
        self._skipped: Listeners = ()

    # -- opening and closing

    def plan(self, step: Step) -> None:
        """An update is complete: will the next one be an ordinary one?"""
        self._drop()
        patches, stage, scene = self._patches, self._stage, self._stage.scene
        patches.lane = None
        if scene.full:
            self.misses = self.glimpse.misses = 0
            return
        usual = self._phases._usual
        if (
            usual is None
            or step.forwards != 1
            or step.backwards != 1
            or step.scaled
            or len(usual[0][1]) != 1
            or len(usual[0][0]) > 1
            or len(stage._optimizers) != 1
            or len(patches.observers) != 1
            or patches.modules is None
            or patches.modules.wide
            or self.misses + self.glimpse.misses >= MISSES
        ):
            return
        if self._usual is not usual:
            self._usual = usual
            (sites, (model,)), _ = usual
            self.aim(model, sites[0] if sites else "")
        if self.aimed:
            self.open()

    def aim(self, model: int, site: str) -> None:
        super().aim(model, site)
        self.glimpse.aim(model, site)
        ordinary = self._recorder._ordinary
        self._before = ordinary["before_forward"][0]
        self._after = ordinary["on_forward"][0]
        self._after_fresh = tuple(one for one in self._after if "on_forward" not in one[0].wakes)
        self._heard = ordinary["on_call"][0]
        self._skipped = self._recorder._lean["on_skipped"]

    def open(self) -> None:
        """Take the next step in short: as briefly as the budget demands."""
        self._patches.lane = self.glimpse if self.glimpse.chosen() else self

    def shut(self) -> None:
        super().shut()
        self.misses = MISSES

    # -- what the taps bring

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if not self._expected(args[0]):
            return False
        recorder, scene, begun = self._recorder, self._recorder.scene, clock()
        recorder.busy = True
        try:
            scene.autocast = None
            unseen = self.glimpse.unseen()
            if unseen[0]:
                recorder.hear(self._skipped, "on_skipped", unseen)
            for _, method in self._before:
                method(scene, args[0], args[1:], kwargs)
            self._args, self._kwargs, self._first = args[1:], kwargs, _sequence()
            self._at, self.noted = INSIDE, True
        except Exception as error:  # as in Observer.told
            self._failed(error)
            return False
        finally:
            recorder.busy = False
            self._begun = now = clock()
            recorder.spent_s += now - begun + recorder.detour_s
        return True

    def leave(self, output: Any) -> bool:
        model = self._model() if self._model is not None else None
        if self._at != INSIDE or model is None:
            return False
        self._ended = begun = clock()
        recorder, phases = self._recorder, self._phases
        recorder.busy = True
        try:
            self._output, self._last, self._at = output, _sequence(), FORWARDED
            fresh = phases._loader is not None and phases._batch != self._batch
            self._batch = phases._batch
            listeners = self._after_fresh if fresh else self._after
            if listeners:
                forward = Forward(phases._serial + 1, model, self._args, self._kwargs, output, TRAIN, True, model.training)
                recorder.hear(listeners, "on_forward", (forward,))
        except Exception as error:  # as in Observer.told
            self._failed(error)
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - begun + recorder.detour_s
        return True

    def loss(self, call: tuple[Any, ...]) -> bool:
        begun = clock()
        recorder, out = self._recorder, call[4]
        if self._at != FORWARDED or call[5] != self._site or not isinstance(out, Tensor) or not out.requires_grad:
            return False
        if not self._observer.free():
            return False
        if recorder.listeners("on_loss"):  # a probe wants it at length: no sign of another loop
            self.misses -= 1
            return False
        self._call, self._at = call, LOSS
        try:
            for _, method in self._heard:
                method(recorder.scene, *call)
        except Exception as error:  # as in Observer.told
            self._failed(error)
        recorder.spent_s += clock() - begun + recorder.detour_s
        return True

    def backward(self, root: Any) -> bool:
        model = self._model() if self._model is not None else None
        begun = clock()
        source = first_tensor(self._args, self._kwargs)
        alone = bool(self._call) and root is self._call[4]
        value = self._loss_of(root, source)
        if value is None or model is None or self._recorder.busy:
            return False
        recorder, phases = self._recorder, self._phases
        recorder.busy = True
        try:
            this = Pass(
                phases._serial + 1, self.key, TRAIN, True, model.training, 0, phases._loader,
                self._first, self._last, self._begun, self._ended, node_of(source),
            )  # fmt: skip
            this.batch = phases._batch if phases._loader is not None else 0
            this.fed = weakref.ref(source) if source is not None else None
            self._drop()
            phases._as_usual(this)
            self._updates._as_usual(root, value, alone, self._site)
            self._at = BACKWARD
        except Exception as error:  # as in Observer.told
            self._failed(error)
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - begun + recorder.detour_s
        return True

    def backward_ended(self) -> bool:
        if self._at != BACKWARD:
            return False
        self._at = DONE
        begun = clock()
        self._stage.step.backward_s += begun - self._updates._begun
        self._loop._backward_ended()
        self._recorder.spent_s += clock() - begun + self._recorder.detour_s
        return True

    def cleared(self) -> None:
        self._stage.step.zero_grads += 1
        self._recorder.spent_s += self._recorder.detour_s

    def steps(self, optimizer: Any, closure: Any) -> bool:
        return False  # the update itself is told at length

    def stepped(self, optimizer: Any) -> bool:
        return False
