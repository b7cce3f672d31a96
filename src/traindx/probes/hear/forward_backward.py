"""The patched points of the forward and backward pass: modules, losses, attention, backward, loaders, optimizers.

Every wrapper is one frame, and takes that frame out of a traceback that passes through it.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as loaders

from traindx import innards
from traindx.probes.drive.stand_in import held_by
from traindx.probes.read.common.passes import rows
from traindx.probes.read.common.sites import site
from traindx.probes.read.common.tracebacks import thrown_in

if TYPE_CHECKING:
    from traindx.probes.drive.patches import Patches

LOSSES = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "ctc_loss", "cosine_embedding_loss",
    "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
)  # fmt: skip

clock = time.perf_counter
Function = Callable[..., Any]
Hook = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
_ACTIVATIONS = "torch.nn.modules.activation"
_ASKED = 3  # calls of a module without parameters that are waited for until it makes some
_thread = threading.get_ident
_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled
_graph_task = innards.graph_task  # -1 outside a backward; checkpointing runs forwards inside one


def install(patches: Patches) -> None:
    """Patch every point; each is undone by `Patches.remove`."""
    state = _State()
    _backward(patches)
    _losses(patches, state)
    patches.modules = Modules(patches, state)
    _attention(patches)
    _activations(patches, state)
    _dropouts(patches)
    _loaders(patches)
    _optimizers(patches)


class _State:
    """How deep we are inside things that count once."""

    def __init__(self) -> None:
        self.losses = 0  # loss functions under way
        self.loss_module: Any = None  # the loss module under way
        self.loss_calls = 0
        self.activations = 0  # non-linearities under way in a deep forward


def around(
    original: Function,
    before: Function | None = None,
    after: Function | None = None,
    failed: Function | None = None,
) -> Function:
    """`original` with `before(args, kwargs)`, `after(out, args, kwargs)` and `failed(error, args, kwargs)` around it."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            if before is not None:
                try:
                    before(args, kwargs)
                except Exception as own:  # as in Observer.told
                    _broke(own)
            out = original(*args, **kwargs)
        except BaseException as error:
            if failed is not None:
                failed(error, args, kwargs)
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
            raise
        if after is not None:
            try:
                after(out, args, kwargs)
            except Exception as own:  # as in Observer.told
                _broke(own)
        return out

    return wrapper


def _broke(error: Exception) -> None:
    """A tap failed before its report was made: what it touched is the user's, and may do anything."""
    from traindx.probes.drive.patches import PATCHES

    for observer in PATCHES.observers or (None,):
        if observer is not None:
            observer.recorder.failed("taps", "call", error)
        elif thrown_in(error):
            raise error


