"""The task: what trials work on. Model, loss, data, and where there are any, optimizer, schedule and scaler.

task = Task(model, loss_fn, train_loader, val_loader, optimizer)
task = Task(model, loss=lambda model, batch: model(**batch).loss, train=loader)
"""

from __future__ import annotations

import copy
import inspect
import itertools
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from traindx.errors import TraindxError, TwinLeak, UsageError
from traindx.trials.recording import recorded
from traindx.trials.state import digest, generators, model_state, order_kept, random_kept, random_states, stateful

if TYPE_CHECKING:
    from traindx.trial import TrialKind

Batch = Any
Loss = Callable[[nn.Module, Batch], Tensor]
PACED = 6  # steps that are timed before a trial
TARGETS = ("labels", "label", "target", "targets", "y")
LOSSES = {
    "cross_entropy": nn.CrossEntropyLoss,
    "nll_loss": nn.NLLLoss,
    "mse_loss": nn.MSELoss,
    "l1_loss": nn.L1Loss,
    "smooth_l1_loss": nn.SmoothL1Loss,
    "binary_cross_entropy": nn.BCELoss,
    "binary_cross_entropy_with_logits": nn.BCEWithLogitsLoss,
}


@dataclass
class Task:
    """What trials work on.

    `loss_fn(output, target)` is adapted to batches that are pairs or dicts; `loss(model, batch)` says it outright. A model
    that gives its own loss (an output with `.loss`) needs neither.
    """

    model: nn.Module
    loss_fn: Callable[..., Tensor] | None = None
    train: Any = None
    val: Any = None
    optimizer: torch.optim.Optimizer | None = None
    scheduler: Any = None
    scaler: Any = None
    loss: Loss | None = None
    device: torch.device | str | None = None
    name: str = ""
    output: Callable[[nn.Module, Batch], Any] | None = None  # output(model, batch), where the model is not simply called
    base: Any = field(default=None, repr=False)  # the model or state_dict that a fine-tuning started from
    held: list[Batch] = field(default_factory=list, repr=False)  # training batches that experiments must not train on
    captured: bool = False  # made from a script's own steps: its data are the batches that were seen
    no_val: str = ""  # why a captured script has no validation data
    _drawn: dict[str, list[Batch]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise UsageError(f"a Task wants a torch.nn.Module as model, not {type(self.model).__name__}")
        if self.loss_fn is not None and not callable(self.loss_fn):
            raise UsageError("a Task wants a callable loss_fn(output, target), or loss=callable(model, batch)")
        self.loss_fn = _as_module(self.loss_fn)
        if self.device is None:
            first = next(itertools.chain(self.model.parameters(), self.model.buffers()), None)
            self.device = first.device if first is not None else torch.device("cpu")

    # -- the loss

    def loss_of(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of a batch under `model`, a scalar tensor with its graph."""
        loss = self._loss_of(model, to_device(batch, self.device))
        if isinstance(loss, Tensor) and loss.numel() != 1:
            raise UsageError(f"a training loss is one number; this one has the shape {tuple(loss.shape)} (reduction='none'?)")
        return loss

    def _loss_of(self, model: nn.Module, batch: Batch) -> Tensor:
        if self.loss is not None:
            return self.loss(model, batch)
        inputs, target = split(batch)
        if self.loss_fn is None:
            output = _call(model, batch if isinstance(batch, Mapping) else inputs)  # labels and all: it makes the loss
            own = getattr(output, "loss", None) if not isinstance(output, Mapping) else output.get("loss")
            if own is None:
                raise UsageError("the task has no loss: give loss_fn(output, target) or loss(model, batch)")
            return own
        return self.loss_fn(_main(_call(model, inputs)), target)

    def output_of(self, model: nn.Module, batch: Batch) -> Any:
        """What the model says to a batch."""
        if self.output is not None:
            return _main(self.output(model, to_device(batch, self.device)))
        return _main(_call(model, split(to_device(batch, self.device))[0]))

    # -- the data

    def batches(self, count: int, which: str = "train") -> list[Batch]:
        """The first `count` batches of a fresh pass, drawn once and kept; fewer when there are fewer.

        Validation data may be missing; without training data there is nothing to experiment on.
        """
        source = self.train if which == "train" else self.val
        if source is None and which != "train":
            return []
        have = self._drawn.get(which, [])
        if len(have) < count and not getattr(self, f"_{which}_done", False):
            if hasattr(source, "__next__"):
                raise UsageError(
                    "the task's data is an iterator, which a trial would use up; give a DataLoader or a list of batches"
                )
            with random_kept(seed=0), order_kept(source):
                have = list(itertools.islice(iter(() if source is None else source), count))
            self._drawn[which] = have
            if len(have) < count:
                setattr(self, f"_{which}_done", True)
        if not have and count and which == "train":
            raise UsageError("the task has no train data")
        return have[:count]

    def cycle(self, count: int, which: str = "train") -> Iterator[Batch]:
        """`count` batches, starting again at the first when there are fewer."""
        have = self.batches(min(count, 512), which)
        return itertools.islice(itertools.cycle(have), count)

    def probes(self, count: int = 4) -> list[Batch]:
        """Batches to judge by: validation data, else training batches that are held back, else the first ones."""
        return self.batches(count, "val") or self.held[:count] or self.batches(count)

    def samples(self, count: int) -> Batch:
        """One batch of `count` training samples, put together from as many batches as it takes and as fit the first."""
        parts: list[Batch] = []
        got = 0
        for batch in self.batches(max(8, count)):
            if parts and _layout(batch) != _layout(parts[0]):
                continue
            parts.append(batch)
            got += size_of(batch)
            if got >= count:
                break
        return take(_joined(parts), count)

    # -- safety

    def twin(self, seed: int = 0) -> AbstractContextManager[Twin]:
        """A copy to experiment on; when it is left, the original is compared with its earlier state, and any trace is an error."""
        return twin(self, seed)

    def pace(self) -> tuple[float, float]:
        """Seconds that a recorded twin takes to come and go, and seconds that a step takes on it."""
        from traindx.trials.recording import recording

        [batch] = self.batches(1)
        times = []
        with tempfile.TemporaryDirectory(prefix="traindx-") as folder, recording(Path(folder)):
            began = time.perf_counter()
            with self.twin() as twin:
                twin.model.train()
                for _ in range(PACED):
                    start = time.perf_counter()
                    loss = twin.loss(batch)
                    if loss.requires_grad:
                        loss.backward()
                    float(loss.detach())
                    if twin.optimizer is not None:
                        twin.optimizer.step()
                    times.append(time.perf_counter() - start)
            whole = time.perf_counter() - began
        step = statistics.median(times[1:])
        return max(whole - PACED * step, 0.0), step

    def shrink(self, samples: int = 64) -> Task:
        """The toy version first: the same task on a handful of samples."""
        small = take(self.samples(samples), samples)
        per = max(1, min(size_of(self.batches(1)[0]), samples // 2 or 1))
        parts = [take(small, per, start) for start in range(0, size_of(small), per)]
        return replace(self, train=parts, val=self.batches(2, "val") or None, _drawn={}, name=f"{self.name} (shrunk)")


def _as_module(loss_fn: Any) -> Any:
    """A loss of torch.nn.functional as the module it is: it says what it is, and it is seen when it is called."""
    func, given = (loss_fn.func, loss_fn.keywords) if isinstance(loss_fn, partial) and not loss_fn.args else (loss_fn, {})
    make = LOSSES.get(getattr(func, "__name__", ""))
    known = make is not None and getattr(func, "__module__", "") == "torch.nn.functional"
    return make(**given) if known and make is not None else loss_fn


def stated(kind: TrialKind, task: Task, limits: Mapping[str, Any]) -> tuple[str, float]:
    """What a trial will take on this task, before it starts, and in seconds; a task whose step cannot be made is the user's."""
    try:
        fixed, pace = task.pace()
    except TraindxError:
        raise
    except Exception as error:  # a device, dtype or shape error of the user's own
        from traindx.trials.faults import located

        raise UsageError(f"not even one step can be made: {located(error)}") from None
    seconds = 2 * fixed + pace * kind.most(**limits)
    said = f"{kind.name} takes {kind.cost(pace, seconds, **limits)}; it works on a copy, Ctrl-C ends it and nothing is changed"
    return said, seconds


NO_GRADIENT = "the loss has no gradient: it was detached, or nothing in the model is trainable"
OTHERS = 16  # batches that are looked at before a missing gradient is blamed on the model


def moving(task: Task) -> Batch:
    """A training batch whose gradient is not zero: the first one, unless it says nothing (no reward, all of it masked)."""
    batches = task.batches(OTHERS)
    for batch in batches:
        with task.twin() as twin:
            twin.model.train()
            loss = twin.loss(batch)
            if not loss.requires_grad:
                break
            loss.backward()
            if any(p.grad is not None and bool((p.grad != 0).any()) for p in twin.model.parameters()):
                return batch
    return batches[0]


def varied(task: Task, count: int) -> Batch:
    """`count` training samples, of which one has another target than the first wherever the first batches hold one.

    What a constant answer can learn proves nothing: two samples of one class are memorised by a bias alone.
    """
    batch = task.samples(count)
    if count < 2 or not one_target(batch):
        return batch
    first = split(batch)[1][:1]
    for other in (b for b in task.batches(OTHERS) if _layout(b) == _layout(batch)):
        differs = (split(other)[1] != first).reshape(size_of(other), -1).any(1)
        if bool(differs.any()):
            return _joined([take(batch, count - 1), take(other, 1, int(differs.int().argmax()))])
    return batch


def one_target(batch: Batch) -> bool:
    """Whether every sample has the same class or classes to answer."""
    target = split(batch)[1]
    whole = isinstance(target, Tensor) and target.ndim > 0 and not target.is_floating_point() and len(target) == size_of(batch)
    return whole and bool((target == target[:1]).all())


def to_device(batch: Any, device: Any) -> Any:
    """The batch with every tensor on `device`."""
    return apply(lambda t: t.to(device) if t.device != torch.device(device) else t, batch)


def apply(f: Callable[[Tensor], Tensor], batch: Any) -> Any:
    """`f` on every tensor of a nest."""
    if isinstance(batch, Tensor):
        return f(batch)
    if isinstance(batch, Mapping):
        made = {k: apply(f, v) for k, v in batch.items()}
        make: Any = type(batch)
        return make(made) if make is not dict else made
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(apply(f, v) for v in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(apply(f, v) for v in batch)
    return batch


def tensors(batch: Any) -> list[Tensor]:
    """Every tensor of a nest, in order."""
    found: list[Tensor] = []
    apply(lambda t: found.append(t) or t, batch)  # type: ignore[func-returns-value]
    return found


def size_of(batch: Any) -> int:
    """Samples in a batch: the most common first dimension."""
    firsts = [t.shape[0] for t in tensors(batch) if t.ndim]
    return max(set(firsts), key=firsts.count) if firsts else 1


def take(batch: Any, count: int, start: int = 0) -> Any:
    """`count` samples of the batch from `start` on."""
    n = size_of(batch)
    return apply(lambda t: t[start : start + count] if t.ndim and t.shape[0] == n else t, batch)


def permuted(batch: Any, order: Tensor) -> Any:
    """The batch with its samples in another order."""
    n = size_of(batch)
    return apply(lambda t: t[order] if t.ndim and t.shape[0] == n else t, batch)


def _layout(batch: Any) -> list[tuple[int, ...] | None]:
    """Shapes of a batch but for the number of samples: batches padded to another length cannot be put end to end."""
    return [tuple(t.shape[1:]) if t.ndim else None for t in tensors(batch)]


def _joined(parts: list[Any]) -> Any:
    """Batches of one layout put end to end."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts) if first.ndim else first
    if isinstance(first, Mapping):
        return {k: _joined([p[k] for p in parts if k in p]) for k in first}
    if isinstance(first, list | tuple):
        made = [_joined([p[i] for p in parts]) for i in range(len(first))]
        return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
    return first


def split(batch: Any) -> tuple[Any, Any]:
    """Inputs and target of a batch: a pair, or a dict with one of the usual target names."""
    if isinstance(batch, Mapping):
        key = next((k for k in TARGETS if k in batch), None)
        return {k: v for k, v in batch.items() if k != key} if key else dict(batch), batch.get(key) if key else None
    if isinstance(batch, list | tuple) and len(batch) >= 2:
        inputs = batch[0] if len(batch) == 2 else tuple(batch[:-1])
        return inputs, batch[-1]
    return (batch[0] if isinstance(batch, list | tuple) and batch else batch), (
        batch[0] if isinstance(batch, list | tuple) and batch else batch
    )


def rebuilt(batch: Any, inputs: Any, target: Any) -> Any:
    """The batch with other inputs and another target: what `split` took apart."""
    if isinstance(batch, Mapping):
        key = next((k for k in TARGETS if k in batch), None)
        return {**batch, **inputs, **({key: target} if key else {})}
    if isinstance(batch, list | tuple) and len(batch) >= 2:
        head = tuple(inputs) if len(batch) > 2 else (inputs,)
        return (*head, target)
    return (inputs,) if isinstance(batch, list | tuple) else inputs


def _call(model: nn.Module, inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        wanted = inspect.signature(model.forward).parameters
        open_ = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in wanted.values())
        if open_ or set(inputs) & set(wanted):
            return model(**{k: v for k, v in inputs.items() if open_ or k in wanted})
        return model(*inputs.values())
    if isinstance(inputs, tuple):
        return model(*inputs)
    return model(inputs)


def _main(output: Any) -> Any:
    """The tensor a loss would take: logits of a model output, the first of a tuple."""
    for key in ("logits", "prediction", "out"):
        if isinstance(output, Mapping) and key in output:
            return output[key]
        if hasattr(output, key) and isinstance(getattr(output, key), Tensor):
            return getattr(output, key)
    return output[0] if isinstance(output, tuple) and output and isinstance(output[0], Tensor) else output


@contextmanager
def evaluating(model: nn.Module, grad: bool = False) -> Iterator[nn.Module]:
    """The model in eval mode without gradients; every sub-module's mode is put back afterwards.

    >>> model = nn.Dropout()
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model.training
    True
    """
    modes = {m: m.training for m in model.modules()}
    try:
        model.eval()
        with torch.set_grad_enabled(grad):
            yield model
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def training(model: nn.Module) -> Iterator[nn.Module]:
    """The model in train mode with gradients; every sub-module's mode is put back afterwards.

    >>> model = nn.Dropout().eval()
    >>> with training(model):
    ...     model.training
    True
    """
    modes = {m: m.training for m in model.modules()}
    try:
        model.train()
        with torch.enable_grad():
            yield model
    finally:
        for module, mode in modes.items():
            module.training = mode


# -- the twin: a copy of the task to experiment on, and the proof that the original was not touched


def _as_it_is(batch: Any) -> Any:
    return batch


@dataclass
class Twin:
    """A copy of the task's model, optimizer, schedule and scaler, tied to each other as the originals are."""

    task: Task
    model: nn.Module
    optimizer: torch.optim.Optimizer | None
    scheduler: Any
    scaler: Any
    see: Callable[[Batch], Batch] = _as_it_is  # what a prescription does to batches …
    cast: Callable[[], AbstractContextManager[Any]] = nullcontext  # … around the loss …
    unit: float = 1.0  # … to the unit of the loss …
    every: int = 1  # … and batches to an update
    _gathered: int = 0

    def loss(self, batch: Batch) -> Tensor:
        """The loss of a batch with its graph."""
        with self.cast():
            return self.task.loss_of(self.model, self.see(batch))

    def loss_to_fall(self, batch: Batch) -> Tensor:
        """The loss of a batch, where it has a gradient at all."""
        loss = self.loss(batch)
        if not loss.requires_grad:
            raise UsageError(NO_GRADIENT)
        return loss

    def gradients(self, batch: Batch) -> float:
        """Fill the gradients from a batch; its loss."""
        self.model.zero_grad(set_to_none=True)
        loss = self.loss_to_fall(batch)
        loss.backward()
        return float(loss.detach())

    def step(self, batch: Batch) -> float:
        """One update as the user's loop would make it; the loss before it."""
        assert self.optimizer is not None, "this trial needs the task's optimizer"
        if self.every == 1:
            loss = self.gradients(batch)
            self.optimizer.step()
            return loss
        found = self.loss_to_fall(batch) / self.every
        found.backward()
        self._gathered += 1
        if self._gathered % self.every == 0:
            self.optimizer.step()
            self.model.zero_grad(set_to_none=True)
        return float(found.detach()) * self.every

    def probe(self, batches: list[Batch]) -> float:
        """Eval-mode loss over fixed batches, weighted by their size: the response of every trial."""
        with evaluating(self.model), random_kept(seed=0):
            sizes = [size_of(b) for b in batches]
            losses = [float(self.loss(b)) for b in batches]
        return self.unit * sum(v * n for v, n in zip(losses, sizes, strict=True)) / max(sum(sizes), 1)

    def snapshot(self) -> dict[str, Any]:
        """Model and optimizer as they are now, to come back to."""
        kept = {"model": copy.deepcopy(self.model.state_dict())}
        if self.optimizer is not None:
            kept["optimizer"] = copy.deepcopy(self.optimizer.state_dict())
        return kept

    def restore(self, kept: dict[str, Any]) -> None:
        """Back to a snapshot."""
        self.model.load_state_dict(kept["model"])
        if self.optimizer is not None and "optimizer" in kept:
            self.optimizer.load_state_dict(copy.deepcopy(kept["optimizer"]))

    def use(self, optimizer: torch.optim.Optimizer) -> None:
        """Train the twin with another optimizer."""
        self.optimizer, self.scheduler = optimizer, None


def fingerprint(task: Task) -> dict[str, str]:
    """Everything of the original that must stay: a hash by name."""
    return {
        **model_state(task.model),
        "optimizer": stateful(task.optimizer),
        "scheduler": stateful(task.scheduler),
        "scaler": stateful(task.scaler),
        "random": digest(random_states()),
        "data order": digest([g.get_state() for g in generators(task.train, task.val)]),
    }


@contextmanager
def twin(task: Task, seed: int = 0) -> Iterator[Twin]:
    """A twin to experiment on, under its own random numbers; leaving it compares the original with its earlier state."""
    before = fingerprint(task)
    with random_kept(seed=seed), order_kept(task.train, task.val), warnings.catch_warnings():
        # the copy of a scheduler does not know that its optimizer has stepped, and says so; the user has nothing to fix there
        warnings.filterwarnings("ignore", message=".*lr_scheduler.step.*")
        try:
            model, optimizer, scheduler, scaler = copy.deepcopy((task.model, task.optimizer, task.scheduler, task.scaler))
        except Exception as why:  # models may refuse to be copied in many ways; the user must hear which
            raise UsageError(f"the model cannot be copied for an experiment ({type(why).__name__}: {why})") from None
        for p in model.parameters():
            p.grad = None
        with recorded():
            yield Twin(task, model, optimizer, scheduler, scaler)
    after = fingerprint(task)
    changed = sorted(key for key in before if before[key] != after[key])
    if changed:
        raise TwinLeak(
            f"a trial changed the original's {', '.join(changed)}: does your loss or loader use the model by its name, as a "
            "penalty on weights does? A trial works on a copy. If not, please report this with the task"
        )
