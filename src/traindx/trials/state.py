"""Everything a trial could disturb, taken down before and compared after: weights, buffers, moments, modes, random states."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor, nn


def random_states() -> dict[str, Any]:
    """The states of every global random generator."""
    states: dict[str, Any] = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}  # noqa: NPY002 the user's own generator
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore_random(states: Mapping[str, Any]) -> None:
    """Put every global random generator back."""
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if "cuda" in states:
        torch.cuda.set_rng_state_all(states["cuda"])


def seeded(seed: int) -> None:
    """Start every global random generator from `seed`."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch.manual_seed(seed)


@contextmanager
def random_kept(seed: int | None = None) -> Iterator[None]:
    """Whatever is drawn inside, the global generators stand afterwards as before; inside they may start from `seed`."""
    states = random_states()
    try:
        if seed is not None:
            seeded(seed)
        yield
    finally:
        restore_random(states)


def generators(*sources: Any) -> list[torch.Generator]:
    """Random generators of loaders' own: a global seed does not reach them, and a pass moves the user's data order on."""
    found: dict[int, torch.Generator] = {}
    for source in sources:
        sampler, batches = getattr(source, "sampler", None), getattr(source, "batch_sampler", None)
        for owner in (source, sampler, batches, getattr(batches, "sampler", None)):
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator):
                found[id(generator)] = generator
    return list(found.values())


@contextmanager
def order_kept(*sources: Any) -> Iterator[None]:
    """Whatever passes are made inside, the loaders' own generators stand afterwards as before."""
    states = [(g, g.get_state()) for g in generators(*sources)]
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state(state)


def digest(value: Any) -> str:
    """A content hash of any nest of tensors, arrays, numbers and words."""
    h = xxhash.xxh3_128()
    _feed(h, value)
    return str(h.hexdigest())


def _feed(h: Any, value: Any) -> None:
    if isinstance(value, Tensor):
        t = value.detach()
        h.update(f"{t.dtype}{tuple(t.shape)}{t.requires_grad}".encode())
        if t.layout is torch.strided and not t.is_meta:
            raw = t.contiguous().cpu()
            h.update(raw.reshape(-1).view(torch.uint8).numpy().tobytes() if raw.numel() else b"")
    elif isinstance(value, np.ndarray):
        h.update(value.tobytes())
    elif isinstance(value, Mapping):
        for key in value:
            h.update(repr(key).encode())
            _feed(h, value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            _feed(h, item)
    else:
        h.update(repr(value).encode())


def model_state(model: nn.Module) -> dict[str, str]:
    """A hash per thing of the model that must not change."""
    return {
        "weights": digest(dict(model.named_parameters())),
        "buffers": digest(dict(model.named_buffers())),
        "gradients": digest({n: p.grad for n, p in model.named_parameters()}),
        "requires_grad": digest({n: p.requires_grad for n, p in model.named_parameters()}),
        "modes": digest({n: m.training for n, m in model.named_modules()}),
        "hooks": digest(
            {n: (list(m._forward_hooks), list(m._forward_pre_hooks), list(m._backward_hooks)) for n, m in model.named_modules()}
        ),
    }


def stateful(thing: Any) -> str:
    """A hash of an optimizer, scheduler or scaler by its state_dict."""
    return digest(thing.state_dict()) if thing is not None else ""
