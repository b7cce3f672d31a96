"""The step that is only glimpsed: while more is owed than was earned, because steps are so short.

Its loss and one gradient are looked at, its learning rate and time are recorded, no more. In the middle of a training every
line of ours runs in cold caches, at a quarter of its speed; so next to nothing is done there. What the forensics need (the
keeper, `forensics/witness.py`) is kept here and told only when somebody asks, wherever the loss is a single call of torch;
and what a step leaves behind waits in a list until a handful of steps is settled in one go.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from traindx.measures import look, peek
from traindx.probe import TRAIN, Forward, Keeper
from traindx.probes.gradients import grad_norm
from traindx.probes.passes import first_tensor
from traindx.probes.recorder import Listeners
from traindx.probes.replicas import due
from traindx.probes.step import Micro, Step
from traindx.probes.way import BACKWARD, DONE, FORWARDED, INSIDE, LOSS, OUTSIDE, Way, clock

if TYPE_CHECKING:
    from traindx.probes.attach import Observer, Patches
    from traindx.probes.lane import Lane

_sequence = torch._C._autograd._get_sequence_nr
_thread = threading.get_ident
_NONE: dict[str, Any] = {}
SETTLE, SETTLE_S = 16, 0.25  # so many steps, or so many seconds, are settled in one go: what a kill may take with it


# what a glimpsed step leaves behind: its number, when it ended and how long it took, what of that was ours and what it waited
# for data; its loss, the learning rate where it is as before, the epoch, and what others have added
_Left = tuple[int, float, float, float, float, float, float | None, int, dict[str, Any], list[Any]]


class Glimpse(Way):
    """One observer's way through steps that there is no time to look at."""

    counts = False  # clearing is counted with the step

    def __init__(self, observer: Observer, patches: Patches, lane: Lane) -> None:
        super().__init__(observer, patches)
        self._lane = lane
        self._keeper: Keeper | None = None
        self._kept: dict[str, Listeners] = {}  # the keeper's moments, for steps that cannot wait to be told
        self._patient = False  # the next step can
        self._primary: Callable[[], Any] = type(None)  # the optimizer whose steps these are,
        self._owner: Any = None  # what the loop knows of it,
        self._again = 0  # and how many of its steps the loop has not counted
        self._waits = False  # this one does: what it is made of has not been told to the keeper
        self._brief: Any = None
        self._root: Tensor | None = None
        self._loss = 0.0
        self._back = self._waited = 0.0  # when the backward began, and how long it took; known on ranks
        self._timed = True  # this step's own cost is measured; it stands for the steps after it
        self._tally = self._cost = 0.0  # so far, and of the latest that was measured
        self._forwards = self._samples = 0  # that no probe has looked at and no loader has counted
        self._left: list[_Left] = []
        self._bad = self._updates._grad_gate.bad
        self._recorder.behind.append(self.settle)

    # -- opening and closing

    def aim(self, model: int, site: str) -> None:
        super().aim(model, site)
        ordinary = self._recorder._ordinary
        moments = ("before_forward", "on_forward", "on_call", "on_backward")
        self._kept = {m: tuple(one for one in ordinary[m][0] if isinstance(one[0], Keeper)) for m in moments}
        keepers = [probe for probe, _ in self._kept["on_backward"]]
        self._keeper = keepers[0] if len(keepers) == 1 and isinstance(keepers[0], Keeper) else None
        if self._keeper is not None:
            self._keeper.untold = self._testify

    def chosen(self) -> bool:
        """Whether the next step is only glimpsed."""
        scene = self._recorder.scene
        met = scene.world > 1 and due(scene.step)  # all ranks look at this one, so that they can be compared
        if met or scene.every_norm or not self._recorder.governor.owing:
            return False
        model, keeper = self._model() if self._model is not None else None, self._keeper
        known = model is not None and bool(self._site) and not scene.compiled
        self._patient = known and keeper is not None and keeper.patient(model)
        primary = self._stage.primary
        self._primary, self._owner = weakref.ref(primary), self._loop._owners.get(id(primary))
        return True

    def unseen(self) -> tuple[int, int]:
        """Forwards, and their samples, that went by since the last time this was asked."""
        out = self._forwards, self._samples
        self._forwards = self._samples = 0
        return out

    def _drop(self) -> None:
        super()._drop()
        self._waits, self._brief, self._root = False, None, None
        self._recorder.spent_s += self._tally
        self._tally = 0.0

    def flush(self) -> None:
        self._testify()
        if self._phases._loader is None:
            self._pass_over(first_tensor(self._args, self._kwargs))
        super().flush()

    def _testify(self) -> None:
        """Tell the keeper what it has not been told."""
        model = self._model() if self._model is not None else None
        if self._waits and self._keeper is not None and model is not None:
            self._waits = False
            try:
                self._keeper.recall(model, self._args, self._kwargs, self._brief, self._output, self._call, self._root)
            except Exception as error:  # as in Observer.told
                self._recorder.failed(type(self._keeper).__name__, "recall", error)

    def _pass_over(self, source: Tensor | None) -> None:
        if source is not None and source.dim():
            self._forwards += 1
            self._samples += int(source.shape[0])

    # -- the pass

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        self._begun = begun = clock()
        if not self._expected(args[0]) or (not args[0].training and self._loop.asleep()):
            return False
        recorder = self._recorder
        try:
            recorder.scene.autocast = None
            self._args, self._kwargs, self._first = args[1:], kwargs, _sequence()
            if self._patient:
                self._brief, self._waits = self._keeper.brief(args[0], self._args, kwargs), True  # type: ignore[union-attr]
            else:
                recorder.busy = True
                for _, method in self._kept["before_forward"]:
                    method(recorder.scene, args[0], self._args, kwargs)
            self._at, self.noted = INSIDE, True
        except Exception as error:  # as in Observer.told
            self._failed(error)
            return False
        finally:
            recorder.busy = False
            if self._timed:
                self._begun = now = clock()
                self._tally += now - begun + recorder.detour_s
        return True

    def leave(self, output: Any) -> bool:
        if self._at != INSIDE:
            return False
        self._ended = begun = clock()
        self._output, self._last, self._at = output, _sequence(), FORWARDED
        if not self._waits and self._kept["on_forward"]:
            self._forwarded(output)
        if self._timed:
            self._tally += clock() - begun + self._recorder.detour_s
        return True

    def _forwarded(self, output: Any) -> None:
        recorder, model = self._recorder, self._model() if self._model is not None else None
        if model is None:
            return
        recorder.busy = True
        try:
            serial = self._phases._serial + 1
            forward = Forward(serial, model, self._args, self._kwargs, output, TRAIN, True, model.training)
            recorder.hear(self._kept["on_forward"], "on_forward", (forward,))
        except Exception as error:  # as in Observer.told
            self._failed(error)
        finally:
            recorder.busy = False

    def loss(self, call: tuple[Any, ...]) -> bool:
        begun = clock() if self._timed else 0.0
        recorder, out = self._recorder, call[4]
        if (
            self._at != FORWARDED
            or recorder.busy
            or call[5] != self._site
            or not isinstance(out, Tensor)
            or not out.requires_grad
        ):
            return False
        if not self._waits:
            if not self._observer.free():
                return False
            try:
                for _, method in self._kept["on_call"]:
                    method(recorder.scene, *call)
            except Exception as error:  # as in Observer.told
                self._failed(error)
                return False
        self._call, self._at = call, LOSS
        if self._timed:
            self._tally += clock() - begun + recorder.detour_s
        return True

    def backward(self, root: Any) -> bool:
        begun = clock() if self._timed else 0.0
        recorder, step, loop, phases, args = self._recorder, self._stage.step, self._loop, self._phases, self._args
        alone = self._waits and self._at == LOSS and root is self._call[4]  # what torch's loss function gave, and no more
        if not alone and (self._at != (LOSS if self._site else FORWARDED) or type(root) is not Tensor or root.grad_fn is None):
            return False
        if recorder.busy or step.scaled:
            return False
        try:
            source = args[0] if args and type(args[0]) is Tensor else first_tensor(args, self._kwargs)
            size = source.shape[0] if source is not None and source.shape else 0
            value = look(root) if alone and root.numel() == 1 else peek(root)
            if value is None or not math.isfinite(value) or (size == 1 and self._stage.batch_norm):
                return False  # not to be known at once, or an event
            owner = loop._latest
            param = owner.sentinel() if owner is not None and owner.sentinel is not None else None
            if param is not None and param.grad is not None and loop.uncleared():
                self.misses -= 1  # no sign of another loop
                return False
            if not self._updates._gate.takes(value):
                return False
            phases._glimpsed(source, value)
            if phases._loader is None and size:
                self._forwards += 1
                self._samples += size
            if alone:
                self._root, self.noted = root, False
            else:
                self._tell_at_once(root)
        except Exception as error:  # as in Observer.told
            self._failed(error)
            return False
        loop._backwards += 1
        step.backwards += 1
        recorder.scene.clipped = None
        self._loss, self._at = value, BACKWARD
        if self._timed:
            self._tally += clock() - begun + recorder.detour_s
        if recorder.scene.world > 1:
            self._back = clock()
        return True

    def _tell_at_once(self, root: Tensor) -> None:
        """The keeper hears of a step that cannot wait."""
        self._testify()
        for _, method in self._kept["on_backward"]:
            method(self._recorder.scene, root)
        self._drop()

    def backward_ended(self) -> bool:
        if self._at != BACKWARD:
            return False
        self._at = DONE
        if self._recorder.scene.world > 1:
            self._waited = clock() - self._back
        return True

    # -- around the update

    def clipped(self, norm: Any, limit: Any, kind: Any) -> bool:
        begun, recorder, loop = clock(), self._recorder, self._loop
        if (
            self._at != DONE
            or recorder.busy
            or type(norm) is not Tensor
            or type(limit) not in (float, int)
            or "clip" not in loop._lines.known
        ):
            return False
        value = peek(norm)
        if value is None or value - value or self._observer.thread != _thread():  # not to be known at once, or not finite
            return False
        self._stage.step.clips += 1
        loop._expected_touch, row = True, recorder._row
        row["clip/norm"], row["clip/threshold"] = value, float(limit)
        if kind == 2.0:
            recorder.scene.clipped = value
            row |= grad_norm(recorder.scene)
        if self._timed:
            self._tally += clock() - begun + recorder.detour_s
        return True

    def scheduled(self, scheduler: Any) -> bool:
        begun, recorder = clock(), self._recorder
        if recorder.busy or id(scheduler) not in self._loop._objects or self._observer.thread != _thread():
            return False
        self._stage.step.scheduler_steps += 1
        if self._timed:
            self._tally += clock() - begun + recorder.detour_s
        return True

    # -- the update

    def steps(self, optimizer: Any, closure: Any) -> bool:
        if self._at != DONE or closure is not None or self._primary() is not optimizer:
            return False
        begun = clock() if self._timed else 0.0
        recorder = self._recorder
        try:
            if self._stage.step.backwards != 1 or self._bad(recorder.scene, optimizer):
                self._go_at_length()
                return False
        except Exception as error:  # as in Observer.told
            self._failed(error)
            return False
        if self._timed:
            self._tally += clock() - begun + recorder.detour_s
        return True

    def _go_at_length(self) -> None:
        """A gradient is bad, or another backward followed: the update is told at length, with what is known of its loss."""
        step, phases = self._stage.step, self._phases
        step.losses.append(Micro(self._updates._site, self._loss, 1.0, self._site))
        step.forwards += 1
        step.data_s += phases._fetch_s
        phases._fetch_s = 0.0
        self._testify()
        self._patches.lane = None
        self._drop()

    def stepped(self, optimizer: Any) -> bool:
        if self._at != DONE or self._primary() is not optimizer:
            return False
        now = clock()
        recorder = self._recorder
        recorder.busy = True
        try:
            self._close(optimizer, now)
        except Exception as error:  # as in Observer.told
            self._failed(error)
        finally:
            recorder.busy = False
        return True

    def _close(self, optimizer: Any, now: float) -> None:
        stage, recorder, phases = self._stage, self._recorder, self._phases
        scene, step, left = recorder.scene, stage.step, self._left
        took = now - stage.last_end if stage.last_end is not None else 0.0
        owner = self._loop._latest
        param = owner.sentinel() if owner is not None and owner.sentinel is not None else None
        grad = None if param is None or owner is not self._owner else param.grad
        if owner is None or grad is None:
            self._loop._step_ended(optimizer)
        else:  # the same in short
            self._again += 1
            owner.backwards, owner.grad = self._loop._backwards, (id(grad), grad._version)
            owner.waits, owner.stale, owner.cleared = True, False, False
        lr = optimizer.param_groups[0].get("lr")
        if type(lr) is not float or lr != self._updates._last_lr:
            self._updates._lr(optimizer)
            lr = None
        data_s = step.data_s + phases._fetch_s
        if step.clips or step.scheduler_steps or step.zero_grads or step.eval_s or step.checkpoint_s or step.data_s:
            took -= step.eval_s + step.checkpoint_s
            self._loop.aside(step)
            if step.clips:
                recorder._row["loop/clips"] = step.clips
            step = stage.step = Step()
        if scene.world > 1:
            waited = self._waited + (self._ended - self._begun if scene.waits_in_forward else 0.0)
            recorder._row["time/own"] = max(took - waited - self._cost - recorder.spent_s, 0.0)
        phases._fetch_s, step.backwards, stage.last_end = 0.0, 0, now
        waited_for, self._at = self._waits, OUTSIDE
        self.noted = self._waits = False
        self._args = self._call = ()
        self._kwargs, self._output, self._brief, self._root = _NONE, None, None, None
        row, tensors, asked = recorder._row, recorder._tensors, clock() if self._timed else now
        last = bool(scene.world > 1 or recorder.on_step or tensors or not waited_for or len(left) + 1 >= SETTLE)
        last = last or (len(left) > 0 and now - left[0][1] > SETTLE_S)
        if last:
            begun = clock()
            recorder.tell("after_step", optimizer)  # memory and kept graphs grow on such steps, too
            recorder.spent_s += clock() - begun
        if self._timed:
            self._cost, self._tally = self._tally + asked - now + 4 * recorder.detour_s, 0.0
        if row or tensors:
            recorder._row, recorder._tensors = {}, []
        else:
            row, tensors = _NONE, []
        own_s = self._cost + recorder.spent_s
        left.append((scene.step, now, took, own_s, data_s, self._loss, lr, scene.epoch, row, tensors))
        recorder.spent_s, self._timed = 0.0, False
        scene.step += 1
        if last:
            self._go_on(clock())

    def _go_on(self, now: float) -> None:
        """Settle, and decide how closely to look at the next step."""
        self.settle()
        self._recorder.look_ahead(now)
        if self._recorder.scene.full:
            self.misses, self._patches.lane = 0, None
            self._stage.set_view()
        else:
            self._lane.open()
        self._timed = True
        self._recorder.spent_s += clock() - now

    def settle(self) -> None:
        """Write down what the latest steps have left behind."""
        if not self._left:
            return
        left, self._left = self._left, []
        recorder, governor = self._recorder, self._recorder.governor
        self._loop.stepped_again(self._primary(), self._again)
        self._again = 0
        now, wall = clock(), time.time()
        for step, at, took_s, own_s, data_s, loss, lr, epoch, row, tensors in left:
            row = {**row, "loss/train": loss, "epoch": float(epoch), "time/step": max(took_s, 0.0), "time/data": data_s}
            row["time/traindx"] = own_s
            if lr is not None:
                row["lr"] = lr
            for listener in recorder.on_step:
                listener(step, row)
            recorder.post.send(step, row, tensors, wall - (now - at))
            governor.account(step, took_s, own_s, False)
            self._loop.spent(took_s, data_s, own_s)

    def _failed(self, error: Exception) -> None:
        self._lane.shut()
        super()._failed(error)
