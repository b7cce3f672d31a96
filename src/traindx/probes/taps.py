"""The patched points themselves: what each reports. `attach.Patches` installs and removes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from traindx.probes.story import clock

if TYPE_CHECKING:
    from traindx.probes.attach import Patches

LOSSES = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss", "smooth_l1_loss",
    "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "ctc_loss", "cosine_embedding_loss", "hinge_embedding_loss",
    "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
)  # fmt: skip

Function = Callable[..., Any]


def install(patches: Patches) -> None:
    """Patch every point; each is undone by `Patches.remove`."""
    _backward(patches)
    _losses(patches)
    _modules(patches)
    _loaders(patches)
    _optimizers(patches)


def _without_us(error: BaseException) -> None:
    """Take our frame out of a traceback that is on its way to the user."""
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next


def _backward(patches: Patches) -> None:
    from traindx.probes.attach import site

    def make(original: Function) -> Function:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            patches.report("backward_begins", tensors, site())
            try:
                out = original(tensors, *args, **kwargs)
            except BaseException as error:
                _without_us(error)
                raise
            patches.report("backward_ends")
            return out

        return backward

    patches.replace(torch.autograd, "backward", make)


def _losses(patches: Patches) -> None:
    from traindx.probes.attach import site

    depth = [0]  # a loss built on another is one call

    def maker(name: str) -> Callable[[Function], Function]:
        def make(original: Function) -> Function:
            def loss(*args: Any, **kwargs: Any) -> Any:
                if depth[0] or torch.compiler.is_compiling():
                    return original(*args, **kwargs)
                depth[0] += 1
                try:
                    out = original(*args, **kwargs)
                except BaseException as error:
                    _without_us(error)
                    raise
                finally:
                    depth[0] -= 1
                patches.report("loss_called", name, None, args, kwargs, out, site())
                return out

            return loss

        return make

    for name in LOSSES:
        patches.replace(torch.nn.functional, name, maker(name))


def _modules(patches: Patches) -> None:
    depth = [0]

    def make(original: Function) -> Function:
        def __call__(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if depth[0] or not _has_parameters(self):
                return original(self, *args, **kwargs)
            depth[0] += 1
            patches.report("forward_begins", self)
            try:
                out = original(self, *args, **kwargs)
            except BaseException as error:
                _without_us(error)
                raise
            finally:
                depth[0] -= 1
            patches.report("forward_ends", self, args, kwargs, out)
            return out

        return __call__

    patches.replace(nn.Module, "__call__", make)


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _loaders(patches: Patches) -> None:
    def make(original: Function) -> Function:
        def __iter__(self: Any) -> Any:
            iterator = original(self)
            patches.report("on_loader", self)
            return _Batches(self, iterator, patches)

        return __iter__

    patches.replace(DataLoader, "__iter__", make)


class _Batches:
    """A loader's iterator that reports what it gives."""

    def __init__(self, loader: Any, iterator: Any, patches: Patches) -> None:
        self._loader, self._iterator, self._patches = loader, iterator, patches

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        return len(self._iterator)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __next__(self) -> Any:
        begun = clock()
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._patches.report("on_loader_end", self._loader, True)
            raise
        except BaseException as error:
            _without_us(error)
            raise
        self._patches.report("on_batch", self._loader, batch, begun, clock())
        return batch


def _optimizers(patches: Patches) -> None:
    def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        patches.report("step_begins", optimizer, closure is not None)

    def after(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        patches.report("step_ends", optimizer)

    patches.on_undo(register_optimizer_step_pre_hook(before).remove)
    patches.on_undo(register_optimizer_step_post_hook(after).remove)

    def make(original: Function) -> Function:
        def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
            patches.report("zero_grad")
            return original(self, *args, **kwargs)

        return zero_grad

    patches.replace(torch.optim.Optimizer, "zero_grad", make)
