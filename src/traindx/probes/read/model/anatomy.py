"""A model taken apart without running it: what its modules are, what is frozen, tied, adapted, hidden in lists."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from traindx import innards
from traindx.probes.read.common.names import clean, unwrapped

# Class name (lower case) -> kind of activation; a user's own class counts when it bears one of these names.
_ACTIVATIONS = {
    **{
        name.lower(): name.lower()
        for name in ("ReLU", "GELU", "Tanh", "Sigmoid", "SiLU", "ELU", "SELU", "CELU", "Mish", "Softplus")
    },
    **{
        name.lower(): name.lower()
        for name in ("Softmax", "LogSoftmax", "Hardtanh", "Hardsigmoid", "Hardswish", "Softsign", "GLU")
    },
    "leakyrelu": "leaky_relu",
    "prelu": "prelu",
    "relu6": "relu6",
    "rrelu": "rrelu",
    "logsigmoid": "logsigmoid",
    "threshold": "relu",
    "swish": "silu",
    "quickgelu": "gelu",
    "newgeluactivation": "gelu",
    "geluactivation": "gelu",
    "siluactivation": "silu",
}
_NORMS = (
    innards.NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.LocalResponseNorm,
    *((nn.RMSNorm,) if hasattr(nn, "RMSNorm") else ()),
)
TWIN_ELEMENTS = 4_000_000  # of a matrix whose rows are compared before step 0


def modules(models: Iterable[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """(name, module) of every module below the models, names as the user knows them; the models themselves are left out."""
    for name, module, _ in walk(list(models)):
        if name:
            yield name, module


def walk(models: list[nn.Module]) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """(name, module, its model), models included under their prefix (empty for a single one)."""
    from traindx.probes.read.common.names import _label

    own = [unwrapped(m) for m in models]
    for index, model in enumerate(own):
        prefix = f"{_label(own, index)}." if len(own) > 1 else ""
        for name, module in model.named_modules():
            yield (prefix + clean(name)).rstrip("."), module, model


def own_parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters a module holds itself."""
    for name, param in module._parameters.items():
        if param is not None:
            yield name, param


def is_norm(module: nn.Module) -> bool:
    return isinstance(module, _NORMS) or type(module).__name__.lower().endswith("norm")


def activation_kind(module: nn.Module) -> str | None:
    """The kind of an activation module; None for other modules and for activations with parts of their own."""
    if next(module.children(), None) is not None:
        return None
    return _ACTIVATIONS.get(type(module).__name__.lower())


def static_facts(models: list[nn.Module]) -> dict[str, Any]:
    """Facts that do not change while the model trains."""
    every = list(walk(models))
    gains, tables, kinds = [], [], {}
    for name, module, _ in every:
        join = f"{name}." if name else ""
        if is_norm(module) and isinstance(getattr(module, "weight", None), Tensor):
            gains.append(f"{join}weight")
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            tables.append(f"{join}weight")
        if name and (kind := activation_kind(module)) is not None:
            kinds[name] = kind
    found: dict[str, Any] = {
        "model.class": type(unwrapped(models[0])).__name__,
        "model.norm_gains": gains,
        "model.embeddings": tables,
        "model.activations": kinds,
        "model.param_module": {
            (f"{name}.{own}" if name else own): type(module).__name__
            for name, module, _ in every
            for own, _ in own_parameters(module)
        },
    }
    recurrent = [m for _, m, _ in every if isinstance(m, nn.RNNBase)]
    if recurrent:
        found["model.recurrent"] = {"both_ways": sum(m.bidirectional for m in recurrent), "all": len(recurrent)}
    return found


def sizes(names: Iterable[str], params: Iterable[Tensor]) -> dict[str, Any]:
    """Counts, shapes and dtypes of the parameters."""
    pairs = list(zip(names, params))
    half = sum(p.numel() for _, p in pairs if p.dtype == torch.float16)
    total = sum(p.numel() for _, p in pairs)
    return {
        "model.params": total,
        "model.trainable": sum(p.numel() for _, p in pairs if p.requires_grad),
        "model.param_shapes": {n: list(p.shape) for n, p in pairs},
        "model.param_dtypes": {n: str(p.dtype).removeprefix("torch.") for n, p in pairs if p.dtype != torch.float32},
        "amp.half_model": half > 0.5 * total,
        "device": str(pairs[0][1].device) if pairs else "cpu",
    }


