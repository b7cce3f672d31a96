"""Steps that are skipped: the originals stand in every place that a step goes through, but for a handful.

What is left are the loader's next batch, the call of the outermost model (its inputs are kept, so that the step can be made
again), `backward`, clipping by norm and the optimizer's own hooks. Each is one short function: it notes the loss, looks at one
gradient, and leaves the rest alone; what was noted is written down many steps at a time. As soon as a step goes otherwise (a
loss that is not finite or leaps, gradients that were not cleared, one more backward, an evaluation), the taps are put back,
what was noted is told as if it happened just now, and the step continues at length.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import utils
from torch.nn.utils import clip_grad

from traindx import innards
from traindx.measures import NUMBERS
from traindx.probe import Keeper, Noted
from traindx.probes.follow.left_out import broken
from traindx.probes.follow.step import Micro, Step, mean_loss
from traindx.probes.read.common.passes import first_tensor
from traindx.probes.read.machine.replicas import due

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Hears, Patches
    from traindx.probes.follow.follower import Follower

clock = time.perf_counter
Function = Callable[..., Any]
OUTSIDE, INSIDE, FORWARDED, BACKWARD, DONE = range(5)  # nothing noted, in the forward, after it, in the backward, after that
# reports that change nothing about the steps: heard next to them; and those of functions that a script has bound by name
ALONGSIDE = frozenset(
    {
        *("noted", "on_metric", "on_columns", "printed", "seeded", "saved", "read", "on_loader_end", "on_batch"),
        *("scaled", "unscaled", "scaler_steps", "scaler_updated"),
    }
)
UNHEARD = frozenset(
    {
        *("zero_grad", "scheduled", "loss_called", "loss_failed", "grad_begins", "grad_ends", "module_called", "squashed"),
        *("attention_called", "activation_called", "scalar_read", "compared", "scored", "diverged", "dropped", "nan_replaced"),
        *("forward_begins", "forward_ends", "forward_failed", "clipped_value"),
    }
)
SETTLE, SETTLE_S = 64, 0.25  # so many steps, or so many seconds, are settled in one go: what a kill may take with it
MISSES = 8  # skipped steps in a row that went otherwise: then none is skipped until the next look
MOST_CALLS = 64  # of the model in one step that are kept, to make the step again
TAPS = 8  # calls of ours in a skipped step that no clock of ours sees
_sequence = innards.sequence_nr
_graph_task = innards.graph_task
_grad_enabled, _autocasting = torch.is_grad_enabled, innards.autocasting
_modes, _dispatch_modes = innards.function_modes, innards.dispatch_modes
_interpreters = innards.interpreters
_random_state = torch.default_generator.get_state
_thread = threading.get_ident
_new = tuple.__new__  # a note without a call of Python
NAMES = ("loss/train", "epoch", "time/step", "time/data", "time/traindx")
RATED = (*NAMES, "lr")
CLIPPED = ("clip/norm", "clip/threshold", "loop/clips")


_READ = {kind: number.from_address for kind, number in NUMBERS.items()}


class Skip:
    """One observer's way through steps that are not looked at; `Patches.skip` while one is on the way."""

    DONE = DONE

    def __init__(self, observer: Hears, follower: Follower, patches: Patches) -> None:
        self.observer, self._patches, self._recorder = observer, patches, observer.recorder
        self._stage, self._phases, self._updates, self._loop = follower.stage, follower.phases, follower.updates, follower.loop
        self.bad_gradient, self._takes = self._updates.grad_gate.bad, self._updates.loss_gate.takes
        self.models: dict[int, Callable[[], nn.Module | None]] = {}  # that a step goes through, by id
        self._keeper: Keeper | None = None
        self._draws: dict[int, bool] = {}  # whose forward draws random numbers
        self.primary: Callable[[], Any] = type(None)  # the optimizer whose steps these are
        self._owner: Any = None  # what the loop knows of it
        self._sentinel: Callable[[], Any] = type(None)  # the parameter whose gradient tells whether it was cleared
        self.template: list[Micro] = []  # the backwards of a step as the latest that was told had them
        self._misses = 0
        self._per = 1  # forwards to a backward
        self._acted = -1  # the latest step with a forward that nobody can go back through
        self._until = 0  # the next step that is not skipped
        self.loader: Any = None  # whose batches are trained on
        self.fetched, self.fetch_s = 0, 0.0  # batches that the phases have not counted, and the wait for the latest
        self.batch: Any = None  # the loader's, of the step on the way
        self.counts = False  # batches are only counted; in the dense start the probes hear of them, too
        self.at = OUTSIDE
        self.stepping = False  # the optimizer's step is on the way
        self._calls: list[Noted] = []  # of the model, since the last backward
        self._ends: list[tuple[Any, float, int]] = []  # what they gave, when, and autograd's number then
        self._root: Tensor | None = None
        self._told = False  # the keeper knows of the step on the way
        self.losses: list[Any] = []
        self._passes = 0  # forwards of the step on the way
        self._clip: tuple[float, float, bool] | None = None  # norm before clipping, limit, whether it is the 2-norm
        self._clips = 0
        self.clipped_finite = False
        self._fed: weakref.ref[Tensor] | None = None  # what the latest forward was given
        self._waited = 0.0  # for other ranks
        self._own_s = TAPS * self._recorder.detour_s  # of a skipped step that no clock of ours sees
        self._steps = self._forwards = self._samples = 0  # that nobody has counted yet
        # step, when, how long it took, what of that was ours, what it waited for data; loss, rate, epoch, clip, clips
        self._left: list[tuple[Any, ...]] = []
        self._taps: list[Any] = []
        self._recorder.behind.append(self.settle)

    @property
    def kinds(self) -> set[type]:
        """Classes of the known models."""
        return self._stage.kinds

    # -- beginning and ending

    def decide(self, step: Step) -> None:
        """An update was told at length: is the next one skipped?"""
        scene = self._stage.scene
        if scene.full:
            self._misses = 0
        elif self._recorder.plan.skips(scene.step) and self._misses < MISSES and self._usual(step):
            self._begin(step)

    def _usual(self, step: Step) -> bool:
        """Whether the loop is one that the few taps left can follow."""
        usual, stage, scene, modules = self._phases.usual, self._stage, self._stage.scene, self._patches.modules
        if usual is None or not usual[0][1] or scene.compiled or scene.every_norm:
            return False
        if not 1 <= len(step.losses) == step.backwards <= step.forwards or len(stage.optimizer_refs) != 1:
            return False
        if len(self._patches.observers) != 1 or modules is None or modules.wide or modules.stopped:
            return False
        if _modes() or _dispatch_modes():
            return False
        if scene.world > 1 and due(scene.step):  # all ranks look at this one, so that they can be compared
            return False
        loader, keys = self._phases.loader, set(usual[0][1])
        models = [stage.outermost[key]() for key in keys if key in stage.outermost]
        known = [model for model in models if model is not None]
        if len(known) < len(keys) or self._phases.forced or (loader is not None and not loader.train):
            return False
        if not all(model.training for model in known) and self._loop.doubted("asleep"):
            return False
        keepers = [probe for probe, _ in self._recorder.ordinary["on_backward"][0] if isinstance(probe, Keeper) and probe.on]
        self._keeper = keepers[0] if len(keepers) == 1 else None
        if len(keepers) > 1 or (keepers and not all(keepers[0].patient(model) for model in known)):
            return False
        owner = self._loop.owners.get(id(stage.primary))
        if owner is None or owner.sentinel is None or self._loop.latest is not owner:
            return False
        self.models, self._owner, self._sentinel = {key: stage.outermost[key] for key in keys}, owner, owner.sentinel
        self.loader = loader.ref() if loader is not None else None
        return True

    def _begin(self, step: Step) -> None:
        models, patches = [model for ref in self.models.values() if (model := ref()) is not None], self._patches
        self.primary = weakref.ref(self._stage.primary)
        self.template = [replace(micro, value=0.0) for micro in step.losses]
        if self._keeper is not None:
            self._keeper.untold = self._testify
            self._draws = {id(model): self._keeper.draws(model) for model in models}
        plan, at = self._recorder.plan, self._stage.scene.step
        self._until, self.counts = plan.next(at), not plan.dense(at)
        self._per = len(self._phases.usual[0][1]) if self._phases.usual is not None else 1
        self._forget()
        if not self._taps:
            clips = [(owner, "clip_grad_norm_", self._clips_with) for owner in (clip_grad, utils)]
            self._taps = [(torch.autograd, "backward", self._goes_back), *clips]
        patches.rest({type(model) for model in models}, self._called, self._taps)
        patches.skip = self

    def wake(self) -> None:
        """Put the taps back; what is noted of the step on the way is told now."""
        at, self._patches.skip = self.at, None
        self._patches.stir(self.kinds)
        self._testify()
        self.settle()
        self._phases.caught_up(self.fetched, self.fetch_s)
        calls, ends, losses = self._calls, self._ends, self.losses
        passes, clip = self._passes, self._clip
        self._stage.step.clips += self._clips
        self._forget()
        if clip is not None:
            self._recorder.take({"clip/norm": clip[0], "clip/threshold": clip[1]}, "loop")
            self._recorder.scene.clipped = clip[0] if clip[2] else None
        if at == OUTSIDE:
            return
        self._misses += 1
        step = self._stage.step
        step.losses.extend(replace(micro, value=value) for micro, value in zip(self.template, losses))
        step.backwards += len(losses)
        step.forwards += passes - (len(calls) if at < BACKWARD else 0)
        for i, call in enumerate(calls if at < BACKWARD else ()):
            self._phases.forward_begins(call.model, call.args, call.kwargs, (call.begun, call.first), True)
            if i < len(ends):
                self._phases.forward_ends(call.model, call.args, call.kwargs, None, ends[i][1:], True)

    def _forget(self) -> None:
        self.at, self._calls, self._ends, self._root, self.batch = OUTSIDE, [], [], None, None
        self.losses, self._passes, self._clip, self._clips, self._told = [], 0, None, 0, False
        self.clipped_finite = False
        self.fetched, self.fetch_s, self.stepping = 0, 0.0, False

    def _testify(self) -> None:
        """Tell the keeper what it has not been told."""
        told, self._told = self._told, True
        self._recorder.scene.drawn = self._patches.drawn
        if not told and self._calls and self._keeper is not None:
            try:
                self._keeper.recall(self._calls, [end[0] for end in self._ends], self.batch, self._root)
            except Exception as error:  # as in Observer.told
                self._recorder.failed(type(self._keeper).__name__, "recall", error)

    def otherwise(self) -> None:
        """The step goes otherwise than the ones before it."""
        recorder = self._recorder
        if recorder.busy or self._patches.skip is not self:
            return
        recorder.busy = True
        try:
            self.wake()
        except Exception as error:  # as in Observer.told
            self.failed(error)
        finally:
            recorder.busy = False

    def failed(self, error: Exception) -> None:
        self._misses = MISSES
        if self._patches.skip is self:
            self._patches.skip = None
            self._patches.stir(self.kinds)
        self._forget()
        self._recorder.failed("recorder", "skip", error)

    def beside(self, what: str, args: tuple[Any, ...]) -> bool:
        """Whether a report is heard while steps continue being skipped."""
        if what == "scaler_stepped":
            return self.at == OUTSIDE  # or else the scaler has left the update out
        if what == "loaded":
            return isinstance(args[0], nn.Module) and id(args[0]) not in self.models  # a target network, or an average
        if what != "on_loader":
            return what in ALONGSIDE
        note = self._phases.loaders.get(id(args[0]))
        known = self.at == OUTSIDE and note is not None and note.ref() is args[0] and note.train > 0
        if known:
            self.settle()
            self._phases.caught_up(self.fetched, 0.0)
            self.fetched, self.loader = 0, args[0]
        return known

    # -- the taps: one frame each

    def _called(self, original: Function) -> Function:
        skip, patches, scene, stage = self, self._patches, self._recorder.scene, self._stage
        evaluations = self._phases.evaluations

        def __call__(*args: Any, **kwargs: Any) -> Any:
            mine = False
            try:
                known = skip.models.get(id(args[0]))
                outermost = known is not None and known() is args[0] and skip.at != INSIDE and patches.skip is skip
                if outermost and skip.observer.thread == _thread() and _graph_task() == -1 and _interpreters() is None:
                    try:
                        one: Any = args[1] if len(args) == 2 and not kwargs else None
                        versions: tuple[Any, ...]
                        if type(one) is Tensor and not one.is_inference():
                            versions = (one._version,)
                        else:
                            one = first_tensor(args[1:], kwargs)
                            versions = skip._keeper.versions(args[1:], kwargs) if skip._keeper is not None else ()
                        size = one.shape[0] if one is not None and one.dim() else 0
                        if not _grad_enabled():
                            if size in patches.acts:
                                return original(*args, **kwargs)
                            before, skip._acted = skip._acted, scene.step
                            if scene.step - before > 1 and evaluations.listens:  # one after each update acts, or teaches
                                skip.otherwise()
                        elif skip.at == BACKWARD or _modes() or _dispatch_modes() or (size == 1 and stage.batch_norm):
                            skip.otherwise()
                        else:
                            if skip.at == DONE:  # another micro-batch, another loss
                                skip._calls, skip._ends, skip._told, skip._root = [], [], False, None
                            elif skip.at == FORWARDED and len(skip._ends) >= skip._per:
                                skip._leave_out()
                            if len(skip._calls) < MOST_CALLS:
                                random = _random_state() if skip._draws.get(id(args[0]), True) else None
                                autocast = innards.autocast() if _autocasting() else None
                                call = (args[0], args[1:], kwargs, versions, random, autocast, clock(), _sequence())
                                skip._calls.append(_new(Noted, call))
                            if skip.loader is None:
                                skip._samples += size
                            skip._fed = None if one is None else weakref.ref(one)
                            skip._passes += 1
                            skip.at, mine = INSIDE, True
                    except Exception as own:  # as in Observer.told
                        skip.failed(own)
                    if patches.skip is not skip:
                        return type(args[0]).__call__(*args, **kwargs)
                out = original(*args, **kwargs)
                if mine and skip.at == INSIDE:
                    skip.at = FORWARDED
                    if len(skip._ends) < MOST_CALLS:
                        skip._ends.append((out, clock(), _sequence()))
                return out
            except BaseException as error:
                if mine and skip.at == INSIDE:
                    skip._forget()
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise

        return __call__

    def _leave_out(self) -> None:
        """Another forward begins, and no backward has followed the latest: the script leaves its batch out."""
        broke = any(broken(end[0]) for end in self._ends) or None
        self._phases.left.count(broke)
        if broke is None:  # why is known of steps that are looked at
            self._recorder.plan.alarm(self._recorder.scene.step)
        self._calls, self._ends = [], []

    def _usual_loss(self, root: Any) -> bool:
        """A backward begins; whether it is one as usual."""
        losses = self.losses
        if self.at != FORWARDED or type(root) is not Tensor or not root.requires_grad or root.numel() != 1:
            return False
        if len(losses) >= len(self.template):
            return False
        plain = self._loop.unscaled_loss(root) if self._stage.step.scaled else root
        if plain is None:
            return False
        if not plain.is_cpu:
            loss: Any = plain.detach().clone()
        elif plain.dtype in _READ:
            loss = _READ[plain.dtype](plain.data_ptr()).value
            if loss - loss:  # not finite
                if self._recorder.lost_at < 0:
                    return False
            elif not self._takes(loss):  # an event
                return False
            else:
                self._recorder.lost_at = -1
        else:  # half precision: it cannot be read without an operation
            return False
        if not losses:
            param = self._sentinel()
            grad = None if param is None else param.grad
            stays = grad is not None and self._owner.grad == (id(grad), grad._version)
            if param is None or (stays and self._loop.doubted("uncleared")):
                self._misses -= 1  # no sign of another loop
                return False
        losses.append(loss)
        self._loop.backwards += 1
        self._recorder.scene.clipped = None
        self._root, self.at = root, BACKWARD
        return True

    def _goes_back(self, original: Function) -> Function:
        skip, patches, scene = self, self._patches, self._recorder.scene

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            usual = False
            try:
                if skip.observer.thread == _thread() and patches.skip is skip and _graph_task() == -1:
                    try:
                        usual = skip._usual_loss(tensors)
                        if not usual:
                            skip.otherwise()
                    except Exception as own:  # as in Observer.told
                        skip.failed(own)
                    if patches.skip is None:
                        return torch.autograd.backward(tensors, *args, **kwargs)
                begun = clock() if scene.world > 1 else 0.0
                out = original(tensors, *args, **kwargs)
            except BaseException as error:
                if usual:
                    patches.report("backward_failed", error)
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise
            if usual and patches.skip is skip and skip.at == BACKWARD:
                skip.at = DONE
                skip._waited += clock() - begun if begun else 0.0
                last = len(skip.losses) == len(skip.template) and not skip._stage.step.scaled and skip._recorder.lost_at < 0
                if last and skip.bad_gradient(scene, skip.primary()):
                    skip.otherwise()
                    skip._updates.broke = True
            elif usual:
                patches.report("backward_ends")
            return out

        return backward

    def _clips_with(self, original: Function) -> Function:
        skip, patches, loop, stage = self, self._patches, self._loop, self._stage
        known = stage.lines.known

        def clip_grad_norm_(*args: Any, **kwargs: Any) -> Any:
            try:
                out = original(*args, **kwargs)
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise
            if skip.observer.thread == _thread():
                limit: Any = args[1] if len(args) > 1 else kwargs.get("max_norm")
                kind = args[2] if len(args) > 2 else kwargs.get("norm_type", 2.0)
                if patches.skip is skip and skip.at == DONE and type(out) is Tensor and type(limit) in (float, int):
                    norm: Any = None
                    if not out.is_cpu:
                        norm = out.detach().clone()  # it travels with the loss
                    elif out.dtype in _READ:
                        norm = _READ[out.dtype](out.data_ptr()).value
                    if "clip" in known and norm is not None and (type(norm) is not float or norm - norm == 0.0):
                        second = kind == 2.0 and (stage.step.unscaled or not stage.step.scaled)
                        skip._clip, loop.expects_touch = (norm, float(limit), second), True
                        skip.clipped_finite = type(norm) is float
                        skip._clips += 1
                        return out
                skip.otherwise()
                patches.report("clipped", out, limit, kind)
            return out

        return clip_grad_norm_

    def stepped(self, optimizer: Any, now: float) -> None:
        """It is over."""
        recorder, stage, owner, updates, phases = self._recorder, self._stage, self._owner, self._updates, self._phases
        scene, losses, left, step = recorder.scene, self.losses, self._left, stage.step
        param = self._sentinel()
        grad = None if param is None else param.grad
        owner.backwards, owner.grad = self._loop.backwards, None if grad is None else (id(grad), grad._version)
        lr, before = optimizer.param_groups[0].get("lr"), updates.last_lr
        if type(lr) is float and type(before) is float and 0.7 * before < lr < 1.4 * before:
            updates.last_lr = lr
        elif type(lr) is Tensor or lr != before:
            updates.take_rate(optimizer)
            lr = recorder.row.pop("lr", None)
        took = now - stage.last_end if stage.last_end is not None else 0.0
        data_s, phases.fetch_s = self.fetch_s + phases.fetch_s, 0.0
        left.append((scene.step, now, took, recorder.spent_s, data_s, losses[0], lr, scene.epoch, self._clip, self._clips))
        stage.last_end, self._forwards = now, self._forwards + self._passes
        scene.step += 1
        self._steps += 1
        self.at, self.stepping, self.losses, self._passes, self._misses = OUTSIDE, False, [], 0, 0
        step.scaled = step.unscaled = False
        self._clip, self._clips, self.clipped_finite, self.fetch_s, recorder.spent_s = None, 0, False, 0.0, 0.0
        self._calls, self._ends, self._root, self.batch, self._told = [], [], None, None, False
        over = scene.step >= self._until or recorder.plan.until >= scene.step
        more = recorder.row or recorder.tensors or recorder.on_step or step.eval_s or step.checkpoint_s or len(losses) > 1
        full = len(left) >= SETTLE or now - left[0][1] > SETTLE_S
        if over or more or full or scene.world > 1 or type(losses[0]) is not float:
            self._pause(optimizer, losses, now, over)

    def _pause(self, optimizer: Any, losses: list[Any], now: float, over: bool) -> None:
        """A step is over after which there is more to do: the rest of its row, what waits to be written, or a look."""
        recorder, stage = self._recorder, self._stage
        recorder.busy = True
        try:
            if len(losses) > 1:
                told = mean_loss([replace(micro, value=value) for micro, value in zip(self.template, losses)])
                self._left[-1] = (*self._left[-1][:5], told, *self._left[-1][6:])
            self._apart()
            recorder.tell("after_step", optimizer)  # memory and kept graphs grow on such steps, too
            self.settle()
            recorder.look_ahead(now)
            if over:
                self.wake()
                stage.set_view()
        except Exception as error:  # as in Observer.told
            self.failed(error)
        finally:
            recorder.busy = False
            recorder.spent_s += clock() - now

    def _apart(self) -> None:
        """A step that has more to say than a few numbers is sent by itself."""
        recorder, step = self._recorder, self._stage.step
        world, loss = recorder.scene.world, self._left[-1][5]
        aside_s = step.eval_s + step.checkpoint_s
        if not (recorder.row or recorder.tensors or recorder.on_step or aside_s or world > 1 or isinstance(loss, Tensor)):
            return
        number, at, took, own_s, data_s, *rest = self._left.pop()
        self.settle()
        took = max(took - aside_s, 0.0)
        own_row, tensors = recorder.row, recorder.tensors
        recorder.row, recorder.tensors = {}, []
        row = own_row | dict(zip(*self._values((number, at, took, own_s, data_s, *rest))))
        away = [(name, value) for name, value in row.items() if isinstance(value, Tensor)]
        tensors = [*tensors, *away]
        for name, _ in away:
            del row[name]
        if world > 1:
            row["time/own"] = max(took - self._waited - own_s, 0.0)
            self._waited = 0.0
        self._loop.aside(step)
        self._loop.spent(took, data_s, own_s)
        recorder.costs.account(number, took, own_s, False)
        self._stage.step = Step()
        for listener in recorder.on_step:
            listener(number, row)
        recorder.post.send(number, row, tensors, time.time() - (clock() - at))
        self._counted([loss] if isinstance(loss, float) else [])

    def _values(self, one: tuple[Any, ...]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """What a skipped step has left behind, as signals."""
        _, _, took, own_s, data_s, loss, lr, epoch, clip, clips = one
        names: tuple[str, ...] = NAMES
        values: tuple[Any, ...] = (loss, float(epoch), took, data_s, own_s + self._own_s)
        if lr is not None:
            names, values = RATED, (*values, lr)
        if clip is not None:
            norm, limit, second = clip
            names, values = (*names, *CLIPPED), (*values, norm, limit, float(clips))
            if second:
                names, values = (*names, "grad_norm"), (*values, norm)
        return names, values

    def settle(self) -> None:
        """Write down what the latest steps have left behind."""
        left, self._left = self._left, []
        if not left:
            return
        recorder, ago = self._recorder, time.time() - clock()
        blocks: dict[tuple[str, ...], list[Any]] = {}
        for one in left:
            names, values = self._values(one)
            blocks.setdefault(names, []).append((one[0], one[1] + ago, values))
        took, own_s, data_s = (sum(one[i] for one in left) for i in (2, 3, 4))
        own_s += len(left) * self._own_s
        recorder.costs.account(left[0][0], took, own_s, False, len(left))
        self._loop.spent(took, data_s, own_s)
        self._counted([one[5] for one in left])
        for names, rows in blocks.items():
            recorder.post.block(names, rows)

    def _counted(self, losses: list[float]) -> None:
        """Tell the others how many steps there were."""
        self._loop.stepped_again(self.primary(), self._steps)
        self._phases.skipped(losses, self._forwards, self._fed)
        if self._samples:
            recorder = self._recorder
            recorder.hear(recorder.lean["on_skipped"], "on_skipped", (self._forwards, self._samples))
        self._steps = self._forwards = self._samples = 0
