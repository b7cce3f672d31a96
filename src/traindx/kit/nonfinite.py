"""Values that are not finite: where in a model they are held, and which module makes the first one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from traindx.trials.task import tensors


def find_nonfinite(model: nn.Module) -> list[str]:
    """Every parameter, gradient and buffer of the model that holds a NaN or an infinity.

    >>> model = nn.BatchNorm1d(2)
    >>> model.running_var[0] = float("inf")
    >>> find_nonfinite(model)
    ['running_var']
    """
    held = [(name, p.detach()) for name, p in model.named_parameters()]
    held += [(f"{name}.grad", p.grad) for name, p in model.named_parameters() if p.grad is not None]
    held += list(model.named_buffers())
    return [name for name, t in held if t.is_floating_point() and not bool(torch.isfinite(t).all())]


@contextmanager
def nan_hooks(
    model: nn.Module, *, found: Callable[[str], Any] | None = None, minus_infinity: bool = False, backward: bool = True
) -> Iterator[None]:
    """Inside the block, the first module that makes a NaN or an infinity raises FloatingPointError and names itself.

    Tensors, tuples, lists and dicts are looked into, in the forward and (`backward`) in the backward pass. Minus infinity is
    left alone unless asked for: masks are made of it. With `found` nothing is raised; it gets each sentence once. All hooks are
    gone after the block, also when it raised. Waits for the device at every module: for hunting, not for long runs.

    >>> class Log(nn.Module):
    ...     def forward(self, x):
    ...         return {"log": torch.log(x)}
    >>> with nan_hooks(nn.Sequential(nn.ReLU(), Log())) as _:
    ...     pass
    >>> net = nn.Sequential(nn.Identity(), Log())
    >>> try:
    ...     with nan_hooks(net):
    ...         net(torch.tensor([-1.0]))
    ... except FloatingPointError as why:
    ...     print(why)
    the output of '1' (Log) holds 1 NaN of 1 values; its inputs were finite
    """
    told: set[str] = set()

    def tell(sentence: str) -> None:
        if found is None:
            raise FloatingPointError(sentence)
        if sentence not in told:
            told.add(sentence)
            found(sentence)

    def forward_hook(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            bad = _bad(output, minus_infinity)
            if bad:
                before = _bad((args, kwargs), minus_infinity)
                where = (
                    f"the output of '{name}' ({type(module).__name__})" if name else f"the output of {type(module).__name__}"
                )
                tell(f"{where} holds {bad}; its inputs {'held ' + before if before else 'were finite'}")

        return hook

    def backward_hook(name: str, p: Tensor) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            bad = _bad(grad, True)
            if bad:
                tell(f"the gradient of '{name}' holds {bad}")

        return hook

    handles = [m.register_forward_hook(forward_hook(name), with_kwargs=True) for name, m in model.named_modules()]
    if backward:
        handles += [p.register_hook(backward_hook(name, p)) for name, p in model.named_parameters() if p.requires_grad]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _bad(thing: Any, minus_infinity: bool) -> str:
    """What is not finite in a nest of tensors, in words; empty when all is well."""
    for t in tensors(_plain(thing)):
        if not (t.is_floating_point() or t.is_complex()) or not t.numel():
            continue
        nans = int(torch.isnan(t).sum())
        if nans:
            return f"{nans} NaN of {t.numel()} values"
        infinite = torch.isinf(t) if minus_infinity or t.is_complex() else t == math.inf
        count = int(infinite.sum())
        if count:
            return f"{count} infinities of {t.numel()} values"
    return ""


def _plain(thing: Any) -> Any:
    """Mappings of any class (model outputs of frameworks too) as plain dicts, so that nothing is constructed anew."""
    if isinstance(thing, Mapping):
        return {k: _plain(v) for k, v in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(v) for v in thing]
    return thing