def frozen_modules(models: list[nn.Module]) -> list[str]:
    """The largest modules all of whose parameters (and at least one) are frozen; never the whole model."""
    found: list[str] = []
    for name, module, _ in walk(models):
        params = list(module.parameters())
        inside = any(name.startswith(f"{f}.") for f in found)
        if name and params and not inside and not any(p.requires_grad for p in params):
            found.append(name)
    return found


def tied_groups(models: list[nn.Module]) -> list[list[str]]:
    """Names of parameters that are one tensor, or whose tensors share their memory."""
    places: dict[tuple[int, ...], list[str]] = {}
    for name, module, _ in walk(models):
        for own, param in own_parameters(module):
            if param.device.type == "meta" or not param.numel():
                continue
            key = (param.data_ptr(), *param.shape)
            places.setdefault(key, []).append(f"{name}.{own}" if name else own)
    return [names for names in places.values() if len(names) > 1]


def declared_ties(models: list[nn.Module]) -> list[list[str]]:
    """Input and output embeddings of a model that says they are tied although they are not."""
    found = []
    names = {id(m): n for n, m, _ in walk(models)}
    for model in map(unwrapped, models):
        config = getattr(model, "config", None)
        if not getattr(config, "tie_word_embeddings", False):
            continue
        getters = (getattr(model, "get_input_embeddings", None), getattr(model, "get_output_embeddings", None))
        ends = [get() if callable(get) else None for get in getters]
        weights = [w for end in ends if isinstance(w := getattr(end, "weight", None), Tensor)]
        if len(weights) == 2 and weights[0].shape == weights[1].shape and weights[0].data_ptr() != weights[1].data_ptr():
            found.append([f"{names.get(id(e), '?')}.weight" for e in ends])
    return found


def twins_by_value(models: list[nn.Module]) -> list[tuple[str, str, Tensor, Tensor]]:
    """Embedding tables and equally shaped linear weights that are not one tensor, with sketches of both.

    Two random tensors are never equal: if the sketches are, one was copied from the other instead of being shared.
    """
    from traindx.probes.read.common.sketch import few

    tables: list[tuple[str, Tensor]] = []
    lines: list[tuple[str, Tensor]] = []
    for name, module, _ in walk(models):
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 2 and weight.device.type != "meta":
            kind = tables if isinstance(module, nn.Embedding) else lines if isinstance(module, nn.Linear) else None
            if kind is not None:
                kind.append((f"{name}.weight", weight))
    pairs = [(a, b) for a in tables for b in lines if a[1].shape == b[1].shape and a[1].data_ptr() != b[1].data_ptr()]
    return [(a[0], b[0], few(a[1]), few(b[1])) for a, b in pairs[:8]]


def adapters(models: list[nn.Module]) -> list[tuple[str, str]]:
    """(A, B) names of low-rank pairs: trainable A (r × in) and B (out × r) next to a frozen weight (out × in), r below both."""
    found: list[tuple[str, str]] = []
    for name, module, _ in walk(models):
        if next(module.children(), None) is None and len(module._parameters) < 3:
            continue
        near = [(n, p) for n, p in _near(module) if p.ndim == 2]
        for _, base in [(n, p) for n, p in near if not p.requires_grad]:
            out, into = base.shape
            free = [(n, p) for n, p in near if p.requires_grad]
            for a, b in ((x, y) for x in free for y in free if x is not y):
                rank = min(a[1].shape)
                fits = set(a[1].shape) == {rank, into} and set(b[1].shape) == {rank, out} and a[1].shape[-1] != b[1].shape[-1]
                if fits and rank < min(out, into) / 2:
                    pair = (_join(name, a[0]), _join(name, b[0]))
                    if pair not in found and (pair[1], pair[0]) not in found:
                        found.append(pair)
    return found


