"""Makes sense of the order of calls: what the patched points report becomes phases, steps, epochs, evaluations and loop facts."""

from __future__ import annotations

import time
import weakref
from typing import Any

import torch
from torch import Tensor, nn

from traindx.measures import peek
from traindx.probe import OTHER, TRAIN, VAL, Evaluation, Forward, LossCall
from traindx.probes.names import unwrapped
from traindx.probes.phases import Loader, Pass, Pending, Tally, divisor, node_of, reached, scalar
from traindx.probes.recorder import Recorder

clock = time.perf_counter


class Step:
    """What happened since the last update."""

    __slots__ = (
        "backward_s", "backwards", "checkpoint_s", "clip_norm", "clip_threshold", "clips", "data_s", "eval_mode", "eval_s",
        "forward_s", "forwards", "losses", "optimizer_s", "scaled", "scheduler_steps", "stale", "unscaled", "zero_grads",
    )  # fmt: skip

    def __init__(self) -> None:
        self.forwards = self.backwards = self.zero_grads = self.scheduler_steps = self.clips = 0
        self.stale = self.eval_mode = 0
        self.data_s = self.forward_s = self.backward_s = self.optimizer_s = self.eval_s = self.checkpoint_s = 0.0
        self.losses: list[tuple[str, Any]] = []  # (site of the backward, undivided loss)
        self.clip_norm: Any = None
        self.clip_threshold: float | None = None
        self.scaled = self.unscaled = False


