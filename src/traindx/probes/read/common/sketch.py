"""A few numbers of every weight: enough to see that weights moved, or that two modules hold different ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from traindx.probes.read.common.digest import hasher

_TENSORS, _EACH = 32, 64  # tensors looked at, numbers taken of each


class Sketch:
    """Takes the same few entries of the same tensors every time."""

    def of(self, params: Sequence[Tensor]) -> Tensor | None:
        """(n,) entries of at most 32 floating tensors, evenly chosen; None without any."""
        fit = [
            p for p in params if p.is_floating_point() and p.numel() and p.layout == torch.strided and p.device.type != "meta"
        ]
        if not fit:
            return None
        chosen = fit[:: -(-len(fit) // _TENSORS)]
        device = chosen[0].device
        parts = [few(p) for p in chosen if p.device == device]
        return torch.cat(parts)

    def differ(self, model: nn.Module, trained: Iterable[nn.Module]) -> Tensor | float | None:
        """0 when `model` holds the very tensors of a trained one, else 1 when its values differ; None: another architecture."""
        own = list(model.parameters())
        for other in trained:
            theirs = list(other.parameters())
            ids = {id(p) for p in theirs}
            if any(id(p) in ids for p in own) or model is other:
                return 0.0
            if [p.shape for p in own] == [p.shape for p in theirs]:
                a, b = self.of(own), self.of(theirs)
                if a is None or b is None or a.device != b.device or a.shape != b.shape:
                    return None
                return torch.ne(a, b).any().float()
        return None


def few(tensor: Tensor) -> Tensor:
    """At most 64 evenly spread entries, as an own float32 copy."""
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach().flatten()
    return flat[:: -(-flat.numel() // _EACH)].to(torch.float32, copy=True)


def digest(module: nn.Module, most: int = 32) -> str:
    """A name for what a module's parameters hold, from some values of some of them: other weights have another name."""
    params = list(module.parameters())
    parts = [few(p.detach().reshape(-1)).double().cpu() for p in params[:: max(1, len(params) // most)]]
    return hasher(torch.cat(parts).numpy().tobytes()).hexdigest() if parts else ""


def counters(models: Iterable[nn.Module]) -> dict[int, int]:
    """Version of every batch counter of a normalisation layer: it grows when a batch goes through in training mode."""
    found: dict[int, int] = {}
    for model in models:
        for module in model.modules():
            count = module._buffers.get("num_batches_tracked")
            if count is not None and not count.is_inference():
                found[id(count)] = count._version
    return found
