"""Parameters and modules with the names a user knows them by."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

_INNER = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own module inside DataParallel, DDP and torch.compile wrappers."""
    for _ in range(8):
        inner = getattr(model, "_orig_mod", None)
        if inner is None and type(model).__name__ in ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"):
            inner = getattr(model, "module", None)
        if not isinstance(inner, nn.Module):
            break
        model = inner
    return model


def working(optimizer: Any) -> Any:
    """The optimizer that has the state: the one inside of a wrapper that shards it, averages or looks ahead."""
    held = [thing for thing in getattr(optimizer, "__dict__", {}).values() if isinstance(thing, Optimizer)]
    return held[0] if len(held) == 1 else optimizer


def clean(name: str) -> str:
    """A name without what wrappers put into it."""
    for part in _INNER:
        name = name.replace(part, "")
    return name


def cast_of(models: list[nn.Module], optimizers: list[Any]) -> tuple[list[Tensor], tuple[str, ...]]:
    """Every distinct parameter of models, then of optimizers, and their names (prefixed only when there are several models)."""
    params: list[Tensor] = []
    names: list[str] = []
    seen: set[int] = set()
    own = [unwrapped(m) for m in models]
    for index, model in enumerate(own):
        prefix = f"{_label(own, index)}." if len(own) > 1 else ""
        for name, param in model.named_parameters():
            if id(param) not in seen:
                seen.add(id(param))
                params.append(param)
                names.append(prefix + clean(name))
    for index, optimizer in enumerate(optimizers):
        for param in (p for group in optimizer.param_groups for p in group["params"]):
            if id(param) not in seen:
                seen.add(id(param))
                params.append(param)
                names.append(f"optimizer{index}.{sum(n.startswith(f'optimizer{index}.') for n in names)}")
    return params, tuple(names)


def _label(models: list[nn.Module], index: int) -> str:
    kind = type(models[index]).__name__
    same = [i for i, m in enumerate(models) if type(m).__name__ == kind]
    return kind if len(same) == 1 else f"{kind}{same.index(index)}"


def module_names(models: list[nn.Module]) -> dict[int, str]:
    """id of every sub-module → its name; the models themselves are left out."""
    own = [unwrapped(m) for m in models]
    found: dict[int, str] = {}
    for index, model in enumerate(own):
        prefix = f"{_label(own, index)}." if len(own) > 1 else ""
        for name, module in model.named_modules():
            if name:
                found.setdefault(id(module), prefix + clean(name))
    return found