def _near(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Parameters of a module and of what lies up to two levels below: a wrapped layer with its adapters."""
    found = list(own_parameters(module))
    for name, child in module.named_modules():
        if name and name.count(".") < 3:
            found += [(f"{name}.{own}", p) for own, p in own_parameters(child)]
        if len(found) > 8:
            return []  # a block, not one adapted layer
    return found


def _join(name: str, own: str) -> str:
    return clean(f"{name}.{own}" if name else own)


def unregistered(models: list[nn.Module]) -> dict[str, tuple[str, list[nn.Module]]]:
    """Attribute → (class, modules): modules in plain lists, tuples or dicts, whose trainable parameters no model knows."""
    known = {id(m) for _, m, _ in walk(models)} | {id(p) for model in models for p in model.parameters()}
    found: dict[str, tuple[str, list[nn.Module]]] = {}
    for name, module, _ in walk(models):
        for attribute, value in vars(module).items():
            if attribute.startswith("_") and attribute in nn.Module().__dict__:
                continue
            lost = (m for m in _within(value) if id(m) not in known)
            hidden = [m for m in lost if any(p.requires_grad and id(p) not in known for p in m.parameters())]
            if hidden:
                found[f"{name}.{attribute}" if name else attribute] = (type(hidden[0]).__name__, hidden)
    return found


def _within(value: Any, depth: int = 2) -> Iterator[nn.Module]:
    if isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, list | tuple) and len(value) <= 1000:
        for one in value:
            if isinstance(one, nn.Module):
                yield one
            else:
                yield from _within(one, depth - 1)


def init_statistics(names: Iterable[str], params: Iterable[Tensor]) -> tuple[list[str], Tensor | None, dict[str, Tensor]]:
    """(names, RMS·sqrt(fan-in) of each matrix, name → share of rows that equal another row), still on the device."""
    chosen = [
        (n, p.detach())
        for n, p in zip(names, params)
        if p.ndim >= 2 and p.is_floating_point() and p.numel() and p.device.type != "meta"
    ]
    if not chosen or len({p.device for _, p in chosen}) > 1:
        return [], None, {}
    norms = innards.foreach_norm([p if p.dtype in (torch.float32, torch.float64) else p.float() for _, p in chosen])
    fan = [math.sqrt(p[0].numel() / p.numel()) for _, p in chosen]
    gains = torch.stack([n.double() * f for n, f in zip(norms, fan)])
    twins = {n: twin_rows(p) for n, p in chosen if 2 <= p.shape[0] <= 65_536 and p.numel() <= TWIN_ELEMENTS}
    return [n for n, _ in chosen], gains, twins


def twin_rows(matrix: Tensor) -> Tensor:
    """Share of rows that equal another row, by one projection onto a fixed direction.

    >>> float(twin_rows(torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [5.0, 1.0]])))
    0.5
    """
    rows = matrix.reshape(matrix.shape[0], -1).double()
    direction = torch.cos(torch.arange(1, rows.shape[1] + 1, device=rows.device, dtype=torch.float64) * 0.7)
    places, _ = (rows * direction).sum(1).sort()
    close = places[1:] == places[:-1]
    edge = close.new_zeros(1)
    return (torch.cat([edge, close]) | torch.cat([close, edge])).double().mean()


def loaded_share(model: nn.Module, missing: Iterable[str]) -> float:
    """Share of a module's parameter entries that a load left as they were."""
    sizes_ = {name: p.numel() for name, p in model.named_parameters()}
    total = sum(sizes_.values())
    gone = set(missing)
    return sum(n for name, n in sizes_.items() if name in gone) / total if total else 0.0


def groups_of(optimizers: Iterable[Any], names: Mapping[int, str], *, together: bool = True) -> dict[str, Any]:
    """Names of the parameters that are listed twice, and indexes of the groups without any.

    Unless they work `together`, one optimizer takes over from another, and both may hold the same.
    """
    seen: set[int] = set()
    twice: list[str] = []
    empty: list[int] = []
    for optimizer in optimizers:
        seen = seen if together else set()
        for index, group in enumerate(optimizer.param_groups):
            if not group["params"]:
                empty.append(index)
            for param in group["params"]:
                if id(param) in seen:
                    twice.append(names.get(id(param), "?"))
                seen.add(id(param))
    return {"optimizer.duplicates": twice, "optimizer.empty_groups": empty}