def _backward(patches: Patches) -> None:

    def make(original: Function) -> Function:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if _compiling():
                    return original(tensors, *args, **kwargs)
                patches.report("backward_begins", tensors, site())
                out = original(tensors, *args, **kwargs)
            except BaseException as error:
                patches.report("backward_failed", error)
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise
            patches.report("backward_ends")
            return out

        return backward

    def begins(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not _compiling() and not kwargs.get("create_graph") and _graph_task() == -1:
            patches.report("grad_begins", args[0] if args else kwargs.get("outputs"), site())

    def ended(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not _compiling() and not kwargs.get("create_graph") and _graph_task() == -1:
            patches.report("grad_ends")

    patches.replace(torch.autograd, "backward", make, rests=True)
    patches.replace(torch.autograd, "grad", partial(around, before=begins, after=ended), rests=True)


def _losses(patches: Patches, state: _State) -> None:

    def maker(name: str) -> Callable[[Function], Function]:
        def make(original: Function) -> Function:
            def loss(*args: Any, **kwargs: Any) -> Any:
                if _compiling() or state.losses or _graph_task() != -1:
                    try:
                        return original(*args, **kwargs)
                    except BaseException as error:
                        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                        raise
                state.losses += 1  # a loss built on another is one call
                try:
                    out = original(*args, **kwargs)
                except BaseException as error:
                    state.losses -= 1
                    patches.report("loss_failed", name, state.loss_module, args, kwargs, site(), error)
                    error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                    raise
                state.losses -= 1
                state.loss_calls += 1
                patches.report("loss_called", name, state.loss_module, args, kwargs, out, site())
                return out

            return loss

        return make

    for name in LOSSES:
        patches.replace(functional, name, maker(name), rests=True)


class Modules:
    """`nn.Module.__call__`: patched on the base class while the model is being looked for and on full steps, otherwise on the
    classes of the known models only, because a Python frame on each of hundreds of modules costs half a budget."""

    def __init__(self, patches: Patches, state: _State) -> None:
        self.patches, self.state = patches, state
        self.depth = 0
        self.thread = 0  # of the outermost call
        self._model: dict[int, tuple[Any, bool, int]] = {}  # by place in memory, with a reference: modules may not be hashable
        self._undo: list[Callable[[], None]] = []
        self.wide = self.lent = self.stopped = False
        self.widen()
        patches.on_undo(self._clear)

    def _clear(self) -> None:
        for undo in self._undo:
            undo()
        self._undo, self.wide, self.lent = [], False, False

    def stop(self) -> None:
        """Leave modules alone from now on (torch.compile traces through them)."""
        self._clear()
        self.stopped = True

    def widen(self) -> None:
        """Look at every module's calls."""
        if not self.wide and not self.stopped:
            self._clear()
            self._undo = [self.patches.replace(nn.Module, "__call__", self._make)]
            self.wide = True
            self.patches.wide(True)
        elif self.wide and self.patches.above is not None:
            self.patches.above.on()

    def narrow(self, kinds: Iterable[type]) -> None:
        """Look at calls of modules of these classes only."""
        if (self.wide or self.lent) and kinds and not self.stopped:
            was = self.wide
            self._clear()
            self._undo = [self.patches.replace(kind, "__call__", self._make) for kind in kinds]
            if was:
                self.patches.wide(False)

    def lend(self, kinds: Iterable[type], make: Callable[[Function], Function]) -> None:
        """Let somebody else hear the calls of these classes, and nobody those of others."""
        self._clear()
        self._undo, self.lent = [self.patches.replace(kind, "__call__", make) for kind in kinds], True

    def _make(self, original: Function) -> Function:
        patches, state = self.patches, self.state

        def __call__(*args: Any, **kwargs: Any) -> Any:
            outermost = False
            try:
                if self.depth:
                    if not patches.deep or self.thread != threading.get_ident():
                        return original(*args, **kwargs)
                    activation = type(args[0]).__module__ == _ACTIVATIONS
                    state.activations += activation
                    out = original(*args, **kwargs)
                    state.activations -= activation
                    patches.report("module_called", args[0], args[1:], out)
                    return out
                if _compiling() or state.losses or _graph_task() != -1:
                    return original(*args, **kwargs)
                if self._is_model(args[0]):
                    if patches.acts and not _grad_enabled() and rows(args[1:], kwargs) in patches.acts:
                        return original(*args, **kwargs)
                    outermost, self.depth, self.thread = True, 1, threading.get_ident()
                    patches.report("forward_begins", args[0], args[1:], kwargs)
                    deep = patches.deep
                    if deep:
                        patches.inside(True)
                    out = original(*args, **kwargs)
                    self.depth = 0
                    if deep:
                        patches.inside(False)
                    patches.report("forward_ends", args[0], args[1:], kwargs, out)
                    return out
                if state.loss_module is not None:
                    return original(*args, **kwargs)
                state.loss_module, calls = args[0], state.loss_calls
                out = original(*args, **kwargs)
                state.loss_module = None
                if state.loss_calls == calls and isinstance(out, Tensor) and Tensor.dim(out) == 0:
                    patches.report("loss_called", type(args[0]).__name__, args[0], args[1:], kwargs, out, site())
                return out
            except BaseException as error:
                if outermost:
                    self.depth = state.activations = 0
                    patches.inside(False)
                    patches.report("forward_failed", args[0], error)
                if state.loss_module is args[0]:
                    state.loss_module = None
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise

        return __call__

    def _is_model(self, module: nn.Module) -> bool:
        """Whether it holds parameters. It is asked outside every guard, so it asks nothing that a user's class may answer.

        A module that makes its parameters when it is first called has none before: who holds none is asked again, a few times.
        """
        known = self._model.get(id(module))
        asked = known[2] if known is not None and known[0]() is module else 0
        if known is None or not asked or (not known[1] and asked < _ASKED):
            parts = list(_parts(module))
            self.patches.leave(held_by(parts))
            holds = any(p is not None for part in parts for p in list(_own(part).get("_parameters", {}).values()))
            known = self._model[id(module)] = weakref.ref(module), holds, asked + 1
        return known[1]


def _parts(module: nn.Module) -> Iterator[nn.Module]:
    """A module and everything in it, each once, whatever its class has made of `modules` and `==`."""
    seen: dict[int, Any] = {}
    waiting: list[Any] = [module]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and isinstance(one, nn.Module):
            seen[id(one)] = one
            yield one
            waiting.extend(_own(one).get("_modules", {}).values())


def _own(module: nn.Module) -> dict[str, Any]:
    own: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return own


def _attention(patches: Patches) -> None:
    """Attention that is recognisable: the fused call, and a softmax over the last axis of a (…, T, S) tensor."""

    def fused(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if patches.deep:
            patches.report("attention_called", "fused", args, kwargs, out)

    def softmax(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if patches.deep and isinstance(out, Tensor) and out.dim() >= 3 and out.shape[-1] > 1:
            patches.report("attention_called", "softmax", args, kwargs, out)
        if patches.deep and isinstance(out, Tensor):
            patches.report("squashed", out)

    patches.replace(functional, "scaled_dot_product_attention", partial(around, after=fused), traced=True, inside=True)
    for owner in (torch, Tensor):  # F.softmax calls the tensor's
        patches.replace(owner, "softmax", partial(around, after=softmax), traced=True, inside=True)


def _activations(patches: Patches, state: _State) -> None:
    """Functional non-linearities. F.relu calls torch.relu and is left alone: torch itself asks whether a function is F.relu."""

    def begins(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state.activations += patches.deep

    def fails(error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state.activations -= patches.deep

    def maker(kind: str) -> Callable[[Function], Function]:
        def after(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if patches.deep:
                state.activations -= 1
                if not state.activations and args:
                    patches.report("activation_called", kind, args[0], out)

        return partial(around, before=begins, after=after, failed=fails)

    for kind, name in (("relu", "relu"), ("relu", "relu_"), ("tanh", "tanh"), ("sigmoid", "sigmoid")):
        for owner in (torch, Tensor):
            patches.replace(owner, name, maker(kind), traced=True, inside=True)


def _dropouts(patches: Patches) -> None:
    """F.dropout that nobody tells whether it trains: it is on in every mode. (nn.Dropout tells it.)"""

    def begins(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if len(args) < 3 and "training" not in kwargs and not torch.is_grad_enabled():
            patches.report("dropped", args[1] if len(args) > 1 else kwargs.get("p", 0.5))

    patches.replace(functional, "dropout", partial(around, before=begins), traced=True, asleep=True)


class _Iterated:
    """What is known of an iterator of a DataLoader."""

    __slots__ = ("drawn", "loader", "ref")

    def __init__(self, ref: weakref.ref[Any]) -> None:
        self.ref = ref
        self.loader: Any = None  # weakly: whose it is
        self.drawn: deque[Any] = deque()  # indices of batches on their way


def _loaders(patches: Patches) -> None:
    known: dict[int, _Iterated] = {}

    def of(iterator: Any) -> _Iterated:
        key = id(iterator)
        one = known.get(key)
        if one is None:
            one = known[key] = _Iterated(weakref.ref(iterator, lambda _: known.pop(key, None)))
        return one

    def begins(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if (kept := getattr(args[0], "_iterator", None)) is not None:  # persistent workers: an epoch may have been left early
            of(kept).drawn.clear()

    def draws(original: Function) -> Function:
        def _next_index(self: Any) -> Any:
            try:
                indices = original(self)
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise
            if getattr(self, "_in_order", True):
                (known.get(id(self)) or of(self)).drawn.append(indices)
            return indices

        return _next_index

    def iterates(iterator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        of(iterator).loader = weakref.ref(args[0])
        patches.report("on_loader", args[0])

    def make(original: Function) -> Function:
        def __next__(self: Any) -> Any:
            begun = clock()
            one = known.get(id(self))
            try:
                batch = original(self)
            except BaseException as error:
                if isinstance(error, StopIteration) and one is not None and one.loader is not None:
                    patches.report("on_loader_end", one.loader(), True)
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
                raise
            one = one or known.get(id(self))
            if one is None or one.loader is None:
                return batch
            patches.drawn, loader, skip = one.drawn.popleft() if one.drawn else None, one.loader(), patches.skip
            if skip is not None and loader is skip.loader:
                skip.batch = batch
                if skip.counts:
                    skip.fetched += 1
                    skip.fetch_s += clock() - begun
                    return batch
            patches.report("on_batch", loader, batch, begun, clock())
            return batch

        return __next__

    def made(out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        patches.report("loader_made", args[0])

    patches.replace(DataLoader, "__init__", partial(around, after=made))
    patches.replace(DataLoader, "__iter__", partial(around, before=begins, after=iterates))
    patches.replace(loaders._BaseDataLoaderIter, "_next_index", draws)
    patches.replace(loaders._BaseDataLoaderIter, "__next__", make)


def _optimizers(patches: Patches) -> None:
    stepping: list[int] = []  # the optimizers whose steps are on the way, the outermost first; after an error until the next

    def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if stepping and _within_a_step():  # of a wrapper that shards, averages or looks ahead: its step is the one that counts
            stepping.append(id(optimizer))
            return
        stepping[:] = [id(optimizer)]
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        patches.report("step_begins", optimizer, closure is not None)

    def after(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        while stepping and stepping.pop() != id(optimizer):
            pass
        if stepping:
            return
        patches.report("step_ends", optimizer)

    begins, ends = _hooks(patches, before, after)
    patches.on_undo(register_optimizer_step_pre_hook(begins).remove)
    patches.on_undo(register_optimizer_step_post_hook(ends).remove)


def _hooks(patches: Patches, begins: Hook, ends: Hook) -> tuple[Hook, Hook]:
    """The optimizer's hooks: of a skipped step, or else `begins` and `ends`."""

    def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        skip = patches.skip
        if skip is not None and skip.observer.thread == _thread():
            if skip.stepping:  # inside the step of a wrapper that shards, averages or looks ahead
                return
            try:
                whole = skip.at == skip.DONE and len(skip.losses) == len(skip.template) and skip.primary() is optimizer
                closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
                recorder = skip.observer.recorder
                known = recorder.lost_at >= 0 or skip.clipped_finite  # no need to look at a gradient
                if whole and closure is None and (known or not skip.bad_gradient(recorder.scene, optimizer)):
                    skip.stepping = True
                    return
                skip.otherwise()
            except Exception as error:  # as in Observer.told
                skip.failed(error)
        begins(optimizer, args, kwargs)

    def after(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        skip = patches.skip
        if skip is None or skip.observer.thread != _thread() or not skip.stepping:
            ends(optimizer, args, kwargs)
        elif skip.primary() is optimizer:
            try:
                skip.stepped(optimizer, clock())
            except Exception as error:  # as in Observer.told
                skip.failed(error)

    return before, after


def _within_a_step() -> bool:
    """Whether the optimizer whose step begins was called by the step of another one: torch's own wrapper is there twice."""
    found, frame = 0, sys._getframe(1)
    while frame is not None and found < 2:
        found += frame.f_code.co_name == "wrapper" and frame.f_globals.get("__name__") == "torch.optim.optimizer"
        frame = frame.f_back  # type: ignore[assignment]
    return found == 2
