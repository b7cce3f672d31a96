"""The ordinary step in short: one forward of the known model, one loss, one backward, noted and taken as read.

While a step goes as the steps before it, what `Phases` would find out about it is known already. The lane keeps references
and times only, and hands them on in one go when the backward begins. When the step turns out otherwise (a second forward, a
loss from another line, no backward, a loss that is not finite) everything noted is told as if it had happened just now, and
the step goes on at length.

While the governor is owing (steps so short that even this is more than the budget), the step is only glimpsed: its loss and
one gradient are looked at, its learning rate and time are recorded, the witness keeps what the forensics need, no more.
"""

from __future__ import annotations

import math
import time
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from traindx.measures import peek
from traindx.probe import TRAIN, Forward
from traindx.probes.passes import Pass, divisor, first_tensor, node_of
from traindx.probes.recorder import Listeners
from traindx.probes.replicas import due
from traindx.probes.step import Micro, Step

if TYPE_CHECKING:
    from traindx.probes.attach import Observer, Patches

clock = time.perf_counter
_grad_enabled, _autocasting = torch.is_grad_enabled, torch._C._is_any_autocast_enabled
_graph_task = torch._C._current_graph_task_id
_sequence = torch._C._autograd._get_sequence_nr
MISSES = 8  # steps in a row that did not go as usual: then the lane stays shut until the next full step
INDIFFERENT = frozenset({"zero_grad", "zero_grad_ended", "backward_called", "noted", "clipped", "scheduled"})
# where in the step it is: nothing noted, inside the forward, after it, after the loss, inside the backward, done
OUTSIDE, INSIDE, FORWARDED, LOSS, BACKWARD, DONE = range(6)


