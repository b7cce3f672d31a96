"""Values that are not finite: where in a model they are held, and which module makes the first one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from traindx.trials.task import tensors


def find_nonfinite(model: nn.Module) -> dict[str, str]:
    """Every parameter, gradient and buffer that holds a NaN or an infinity, and how many. Waits once for the device.

    >>> model = nn.BatchNorm1d(2)
    >>> model.running_var[0] = float("inf")
    >>> find_nonfinite(model)
    {'running_var': '1 infinity of 2 values'}
    """
    held = [(name, p.detach()) for name, p in model.named_parameters()]
    held += [(f"{name}.grad", p.grad) for name, p in model.named_parameters() if p.grad is not None]
    held += list(model.named_buffers())
    held = [(name, t.coalesce().values() if t.is_sparse else t) for name, t in held if t.is_floating_point() or t.is_complex()]
    if not held:
        return {}
    device = held[0][1].device
    counts = torch.stack([torch.stack([torch.isnan(t).sum(), torch.isinf(t).sum()]).to(device) for _, t in held]).tolist()
    return {name: _counted(nans, infs, t.numel()) for (name, t), (nans, infs) in zip(held, counts) if nans or infs}


def _counted(nans: int, infs: int, of: int) -> str:
    told = [f"{nans} NaN"] * bool(nans) + [f"{infs} {'infinity' if infs == 1 else 'infinities'}"] * bool(infs)
    return f"{' and '.join(told)} of {of} values"


def check_loss(
    loss: Tensor, model: nn.Module, *inputs: Tensor, step: int | None = None, found: Callable[[str], Any] | None = None
) -> float:
    """The loss as a number; raises FloatingPointError when it is NaN or infinite.

    The message says whether the inputs or the weights hold such values already, or this step made them. With `found`
    nothing is raised; it gets the sentence.

    >>> model = nn.Linear(1, 1)
    >>> check_loss(torch.tensor(0.5), model)
    0.5
    >>> bad, inputs = torch.tensor(float("nan")), torch.tensor([2.0, 4.0])
    >>> check_loss(bad, model, inputs, step=7, found=print)
    the loss is nan at step 7; weights and buffers are finite, so this step made it (inputs: mean 3, largest 4)
    nan
    """
    value = float(loss.detach())
    if math.isfinite(value):
        return value
    said = f"the loss is {value}" + (f" at step {step}" if step is not None else "")
    bad = {k: v for k, v in find_nonfinite(model).items() if not k.endswith(".grad")}
    kept = [t.detach() for t in inputs if isinstance(t, Tensor) and t.is_floating_point() and t.numel()]
    held = [f"input {i} holds {told}" for i, t in enumerate(kept) if (told := _bad(t, True))]
    if held:
        said += f"; {', '.join(held)}: look at the data"
    elif bad:
        said += f"; already in the weights: {', '.join(f'{k} ({v})' for k, v in list(bad.items())[:8])}"
    else:
        seen = ", ".join(f"mean {float(t.mean()):.4g}, largest {float(t.abs().max()):.4g}" for t in kept)
        said += f"; weights and buffers are finite, so this step made it{f' (inputs: {seen})' if seen else ''}"
    if found is None:
        raise FloatingPointError(said)
    found(said)
    return value


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
