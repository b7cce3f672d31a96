"""The step that is only glimpsed: while more is owed than was earned, because steps are so short.

Its loss and one gradient are looked at, its learning rate and time are recorded, no more. In the middle of a training every
line of ours runs in cold caches, at a quarter of its speed; so next to nothing is done there. What the forensics need (the
keeper, `forensics/witness.py`) is kept here and told only when somebody asks, wherever the loss is a single call of torch;
and what a step leaves behind waits in a list until a handful of steps is settled in one go.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from traindx.probe import TRAIN, Forward, Keeper
from traindx.probes.passes import first_tensor
from traindx.probes.recorder import Listeners
from traindx.probes.replicas import due
from traindx.probes.step import Micro, Step
from traindx.probes.way import BACKWARD, DONE, FORWARDED, INSIDE, LOSS, Way, clock

if TYPE_CHECKING:
    from traindx.probes.attach import Observer, Patches
    from traindx.probes.lane import Lane

_sequence = torch._C._autograd._get_sequence_nr
SETTLE, SETTLE_S = 16, 0.25  # so many steps, or so many seconds, are settled in one go: what a kill may take with it


class _Left(NamedTuple):
    """What a glimpsed step leaves behind."""

    step: int
    at: float
    took_s: float
    own_s: float
    data_s: float
    row: dict[str, Any]
    tensors: list[Any]


class Glimpse(Way):
    """One observer's way through steps that there is no time to look at."""

    def __init__(self, observer: Observer, patches: Patches, lane: Lane) -> None:
        super().__init__(observer, patches)
        self._lane = lane
        self._keeper: Keeper | None = None
        self._kept: dict[str, Listeners] = {}  # the keeper's moments, for steps that cannot wait to be told
        self._patient = False  # the next step can
        self._waits = False  # this one does: what it is made of has not been told to the keeper
        self._brief: Any = None
        self._root: Tensor | None = None
        self._loss = 0.0
        self._back = self._waited = 0.0  # when the backward began, and how long it took
        self._forwards = self._samples = 0  # that no probe has looked at and no loader has counted
        self._left: list[_Left] = []
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
        if met or not self._recorder.governor.owing:
            return False
        model, keeper = self._model() if self._model is not None else None, self._keeper
        known = model is not None and bool(self._site) and not scene.compiled
        self._patient = known and keeper is not None and keeper.patient(model)
        return True

    def unseen(self) -> tuple[int, int]:
        """Forwards, and their samples, that went by since the last time this was asked."""
        out = self._forwards, self._samples
        self._forwards = self._samples = 0
        return out

    def _drop(self) -> None:
        super()._drop()
        self._waits, self._brief, self._root = False, None, None

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
        begun = clock()
        if not self._expected(args[0]):
            return False
        recorder = self._recorder
        try:
            recorder.scene.autocast = None
            self._args, self._kwargs, self._first = args[1:], kwargs, _sequence()
            if self._patient and self._keeper is not None:
                self._brief, self._waits = self._keeper.brief(args[0], self._args, kwargs), True
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
            self._begun = now = clock()
            recorder.spent_s += now - begun + recorder.detour_s
        return True

    def leave(self, output: Any) -> bool:
        if self._at != INSIDE:
            return False
        self._ended = begun = clock()
        recorder = self._recorder
        self._output, self._last, self._at = output, _sequence(), FORWARDED
        model = None if self._waits or self._model is None else self._model()
        if model is not None and self._kept["on_forward"]:
            recorder.busy = True
            try:
                serial = self._phases._serial + 1
                forward = Forward(serial, model, self._args, self._kwargs, output, TRAIN, True, model.training)
                recorder.hear(self._kept["on_forward"], "on_forward", (forward,))
            except Exception as error:  # as in Observer.told
                self._failed(error)
            finally:
                recorder.busy = False
        recorder.spent_s += clock() - begun + recorder.detour_s
        return True

    def loss(self, call: tuple[Any, ...]) -> bool:
        begun = clock()
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
        recorder.spent_s += clock() - begun + recorder.detour_s
        return True

    def backward(self, root: Any) -> bool:
        begun = clock()
        recorder = self._recorder
        source = first_tensor(self._args, self._kwargs)
        value = self._loss_of(root, source)
        if value is None or recorder.busy:
            return False
        try:
            if not self._take(root, value, source):
                return False
        except Exception as error:  # as in Observer.told
            self._failed(error)
            return False
        self._at, self._back = BACKWARD, clock()
        recorder.spent_s += self._back - begun + recorder.detour_s
        return True

    def _take(self, root: Tensor, value: float, source: Tensor | None) -> bool:
        step, phases = self._stage.step, self._phases
        alone = bool(self._call) and root is self._call[4]
        if step.scaled or not self._updates._gate.takes(value):
            return False
        phases._evaluations.trained(value)
        phases._glimpsed(source)
        if phases._loader is None:
            self._pass_over(source)
        if self._waits and alone:
            self._root, self.noted = root, False
        else:
            self._testify()
            for _, method in self._kept["on_backward"]:
                method(self._recorder.scene, root)
            self._drop()
        self._loop._backwards += 1
        step.backwards += 1
        self._loss = value
        return True

    def backward_ended(self) -> bool:
        if self._at != BACKWARD:
            return False
        self._at = DONE
        self._waited = clock() - self._back
        return True

    def cleared(self) -> None:
        self._recorder.spent_s += self._recorder.detour_s

    # -- the update

    def steps(self, optimizer: Any, closure: Any) -> bool:
        if self._at != DONE or closure is not None or self._stage.primary is not optimizer:
            return False
        begun = clock()
        recorder = self._recorder
        try:
            if self._stage.step.backwards != 1 or self._updates._grad_gate.bad(recorder.scene, optimizer):
                self._go_at_length()
                return False
        except Exception as error:  # as in Observer.told
            self._failed(error)
            return False
        finally:
            recorder.spent_s += clock() - begun + recorder.detour_s
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
        if self._at != DONE or self._stage.primary is not optimizer:
            return False
        begun = clock()
        recorder = self._recorder
        recorder.busy = True
        try:
            self._close(optimizer, begun)
        except Exception as error:  # as in Observer.told
            self._failed(error)
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - begun + 4 * recorder.detour_s
        return True

    def _close(self, optimizer: Any, now: float) -> None:
        stage, recorder, phases = self._stage, self._recorder, self._phases
        scene, step, row = recorder.scene, stage.step, recorder._row
        took = now - stage.last_end if stage.last_end is not None else 0.0
        self._loop._step_ended(optimizer)
        lr = optimizer.param_groups[0].get("lr")
        if type(lr) is float and lr == self._updates._last_lr:
            row["lr"] = lr
        else:
            self._updates._lr(optimizer)
        data_s = step.data_s + phases._fetch_s
        if step.clips or step.scheduler_steps or step.zero_grads or step.eval_s or step.checkpoint_s or step.data_s:
            took -= step.eval_s + step.checkpoint_s
            self._loop.aside(step)
            if step.clips:
                row["loop/clips"] = step.clips
            stage.step = Step()
        row["loss/train"], row["epoch"] = self._loss, float(scene.epoch)
        row["time/step"], row["time/data"] = max(took, 0.0), data_s
        if scene.world > 1:
            waited = self._waited + (self._ended - self._begun if scene.waits_in_forward else 0.0)
            row["time/own"] = max(took - waited - recorder.spent_s, 0.0)
        phases._fetch_s, stage.step.backwards, stage.last_end = 0.0, 0, now
        left, waited_for = self._left, self._waits
        self._drop()
        last = bool(scene.world > 1 or recorder.on_step or recorder._tensors or not waited_for or len(left) + 1 >= SETTLE)
        last = last or (len(left) > 0 and now - left[0].at > SETTLE_S)
        if last:
            recorder.tell("after_step", optimizer)  # memory and kept graphs grow on such steps, too
        left.append(_Left(scene.step, now, took, recorder.spent_s, data_s, row, recorder._tensors))
        recorder.next_step()
        if last:
            self._go_on(now)

    def _go_on(self, now: float) -> None:
        """Settle, and decide how closely to look at the next step."""
        self.settle()
        self._recorder.look_ahead(now)
        if self._recorder.scene.full:
            self.misses, self._patches.lane = 0, None
            self._stage.set_view()
        else:
            self._lane.open()

    def settle(self) -> None:
        """Write down what the latest steps have left behind."""
        if not self._left:
            return
        left, self._left = self._left, []
        recorder, governor = self._recorder, self._recorder.governor
        now, wall = clock(), time.time()
        for step, at, took_s, own_s, data_s, row, tensors in left:
            row["time/traindx"] = own_s
            for listener in recorder.on_step:
                listener(step, row)
            recorder.post.send(step, row, tensors, wall - (now - at))
            governor.account(step, took_s, own_s, False)
            self._loop.spent(took_s, data_s, own_s)

    def _failed(self, error: Exception) -> None:
        self._lane.shut()
        super()._failed(error)