class Lane:
    """One observer's short way through ordinary steps; `Patches.lane` is the one that is open."""

    def __init__(self, observer: Observer, patches: Patches) -> None:
        story = observer.story
        self._observer, self._patches, self._recorder = observer, patches, observer.recorder
        self._stage, self._phases, self._updates, self._loop = story.stage, story.phases, story.updates, story.loop
        self.key = 0  # id of the model
        self._model: weakref.ref[nn.Module] | None = None
        self.noted = False  # something waits to be told
        self._at = OUTSIDE
        self._usual: Any = None
        self._site = ""  # of the loss call; empty when the loss is written by hand
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._output: Any = None
        self._call: tuple[Any, ...] = ()
        self._first = self._last = self._batch = self._misses = 0
        self._begun = self._ended = 0.0
        self._before: Listeners = ()
        self._after: Listeners = ()
        self._after_fresh: Listeners = ()
        self._heard: Listeners = ()
        self._always: dict[str, Listeners] = {}  # those who are asked of glimpsed steps, too
        self._skipped: Listeners = ()
        self._glimpse = False  # this step
        self._loss = 0.0
        self._back = self._waited = 0.0  # when a glimpsed step's backward began, and how long it took
        self._unseen = self._unseen_samples = 0

    # -- opening and closing

    def plan(self, step: Step) -> None:
        """An update is complete: will the next one be an ordinary one?"""
        self._drop()
        patches, stage, scene = self._patches, self._stage, self._stage.scene
        patches.lane = None
        if scene.full:
            self._misses = 0
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
            or self._misses >= MISSES
        ):
            return
        if self._usual is not usual:
            self._aim(usual)
        if self._model is not None:
            patches.lane = self
            self._choose()

    def _choose(self) -> None:
        """Whether the next step is only glimpsed."""
        scene = self._recorder.scene
        met = scene.world > 1 and due(scene.step)  # all ranks look at this one, so that they can be compared
        self._glimpse = self._recorder.governor.owing and not met

    def _aim(self, usual: Any) -> None:
        (sites, (model,)), _ = usual
        self._usual, self.key, self._model = usual, model, self._stage._outermost.get(model)
        self._site = sites[0] if sites else ""
        self._before = self._recorder._ordinary["before_forward"][0]
        self._after = self._recorder._ordinary["on_forward"][0]
        self._after_fresh = tuple(one for one in self._after if "on_forward" not in one[0].wakes)
        self._heard = self._recorder._ordinary["on_call"][0]
        moments = ("before_forward", "on_forward", "on_call", "on_backward")
        self._always = {m: tuple(one for one in self._recorder._ordinary[m][0] if one[0].always) for m in moments}
        self._skipped = self._recorder._lean["on_skipped"]

    def _drop(self) -> None:
        self.noted, self._at = False, OUTSIDE
        self._args, self._kwargs, self._output, self._call = (), {}, None, ()

    def shut(self) -> None:
        """Never again in this run."""
        self._drop()
        self._misses, self._model, self._patches.lane = MISSES, None, None

    def flush(self) -> None:
        """Tell what was noted as if it happened now."""
        at, args, kwargs, output, call = self._at, self._args, self._kwargs, self._output, self._call
        model = self._model() if self._model is not None else None
        glimpsed, self._glimpse = self._glimpse, False
        self._drop()
        if model is None:
            return
        if glimpsed:
            self._pass_over(first_tensor(args, kwargs))
        self._misses += 1
        self._patches.lane = None
        phases = self._phases
        phases.forward_begins(model, args, kwargs, (self._begun, self._first), True)
        if at >= FORWARDED:
            phases.forward_ends(model, args, kwargs, output, (self._ended, self._last), True)
        if at >= LOSS:
            name, module, given, named, out, site = call
            phases.loss_called(name, module, given, named, out, site, True)

    # -- what the taps bring

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """The model is called; whether it is taken in short."""
        phases, recorder = self._phases, self._recorder
        if self._model is None or self._model() is not args[0]:
            return False
        if self._at != OUTSIDE or not _grad_enabled() or _autocasting() or _graph_task() != -1 or not self._observer.free():
            return False
        loader = phases._loader
        if phases._passes or phases._pending or phases._forced or phases._evaluations._open is not None:
            return False
        if loader is not None and not loader.train:
            return False
        begun = clock()
        recorder.busy = True
        try:
            scene = recorder.scene
            scene.autocast = None
            if self._unseen and not self._glimpse:
                recorder.hear(self._skipped, "on_skipped", (self._unseen, self._unseen_samples))
                self._unseen = self._unseen_samples = 0
            for _, method in self._always["before_forward"] if self._glimpse else self._before:
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
        """It has returned; False when the lane was left meanwhile."""
        model = self._model() if self._model is not None else None
        if self._at != INSIDE or model is None:
            return False
        self._ended = begun = clock()
        recorder, phases = self._recorder, self._phases
        recorder.busy = True
        try:
            self._output, self._last, self._at = output, _sequence(), FORWARDED
            if self._glimpse:
                listeners = self._always["on_forward"]
            else:
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

    def failed(self) -> None:
        """The forward or the backward raised: nothing of it is worth telling."""
        self._drop()

    def loss(self, call: tuple[Any, ...]) -> bool:
        """A loss function returned: (name, module, args, kwargs, output, site)."""
        begun = clock()
        recorder, out = self._recorder, call[4]
        if self._at != FORWARDED or call[5] != self._site or not isinstance(out, Tensor) or not out.requires_grad:
            return False
        if not self._observer.free():
            return False
        if not self._glimpse and recorder.listeners("on_loss"):  # a probe wants it at length: no sign of another loop
            self._misses -= 1
            return False
        self._call, self._at = call, LOSS
        try:
            for _, method in self._always["on_call"] if self._glimpse else self._heard:
                method(recorder.scene, *call)
        except Exception as error:  # as in Observer.told
            self._failed(error)
        recorder.spent_s += clock() - begun + recorder.detour_s
        return True

    def backward(self, root: Any) -> bool:
        """A backward is about to begin; whether it is taken in short."""
        model = self._model() if self._model is not None else None
        if self._at != (LOSS if self._site else FORWARDED) or type(root) is not Tensor or model is None:
            return False
        begun = clock()
        source = first_tensor(self._args, self._kwargs)
        alone = bool(self._call) and root is self._call[4]
        value = peek(root)
        if value is None or not math.isfinite(value) or root.grad_fn is None or self._recorder.busy:
            return False
        if self._stage.batch_norm and source is not None and source.dim() and source.shape[0] == 1:
            return False
        if self._glimpse:
            try:
                return self._glimpsed(root, value, alone, source, begun)
            except Exception as error:  # as in Observer.told
                self._failed(error)
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
        """It is done; False when it was not taken in short."""
        if self._at != BACKWARD:
            return False
        self._at = DONE
        if self._glimpse:
            self._waited = clock() - self._back
            return True
        begun = clock()
        self._stage.step.backward_s += begun - self._updates._begun
        self._loop._backward_ended()
        self._recorder.spent_s += clock() - begun + self._recorder.detour_s
        return True

    def cleared(self) -> None:
        """Gradients are about to be cleared, and no mode is on."""
        if not self._glimpse:
            self._stage.step.zero_grads += 1
        self._recorder.spent_s += self._recorder.detour_s

    # -- steps that are only glimpsed

    def _glimpsed(self, root: Tensor, value: float, alone: bool, source: Tensor | None, begun: float) -> bool:
        step, updates = self._stage.step, self._updates
        whole = value if alone else value * divisor(root)
        if step.scaled or updates._gate.abnormal(whole):
            return False
        updates._gate.z(whole)
        self._phases._evaluations.trained(whole)
        self._phases._glimpsed(source)
        self._pass_over(source)
        for _, method in self._always["on_backward"]:
            method(self._recorder.scene, root)
        self._drop()
        self._loop._backwards += 1
        step.backwards += 1
        self._loss, self._at, self._back = whole, BACKWARD, clock()
        self._recorder.spent_s += clock() - begun + self._recorder.detour_s
        return True

    def _pass_over(self, source: Tensor | None) -> None:
        """Count the samples of a batch that no probe has looked at and no loader has counted."""
        if self._phases._loader is None and source is not None and source.dim():
            self._unseen += 1
            self._unseen_samples += int(source.shape[0])

    def steps(self, optimizer: Any, closure: Any) -> bool:
        """An optimizer's step begins; whether it is only glimpsed."""
        if not self._glimpse or self._at != DONE or closure is not None or self._stage.primary is not optimizer:
            return False
        begun = clock()
        recorder = self._recorder
        recorder.busy = True
        try:
            if self._updates._grad_gate.bad(recorder.scene, optimizer):
                self._unglimpse()
                return False
        except Exception as error:  # as in Observer.told
            self._failed(error)
            return False
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - begun + recorder.detour_s
        return True

    def _unglimpse(self) -> None:
        """A gradient is bad: the update to come is told at length, with what is known of its loss."""
        step, phases = self._stage.step, self._phases
        step.losses.append(Micro(self._updates._site, self._loss, 1.0, self._site))
        step.forwards += 1
        step.data_s += phases._fetch_s
        phases._fetch_s = 0.0
        self._glimpse, self._patches.lane = False, None
        self._drop()

    def stepped(self, optimizer: Any) -> bool:
        """It is over: record what there is."""
        if not self._glimpse or self._at != DONE or self._stage.primary is not optimizer:
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
        stage, recorder, phases, row = self._stage, self._recorder, self._phases, self._recorder._row
        step, last = stage.step, stage.last_end
        took = now - last if last is not None else 0.0
        aside = step.eval_s + step.checkpoint_s
        self._loop._step_ended(optimizer)
        lr = optimizer.param_groups[0].get("lr")
        if type(lr) is float and lr == self._updates._last_lr:
            row["lr"] = lr
        else:
            self._updates._lr(optimizer)
        data_s = step.data_s + phases._fetch_s
        row["loss/train"], row["epoch"] = self._loss, float(recorder.scene.epoch)
        row["time/step"], row["time/data"], row["time/traindx"] = max(took - aside, 0.0), data_s, recorder.spent_s
        if recorder.scene.world > 1:
            waited = self._waited + (self._ended - self._begun if recorder.scene.waits_in_forward else 0.0)
            row["time/own"] = max(took - aside - waited - recorder.spent_s, 0.0)
        self._loop._sum(took - aside, data_s, step)
        if step.clips:
            row["loop/clips"] = step.clips
        phases._fetch_s, step.backwards = 0.0, 0
        if step.clips or step.scheduler_steps or step.zero_grads or aside or step.data_s:
            stage.step = Step()
        stage.last_end = now
        recorder.tell("after_step", optimizer)  # memory and kept graphs grow on such steps, too
        recorder.close_step({}, took, aside)
        self._at = OUTSIDE
        if recorder.scene.full:
            self._misses, self._glimpse, self._patches.lane = 0, False, None
            stage.set_view()
        else:
            self._choose()

    def _failed(self, error: Exception) -> None:
        self.shut()
        self._recorder.failed("recorder", "lane", error)
