"""Which pass is training and which is validation: loss calls wait until a backward claims them or the moment has passed."""

from __future__ import annotations

import math
import time
import weakref
from bisect import bisect_left, bisect_right
from typing import Any

import torch
from torch import Tensor, nn

from traindx import innards
from traindx.probe import OTHER, TRAIN, VAL, Forward, LossCall
from traindx.probes.follow.evaluation_spans import ACTING, Evaluations
from traindx.probes.follow.left_out import LeftOut
from traindx.probes.follow.loop import Loop
from traindx.probes.follow.models import SEARCH_STEPS, Stage
from traindx.probes.read.common import losses, sites
from traindx.probes.read.common.names import module_names
from traindx.probes.read.common.passes import Loader, Pass, Pending, first_tensor, node_of, reached, scalar
from traindx.probes.read.data.feeds import describe

clock = time.perf_counter
_sequence = innards.sequence_nr
Args = tuple[Any, ...]
PATIENCE = 2  # backwards after which a pass that none of them went through is given up
WAITING = 256  # loss calls that may wait for a backward: an evaluation that builds graphs must not pile up


class Phases:
    """Follows batches, forwards and losses."""

    def __init__(self, stage: Stage, loop: Loop) -> None:
        self._stage, self._loop = stage, loop
        self._recorder, self._scene = stage.recorder, stage.scene
        self.evaluations = Evaluations(stage)
        self.left = LeftOut(stage.recorder)
        self.loaders: dict[int, Loader] = {}
        self.loader: Loader | None = None
        self.barren = ""  # a loader that was gone through and gave nothing, in words
        self._pending: list[Pending] = []
        self._inside: list[tuple[Pending, bool, str]] = []  # loss calls of the forward under way
        self._passes: list[Pass] = []  # since the last backward
        self._latest: Pass | None = None
        self._open: tuple[nn.Module, float, int, bool, bool] | None = None  # the outermost forward under way
        self._serial = self._batch = self._calls = 0
        self._leaving = False  # the loader has ended, but its last batch is still to be used
        self._trained = -1  # the batch that was trained on last
        self._fed: weakref.ref[Tensor] | None = None  # what the latest pass that was trained on was given
        self._sites: set[str] = set()  # lines whose losses were trained on
        self.fetch_s = 0.0
        self.forced = False  # inside dx.validation()
        self._names: tuple[int, dict[int, str]] = (-1, {})
        self.usual: tuple[Any, list[bool]] | None = None  # what the last backward that was walked looked like
        self._squashed: tuple[weakref.ref[Tensor], str] | None = None  # the latest softmax or sigmoid, and its line
        self._makers: dict[int, tuple[weakref.ref[Tensor], str]] = {}  # who made which tensor, of the forward under way

    # -- data

    def loader_made(self, loader: Any) -> None:
        """A loader was constructed."""
        self._stage.lines.makes(loader)

    def on_loader(self, loader: Any) -> None:
        """An iteration begins."""
        note = self._note(loader)
        old = self.loader
        if old is not None and old is not note and old.batches and (thing := old.ref()) is not None:
            self._recorder.tell("on_loader_end", thing, False)
        note.epochs += 1
        note.begun = True
        note.batches = note.passes = 0
        note.ahead = self._leaving = False
        self.loader, self._scene.loader = note, loader
        self._stage.patches.acts = frozenset()
        if note.phase == TRAIN:
            self._scene.epoch = note.epochs - 1
            self._stage.passed()
            self._stage.begins_pass()
            self._recorder.event("epoch", {"index": note.epochs - 1})
        self._recorder.tell("on_loader", loader, note.phase)

    def on_loader_end(self, loader: Any, complete: bool) -> None:
        """An iteration is over."""
        note = self._note(loader)
        if complete and not note.begun:
            self._recorder.event("loader_dry", {})
        elif complete and not note.batches:
            about = describe(loader)
            self.barren = (
                f"a loader gave no batch ({about['dataset']} of {about['samples']} samples, "
                f"batch_size={about['batch_size']}, drop_last={about['drop_last']})"
            )
        note.batches, note.begun = 0, note.begun and not complete
        self._leaving = note.ahead and self.loader is note
        self.loader = note if self._leaving else None
        self._recorder.tell("on_loader_end", loader, complete)

    def on_batch(self, loader: Any, batch: Any, begun: float, ended: float) -> None:
        """A batch was fetched."""
        note = self._note(loader)
        self.loader, self._scene.loader = note, loader
        self._scene.drawn = self._stage.patches.drawn
        note.batches += 1
        self._batch += 1
        self._leaving = False
        self.fetch_s += ended - begun
        self.evaluations.fetched_at = begun
        if self._stage.last_end is None:
            self._stage.last_end = begun
        self._recorder.tell("on_batch", batch, VAL if self.forced else note.phase)

    def _note(self, loader: Any) -> Loader:
        note = self.loaders.get(id(loader))
        if note is None or note.ref() is not loader:
            note = self.loaders[id(loader)] = Loader(loader)
        return note

    # -- forward

    def forward_begins(
        self,
        module: nn.Module,
        args: Args,
        kwargs: dict[str, Any],
        noted: tuple[float, int] | None = None,
        known: bool = False,
    ) -> None:
        """An outermost module is called; `noted`: it was, then and at that autograd number; `known`: the probes know."""
        now, first = noted or (clock(), 0)
        grad = torch.is_grad_enabled()
        self._serial += 1
        if self._scene.full:
            self._makers.clear()
            self._stage.patches.deep = grad and self._guess(grad) == TRAIN
            self._loop.notes_precision()
        if grad and self._passes and self._passes[-1].training:
            self.left.look_back(self._passes[-1])
        if self._stage.last_end is None:
            self._stage.last_end = now
        if not known:
            self._recorder.tell("before_forward", module, args, kwargs)
        if noted is None:
            first = _sequence()
        self._open = (module, now, first, grad or noted is not None, module.training)

    def forward_failed(self, module: nn.Module, error: BaseException) -> None:
        """It raised."""
        self._open, self._inside = None, []
        self._stage.patches.deep = False

    def forward_ends(
        self,
        module: nn.Module,
        args: Args,
        kwargs: dict[str, Any],
        output: Any,
        noted: tuple[float, int] | None = None,
        known: bool = False,
    ) -> None:
        """It returned."""
        ended, last = noted or (clock(), _sequence())
        self._stage.patches.deep = False
        if self._open is None or self._open[0] is not module:
            return
        _, begun, first, grad, training = self._open
        self._open = None
        phase, loader = self._guess(grad), self.loader
        source = first_tensor(args, kwargs)
        if phase == VAL and not grad and loader is None and not self.forced and self._training_on(source):
            phase = OTHER
        samples = int(source.shape[0]) if source is not None and source.dim() else 0
        if source is not None and not grad and source.dim() == 1 and source.is_floating_point():
            samples = 1  # features of one sample: a policy at work
        node = node_of(source)
        this = Pass(self._serial, id(module), phase, grad, training, samples, loader, first, last, begun, ended, node)
        this.batch = self._batch if loader is not None else 0
        if loader is not None:
            loader.passes += 1
            loader.ahead = loader.ahead or (loader.passes == 1 and loader.batches == 2)
            if self._leaving:
                self.loader, self._leaving = None, False
        this.fed = weakref.ref(source) if source is not None else None
        if "forward" not in self._stage.lines.known:
            this.line = sites.line()
        self._latest = this
        self._stage.saw(module)
        if phase == VAL and not grad:
            if loader is None:
                this.place = sites.way()
            if loader is None and (named := self.evaluations.asks) is not None:
                this.remembered = self._scene.remembered(args, kwargs, named)
            self.evaluations.forward(this)
        else:
            if len(self._passes) > WAITING:
                self._give_up(self._passes.pop(0))
            self._passes = [*self._passes, this]
            if grad and training:
                self.left.returns(output)
            self._stage.step.data_s += self.fetch_s
            if samples == 1 and training and grad and self._stage.batch_norm:
                self._recorder.event("batch_size_one", {})
        self.fetch_s = 0.0
        self._scene.phase = phase
        if self._inside:
            inside, self._inside = self._inside, []
            for waiting, with_graph, guess in inside:
                waiting.of = this
                self._wait(waiting, with_graph, guess)
        if known:
            return
        listeners = self._recorder.listeners("on_forward", phase == TRAIN and (loader is None or loader.train > 0))
        if listeners:
            forward = Forward(this.serial, module, args, kwargs, output, phase, grad, training)
            self._recorder.hear(listeners, "on_forward", (forward,))

    def _guess(self, grad: bool) -> str:
        loader = self.loader
        if self.forced:
            return VAL
        if grad:
            return VAL if loader is not None and loader.phase == VAL else TRAIN
        if loader is not None and (self._trained == self._batch or any(p.batch == self._batch for p in self._passes)):
            return OTHER  # a second look at a batch that is being trained on: teacher, target, metric
        return VAL

    def _training_on(self, source: Tensor | None) -> bool:
        """Whether this very tensor is what is being trained on: then the pass looks at the training data again."""
        fed = [self._fed, *(p.fed for p in self._passes[-4:] if p.grad)]
        return source is not None and any(r is not None and r() is source for r in fed)

    def module_called(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A module inside the outermost one returned (deep forwards only)."""
        version, names = self._names
        if version != self._scene.version:
            names = module_names(self._stage.models or [m for m in (self._open or (None,))[:1] if m is not None])
            self._names = (self._scene.version, names)
        name = names.get(id(module))
        if isinstance(output, Tensor):
            known = self._makers.get(id(output))
            if known is None or known[0]() is not output:  # the id of a tensor that is gone may be given again
                self._makers[id(output)] = (weakref.ref(output), name or "")
        if name is not None:
            self._recorder.tell("on_module", name, module, args, output)

    def attention_called(self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """An attention was computed in a deep forward."""
        self._recorder.tell("on_attention", kind, args, kwargs, output)

    def activation_called(self, kind: str, source: Any, output: Any) -> None:
        """A functional non-linearity in a deep forward; named after the layer whose output it takes."""
        if kind == "sigmoid":
            self.squashed(output)
        made = self._makers.get(id(source))
        if made is not None and made[0]() is source and made[1]:
            self._recorder.tell("on_activation", kind, made[1], output)

    def squashed(self, output: Any) -> None:
        """A softmax or sigmoid in a deep forward: which line made it, should a loss be given just that."""
        if "activation" not in self._stage.lines.known and isinstance(output, Tensor):
            self._squashed = (weakref.ref(output), sites.line())

    # -- losses

    def loss_called(
        self, name: str, module: Any, args: Args, kwargs: dict[str, Any], output: Any, site: str, known: bool = False
    ) -> None:
        """A loss function returned; `known`: the witnesses know."""
        if not known:
            self._recorder.tell("on_call", name, module, args, kwargs, output, site)
        if self._squashed is not None and args and self._squashed[0]() is args[0]:
            self._stage.lines.put("activation", self._squashed[1])
        grad = isinstance(output, Tensor) and output.requires_grad
        phase, of = self._loss_phase(grad)
        call, loader = None, self.loader
        listeners = self._recorder.listeners("on_loss", phase == TRAIN and (loader is None or loader.train > 0))
        if listeners:
            call = self._call(name, module, args, kwargs, output, site, phase)
            self._recorder.hear(listeners, "on_loss", (call,))
            call.args, call.kwargs, call.output = (), {}, None
        waiting = Pending(name, site, node_of(output), of, scalar(output), call)
        if not grad:
            waiting.summed = losses.summed_over(module, args, kwargs)
            waiting.targets = losses.counted(module, args, kwargs)
        if of is None and args and isinstance(args[0], Tensor) and args[0].dim():
            waiting.samples = int(args[0].shape[0])
        if self._open is not None:
            self._inside.append((waiting, grad, phase))  # belongs to the forward that is still running
        else:
            self._wait(waiting, grad, phase)

    def _wait(self, waiting: Pending, grad: bool, phase: str) -> None:
        if not grad:
            self._settle(waiting, phase)
            return
        self._pending.append(waiting)
        if len(self._pending) > WAITING:
            first = self._pending.pop(0)
            self._settle(first, VAL if self._validates(first) else OTHER)

    def loss_failed(self, name: str, module: Any, args: Args, kwargs: dict[str, Any], site: str, error: BaseException) -> None:
        """A loss function raised."""
        self._recorder.attempted |= torch.is_grad_enabled()
        phase, _ = self._loss_phase(torch.is_grad_enabled())
        self._recorder.tell("on_loss_error", self._call(name, module, args, kwargs, None, site, phase), error)

    def _call(self, name: str, module: Any, args: Args, kwargs: dict[str, Any], output: Any, site: str, phase: str) -> LossCall:
        self._calls += 1
        call = LossCall(self._calls, name, args, kwargs, output, phase, site, self._serial, torch.is_grad_enabled(), module)
        made = self._makers.get(id(args[0])) if args else None
        if made is not None and made[0]() is args[0]:
            call.producer = made[1]
        return call

    def _loss_phase(self, grad: bool) -> tuple[str, Pass | None]:
        if self.forced:
            return VAL, self._latest
        if self._open is not None:  # computed inside the model's own forward
            inside = self._open[3]
            return (self._guess(inside) if inside == grad else OTHER), None
        of = self._latest
        if of is None:
            return (TRAIN if grad else VAL), None
        if grad and not of.grad:  # its graph is another pass's: a teacher or a target network was asked since
            of = next((p for p in reversed(self._passes) if p.grad), of)
        return (of.phase if of.phase != TRAIN or grad else OTHER), of

    def _settle(self, waiting: Pending, phase: str) -> None:
        if phase == VAL:
            self.evaluations.loss(waiting, self._latest)
        if waiting.call is not None:
            waiting.call.phase = phase
            self._recorder.tell("on_settled", waiting.call, phase, training=False)

    # -- what a backward says about the past

    def claim(self, root: Tensor) -> Pending | None:
        """Settle what waits: calls and passes below `root` are training, others were not. Gives the call nearest to it."""
        waiting, self._pending = self._pending, []
        passes, self._passes, self._latest = self._passes, [], None
        shape = tuple(w.site for w in waiting), tuple(p.model for p in passes if p.grad)
        if self.usual is not None and self.usual[0] == shape and not self._scene.full:
            used, trained = self.usual[1], [p for p in passes if p.grad]
        else:
            used, trained = self._walk(root, waiting, [p for p in passes if p.grad])
            self.usual = (shape, used) if len(trained) == len(shape[1]) and all(used) else None
        nearest: Pending | None = None
        for w, mine in zip(waiting, used):
            if mine:
                self.evaluations.trained_with(w.name)
                self._sites.add(w.site)
                if nearest is None or w.node > nearest.node:
                    nearest = w
        for p in trained:
            self._train_pass(p)
            if p.left:  # it was only late
                self.left.count(p.broke, -1)
        for w, mine in zip(waiting, used):
            self._settle(w, TRAIN if mine else VAL if w.of not in trained and self._validates(w) else OTHER)
        if len(trained) < len(passes):
            self._pass_over(passes, trained, waiting)
        return nearest

    def _pass_over(self, passes: list[Pass], trained: list[Pass], waiting: list[Pending]) -> None:
        """A backward went through some of the passes and not through the others."""
        left = []
        for p in passes:
            if not p.grad or p in trained:
                continue
            p.passed_over += 1
            again = [t for t in trained if t.model == p.model]
            acts = p.loader is None and any(0 < ACTING * p.samples <= t.samples for t in again)
            if p.passed_over == 1 and acts:
                self.evaluations.acted()  # with a graph that nobody needs
            if p.training and again and not acts and not p.left:
                left.append(p)
            if p.loader is not None and not p.loader.train:
                p.phase = VAL
                self.evaluations.forward(p)
            elif p.passed_over < PATIENCE:  # fakes that the discriminator saw detached are trained through next
                self._passes.append(p)
        if left:
            self.left.passed_over(left, passes, waiting, self._scene)

    def _give_up(self, p: Pass) -> None:
        """No backward came for it for a long time, or ever."""
        if p.training and p.grad and not p.left and self._stage.trains(p.model):
            self.left.count(p.broke)

    def _walk(self, root: Tensor, waiting: list[Pending], passes: list[Pass]) -> tuple[list[bool], list[Pass]]:
        """Which calls and passes the graph below `root` goes through."""
        early = self._scene.step < SEARCH_STEPS
        floor = min((p.first for p in passes) if early else (p.last for p in passes), default=0)
        floor = min([floor, *(w.node for w in waiting if w.node >= 0)]) if waiting else floor
        found = reached(root, floor, 4096 if early else min(max(256, 64 * len(passes)), 4096))
        numbers, begins = sorted(found), [p.first for p in passes]
        below = [at < len(numbers) and numbers[at] < p.last for p in passes for at in [bisect_left(numbers, p.first)]]
        for i in range(len(passes) - 1, -1, -1):  # what fed a pass that was trained was trained too
            feeder = bisect_right(begins, passes[i].source) - 1 if below[i] else -1
            if feeder >= 0 and passes[i].source < passes[feeder].last:
                below[feeder] = True
        return [w.node in found for w in waiting], [p for p, mine in zip(passes, below) if mine]

    def skipped(self, losses: list[float], passes: int, fed: weakref.ref[Tensor] | None) -> None:
        """Updates of which almost nothing is kept (`skipped.py`)."""
        for loss in losses:
            self.evaluations.trained(loss)
        self._serial += passes
        self._latest, self._scene.phase = None, TRAIN
        self._fed = fed
        if self.loader is not None:
            self._trained = self._batch
            self.loader.train += passes

    def caught_up(self, batches: int, wait_s: float) -> None:
        """So many batches of the loader that is trained on came on skipped steps; the latest took so long to come."""
        if self.loader is not None and batches:
            self.loader.batches += batches
            self._batch += batches
            self.fetch_s += wait_s
            self.evaluations.fetched_at = clock()

    def _train_pass(self, p: Pass) -> None:
        p.phase = TRAIN
        self._trained, self._fed = p.batch, p.fed
        self._stage.led_to_a_loss(p.model)
        self._stage.lines.put("forward", p.line)
        if p.loader is not None:
            if not p.loader.train:
                self._recorder.event("epoch", {"index": p.loader.epochs - 1})
                self._stage.lines.feeds("loader", p.loader.ref())
            p.loader.train += 1
        self.evaluations.train_storage(p)
        step = self._stage.step
        step.forwards += 1
        step.forward_s += p.ended - p.begun
        step.eval_mode += not p.training

    def _validates(self, waiting: Pending) -> bool:
        """Whether a loss with a graph that no backward claimed was a validation.

        One that is not finite was skipped on purpose; one on the data that are being trained on, or from the very line that
        trains and in train mode, was left out for reasons of the script's own.
        """
        if isinstance(waiting.value, float) and not math.isfinite(waiting.value):
            return False
        of = waiting.of
        if of is None or (of.fed is not None and of.fed is self._fed):
            return False
        if of.loader is not None:
            return not of.loader.train
        return not (of.training and waiting.site in self._sites)

    # -- evaluations

    def scalar_read(self, tensor: Tensor, value: float, site: str) -> None:
        """The script read a number off a tensor."""
        if (
            self._scene.phase == VAL
            and self._open is None
            and not (tensor.requires_grad and self.evaluations.trained_on(value))
        ):
            self.evaluations.read(value, site, self._latest)

    def compared(self, one: Any, two: Tensor, out: Tensor) -> None:
        """Two tensors were compared while evaluating: predictions with labels, when there is one for every sample."""
        latest = self._latest
        if self._open is not None or self._scene.phase != VAL or latest is None or one is two or not isinstance(one, Tensor):
            return
        if out.dim() and one.shape == two.shape == out.shape and out.shape[0] == latest.samples:
            self.evaluations.compared(latest, scalar(out.sum().double()), out.numel())

    def metric_called(self, truth: Any, guess: Any, answers: bool) -> None:
        """A metric of a library was given labels and predictions: what made them was an evaluation, graphs or not."""
        if not self._stage.patches.scalars and not any(p.grad and not p.training for p in self._passes):
            return
        for p in [p for p in self._passes if p.grad and not p.training and p.loader is None and self._stage.trains(p.model)]:
            self._passes.remove(p)
            p.phase = VAL
            self.evaluations.forward(p)
        self.evaluations.answered(truth, guess, answers)

    def sampled(self) -> None:
        """Somebody draws from a distribution without gradients."""
        if self._scene.phase == VAL and self._open is None:
            self.evaluations.sampled()

    def printed(self, things: tuple[Any, ...]) -> None:
        """The script printed something while evaluating."""
        self.evaluations.printed(things)

    def validation_begins(self) -> None:
        """`with dx.validation():`"""
        self.forced = True
        self._stage.patches.acts = frozenset()

    def validation_ends(self) -> None:
        """The block is over, and so is the evaluation."""
        self.forced = False
        self.evaluations.end()

    def anew(self) -> None:
        """Another training begins."""
        self.evaluations.anew()
        self._sites.clear()

    def finish(self) -> None:
        """The program ends: what still waits was not trained on."""
        for waiting in self._pending:
            self._settle(waiting, VAL if self._recorder.started and self._validates(waiting) else OTHER)
        passes, self._passes = self._passes, []
        if passes:
            self.left.look_back(passes[-1])
        for p in passes:
            self._give_up(p)
        self._pending = []
        self.evaluations.finish()