class Story:
    """The loop as it is being lived; every method is called under the recorder's guard."""

    def __init__(self, recorder: Recorder, *, models: list[nn.Module] | None = None, optimizers: list[Any] | None = None) -> None:
        self.recorder = recorder
        self.scene = recorder.scene
        self.given_models, self.given_optimizers = list(models or ()), list(optimizers or ())
        self.models: list[nn.Module] = list(self.given_models)
        self.optimizers: list[Any] = []
        self.step = Step()
        self.pending: list[Pending] = []
        self.tally: Tally | None = None
        self.loaders: dict[int, Loader] = {}
        self.passes: dict[int, Pass] = {}  # since the last update
        self.latest: Pass | None = None
        self.open: tuple[nn.Module, float, int, bool, bool] | None = None  # the outermost forward under way
        self.serial = self.batch_serial = self.backward_serial = self.call_serial = 0
        self.loader: Loader | None = None
        self.fetch_s = 0.0
        self.fetched_at = 0.0
        self.last_end: float | None = None
        self.stepped_at: dict[int, int] = {}  # optimizer → backward serial at its latest step
        self.left: dict[int, tuple[int, int]] = {}  # parameter → (id of grad, its version) just after the update
        self.losses_of: dict[int, list[tuple[str, Any]]] = {}
        self.inside_step: Any = None
        self.backwards_inside = 0
        self.step_begun = 0.0
        self.backward_begun = 0.0
        self.train_sites: set[str] = set()
        self.train_kinds: set[str] = set()
        self.unseen_models: list[weakref.ref[nn.Module]] = []
        self.noted: list[weakref.ref[nn.Module]] = []  # modules whose parameters() were asked for: likely the whole model
        self.train_storages: set[int] = set()
        self.usual: tuple[tuple[str, ...], int] | None = None  # loss sites and forwards of the last backward that was walked

    # -- data

    def on_loader(self, loader: Any) -> None:
        note = self._loader(loader)
        if self.loader is not None and self.loader is not note and self.loader.batches:
            old = self.loader.ref()
            if old is not None:
                self.recorder.tell("on_loader_end", old, False)
        note.epochs += 1
        note.batches = 0
        self.loader, self.scene.loader = note, loader
        if note.phase == TRAIN:
            self.scene.epoch = note.epochs - 1
            self.recorder.event("epoch", {"index": note.epochs - 1})
        self.recorder.tell("on_loader", loader, note.phase)

    def on_loader_end(self, loader: Any, complete: bool) -> None:
        note = self._loader(loader)
        note.batches = 0
        self.recorder.tell("on_loader_end", loader, complete)

    def on_batch(self, loader: Any, batch: Any, begun: float, ended: float) -> None:
        note = self._loader(loader)
        self.loader, self.scene.loader = note, loader
        note.batches += 1
        self.batch_serial += 1
        self.fetch_s += ended - begun
        self.fetched_at = begun
        if self.last_end is None:
            self.last_end = begun
        self.recorder.tell("on_batch", batch, note.phase)

    def _loader(self, loader: Any) -> Loader:
        note = self.loaders.get(id(loader))
        if note is None or note.ref() is not loader:
            note = self.loaders[id(loader)] = Loader(_ref(loader), id(getattr(loader, "dataset", loader)))
        return note

    # -- forward

    def forward_begins(self, module: nn.Module) -> None:
        now = clock()
        if self.last_end is None:
            self.last_end = now
        self.open = (module, now, torch._C._autograd._get_sequence_nr(), torch.is_grad_enabled(), module.training)
        self.serial += 1

    def forward_ends(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if self.open is None or self.open[0] is not module:
            return
        _, begun, first, grad, training = self.open
        self.open = None
        now = clock()
        samples, storage = _samples(args, kwargs)
        this = Pass(
            self.serial, id(module), self._guess(grad), grad, training, samples,
            self.batch_serial if self.fetch_s or self.loader else 0, self.loader, first, torch._C._autograd._get_sequence_nr(), begun, now,
            storage,
        )  # fmt: skip
        self.latest = self.passes[this.serial] = this
        if this.phase == VAL:
            self._evaluates(this)
        elif self.fetch_s:
            self.step.data_s += self.fetch_s
            self.fetch_s = 0.0
        self.unseen_models = [*self.unseen_models[-7:], weakref.ref(module)]
        self.scene.phase = this.phase
        if self.recorder.wants("on_forward"):
            self.recorder.tell("on_forward", Forward(this.serial, module, args, kwargs, output, this.phase, grad, training))

    def _guess(self, grad: bool) -> str:
        loader = self.loader
        if grad:
            return VAL if loader is not None and loader.phase == VAL else TRAIN
        if loader is not None and loader.train and self.passes and self._same_batch():
            return OTHER  # a second look at a batch that is being trained on: teacher, target, metric
        return VAL

    def _same_batch(self) -> bool:
        return any(p.batch == self.batch_serial and p.batch and p.phase == TRAIN for p in self.passes.values())

    # -- losses

    def loss_called(self, name: str, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any, site: str) -> None:
        self.call_serial += 1
        of = self.latest
        inside = self.open
        grad = isinstance(output, Tensor) and output.requires_grad
        if inside is not None:
            phase = self._guess(inside[3]) if inside[3] == grad or not inside[3] else OTHER
            of = None
        elif of is None:
            phase = TRAIN if grad else VAL
        else:
            phase = of.phase if of.phase != TRAIN or grad else OTHER
        call = LossCall(
            self.call_serial, name, args, kwargs, output, phase, site, self.serial, torch.is_grad_enabled(), module
        )  # fmt: skip
        self.recorder.tell("on_loss", call)
        value = scalar(output)
        call.args, call.kwargs, call.output = (), {}, None
        waiting = Pending(call, node_of(output), of, value)
        if grad:
            self.pending.append(waiting)
            if len(self.pending) > 256:  # an evaluation that builds graphs: nobody will call backward on these
                self._settle(self.pending.pop(0), VAL)
        else:
            self._settle(waiting, phase)

    def _settle(self, waiting: Pending, phase: str) -> None:
        waiting.call.phase = phase
        if phase == VAL:
            self._counts(waiting)
        self.recorder.tell("on_settled", waiting.call, phase)

    def _counts(self, waiting: Pending) -> None:
        """A validation loss: add it to the evaluation under way."""
        of = waiting.of or self.latest
        tally = self._evaluates(of) if of is not None else self._evaluation(0, clock())
        tally.ended = clock()
        wanted = not self.train_kinds or waiting.call.name in self.train_kinds
        if waiting.value is not None and wanted:
            samples = of.samples if of is not None else 1
            tally.values.append((waiting.value, max(samples, 1)))

    # -- evaluations

    def _evaluates(self, this: Pass) -> Tally:
        key = id(this.loader.ref()) if this.loader is not None else 0
        tally = self._evaluation(key, this.begun)
        if tally.last_pass != this.serial:
            tally.last_pass = this.serial
            e = tally.evaluation
            e.forwards += 1
            e.batches += 1
            e.samples += this.samples
            e.train_mode += this.training
            e.grad_enabled += this.grad
            if this.loader is not None:
                this.loader.val += 1
                e.loader = this.loader.ref()
        tally.ended = this.ended
        self.fetch_s = 0.0
        return tally

    def _evaluation(self, key: int, begun: float) -> Tally:
        if self.tally is not None and self.tally.key != key:
            self.end_evaluation()
        if self.tally is None:
            self.tally = Tally(Evaluation(self.scene.step), key, min(begun, self.fetched_at or begun), begun)
            self.recorder.tell("on_eval_begin", self.tally.evaluation)
        return self.tally

    def end_evaluation(self) -> None:
        """Close the evaluation under way, if any, and record it."""
        tally, self.tally = self.tally, None
        if tally is None:
            return
        evaluation = tally.evaluation
        evaluation.seconds = tally.ended - tally.begun
        evaluation.step = max(self.scene.step - 1, 0)
        self.step.eval_s += evaluation.seconds
        if not tally.values and evaluation.forwards < 1:
            return
        back = self.recorder.apart()
        on_train = evaluation.loader is not None and self._trains_on(evaluation.loader)
        reading = tally.reading()
        if on_train:
            reading = {"eval/train_in_eval": reading["loss/val"]} if "loss/val" in reading else {}
        self.recorder.take(reading)
        self.recorder.tell("on_eval_end", evaluation)
        back(evaluation.step)
        self.recorder.event(
            "evaluation", {"samples": evaluation.samples, "batches": evaluation.batches, "seconds": evaluation.seconds}
        )

    def _trains_on(self, loader: Any) -> bool:
        dataset = id(getattr(loader, "dataset", loader))
        return any(note.train and note.dataset == dataset for note in self.loaders.values())

    # -- backward

    def backward_begins(self, tensors: Any, site: str) -> None:
        root = tensors if isinstance(tensors, Tensor) else next((t for t in tensors if isinstance(t, Tensor)), None)
        self.backward_begun = clock()
        if root is None:
            return
        self._claim(root)
        self.end_evaluation()
        self.scene.phase = TRAIN
        if not self.step.backwards:
            self._first_backward()
        self.step.backwards += 1
        self.backward_serial += 1
        self.backwards_inside += self.inside_step is not None
        value = scalar(root)
        if value is not None:
            parts = divisor(root)
            self.scene.loss = root.detach()
            self.step.losses.append((site, value * parts if parts != 1.0 else value))
        self.recorder.tell("on_backward", root)

    def _first_backward(self) -> None:
        """Were the gradients of the last update still there, untouched?"""
        for param_id, (grad_id, version) in self.left.items():
            param = next((p for p in self.scene.params if id(p) == param_id), None)
            grad = None if param is None else param.grad
            if grad is not None and id(grad) == grad_id and grad._version == version:
                self.step.stale = 1

    def _claim(self, root: Tensor) -> None:
        """Settle the loss calls that wait: those below `root` are training; find the model on the first occasions."""
        waiting, self.pending = self.pending, []
        recent = [p for p in self.passes.values() if p.phase != OTHER and p.grad]
        oldest = min([w.node for w in waiting] + [p.first for p in recent], default=0)
        found = reached(root, oldest) if waiting or recent else set()
        trained = [p for p in recent if any(p.first <= n < p.last for n in found)]
        for w in waiting:
            if w.node in found:
                self.train_sites.add(w.call.site)
                self.train_kinds.add(w.call.name)
                self._settle(w, TRAIN)
            else:
                of = w.of
                self._settle(w, VAL if of is not None and of not in trained else OTHER)
        for this in trained:
            this.phase = TRAIN
            self.step.forwards += 1
            self.step.forward_s += this.ended - this.begun
            self.step.eval_mode += not this.training
            if this.loader is not None:
                this.loader.train += 1
            self._is_model(this.model)
        for this in [p for p in recent if p not in trained and p.serial < self.serial]:
            if this.phase == TRAIN:
                this.phase = VAL
                self._evaluates(this)
        self.passes = {}

    def _is_model(self, key: int) -> None:
        """The outermost module that led to a loss is a model of ours, from now on."""
        if any(id(m) == key for m in self.models):
            return
        module = next((m for r in self.unseen_models if (m := r()) is not None and id(m) == key), None)
        if module is None or self.given_models:
            return
        whole = [m for r in self.noted if (m := r()) is not None and any(s is module for s in m.modules())]
        model = max(whole, key=lambda m: sum(1 for _ in m.modules()), default=module)
        if all(m is not model for m in self.models):
            inner = {id(s) for s in model.modules()}
            self.models = [m for m in self.models if id(m) not in inner] + [model]
            self.recorder.refresh(self.models, self.optimizers)

    def backward_ends(self) -> None:
        self.step.backward_s += clock() - self.backward_begun
        if self.inside_step is not None and self.backwards_inside == 1:
            self._before(self.inside_step)

    # -- the update

    def step_begins(self, optimizer: Any, closure: bool) -> None:
        if self.given_optimizers and all(o is not optimizer for o in self.given_optimizers):
            return
        self.step_begun = clock()
        self.inside_step, self.backwards_inside = optimizer, 0
        if all(o is not optimizer for o in self.optimizers):
            self.optimizers.append(optimizer)
            self.recorder.refresh(self.models, self.optimizers)
        if not self.recorder.started:
            self.recorder.start()
        last = self.stepped_at.get(id(optimizer))
        if not closure:
            if last is not None and last == self.backward_serial:
                self.recorder.event("double_step", {})
            self._before(optimizer)

    def _before(self, optimizer: Any) -> None:
        self.recorder.tell("before_step", optimizer)

    def step_ends(self, optimizer: Any) -> None:
        if self.inside_step is not optimizer:
            return
        self.inside_step = None
        self.recorder.tell("after_step", optimizer)
        now = clock()
        self.step.optimizer_s += now - self.step_begun
        self.stepped_at[id(optimizer)] = self.backward_serial
        self._remember_grads(optimizer)
        self.losses_of[id(optimizer)] = self.step.losses
        if optimizer is self.optimizers[0]:
            self._close(optimizer, now)
        else:
            self.step.losses = []

    def _remember_grads(self, optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self.left[id(param)] = (id(param.grad), param.grad._version)
                    return

    def _close(self, optimizer: Any, now: float) -> None:
        step, groups = self.step, optimizer.param_groups
        row: dict[str, Any] = {}
        loss = _mean_loss(step.losses)
        if isinstance(loss, float):
            row["loss/train"] = loss
        elif loss is not None:
            self.recorder.take({"loss/train": loss})
        lr = groups[0]["lr"] if "lr" in groups[0] else None
        if isinstance(lr, Tensor):
            lr = peek(lr)
        if lr is not None:
            row["lr"] = float(lr)
        row["epoch"] = float(self.scene.epoch)
        took = now - self.last_end if self.last_end is not None else 0.0
        rest = took - step.data_s - step.forward_s - step.backward_s - step.optimizer_s - step.eval_s - step.checkpoint_s
        row.update({
            "time/step": took, "time/data": step.data_s, "time/forward": step.forward_s, "time/backward": step.backward_s,
            "time/optimizer": step.optimizer_s, "time/rest": max(rest, 0.0), "time/eval": step.eval_s,
            "time/checkpoint": step.checkpoint_s, "time/traindx": self.recorder.spent_s,
            "loop/forwards": step.forwards, "loop/backwards": step.backwards, "loop/zero_grads": step.zero_grads,
            "loop/stale_grads": step.stale, "loop/eval_mode": step.eval_mode, "loop/scheduler_steps": step.scheduler_steps,
            "loop/clips": step.clips,
        })  # fmt: skip
        self.step = Step()
        self.last_end = now
        self.recorder.close_step(row, took)

    def zero_grad(self) -> None:
        self.step.zero_grads += 1

    def finish(self) -> None:
        for waiting in self.pending:
            self._settle(waiting, VAL)
        self.pending = []
        for this in self.passes.values():
            if this.phase == TRAIN and this.grad and this.serial and self.recorder.started:
                this.phase = VAL
                self._evaluates(this)
        self.end_evaluation()


def _mean_loss(losses: list[tuple[str, Any]]) -> Any:
    """Mean over the micro-batches of one backward site, summed over sites."""
    if not losses:
        return None
    if len(losses) == 1:
        return losses[0][1]
    sites: dict[str, list[Any]] = {}
    for site, value in losses:
        sites.setdefault(site, []).append(value)
    return sum(sum(values) / len(values) for values in sites.values())


def _samples(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int]:
    """Samples in a forward's input (size of its first axis) and the address of its storage."""
    for thing in (*args, *kwargs.values()):
        tensor = thing if isinstance(thing, Tensor) else None
        if tensor is None and isinstance(thing, list | tuple | dict):
            inner = thing.values() if isinstance(thing, dict) else thing
            tensor = next((t for t in inner if isinstance(t, Tensor)), None)
        if tensor is not None and tensor.dim():
            return int(tensor.shape[0]), 0
    return 0, 0


class _Strong:
    """Stands in for a weak reference to what cannot have one."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __call__(self) -> Any:
        return self._thing


def _ref(thing: Any) -> Any:
    try:
        return weakref.ref(thing)
    except TypeError:
        return _Strong(thing)
