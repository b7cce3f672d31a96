"""How a batch of the script's loader becomes a batch of its recipe: learned from training, applied to validation.

A recipe's batch is the tensors that went into modules and loss. Where each of them is a tensor of what the loader gave (or the
same at every step), the batches of another loader can be prepared in the same way; where the script computes something from
them first, they cannot, and that is the answer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from traindx.trials.task import tensors

LOOKS = 6  # training steps that are compared
SURE = 3  # of which this many must agree
Way = tuple[int, ...]  # for each tensor of the recipe's batch the tensor of the loader's, FIXED where it never changes
FIXED = -1


class Pairing:
    """Learns which tensors of the loader's batch the recipe's batch is made of."""

    def __init__(self) -> None:
        self._pairs: list[tuple[list[Tensor], tuple[Tensor, ...]]] = []

    @property
    def wants(self) -> bool:
        """Whether another training step would still teach something."""
        return len(self._pairs) < LOOKS

    def learn(self, raw: Any, batch: tuple[Tensor, ...]) -> None:
        """A training step: what the loader gave, and what went into the recipe."""
        self._pairs.append((tensors(raw), batch))

    def prepared(self, raws: list[Any]) -> tuple[list[tuple[Tensor, ...]], str]:
        """Batches of another loader as batches of the recipe; and why there are none."""
        pairs = [(leaves, batch) for leaves, batch in self._pairs if len(batch) == len(self._pairs[-1][1])]
        if len(pairs) < SURE:
            return [], "too few training batches came from a DataLoader to see how they are prepared"
        fixed, width = pairs[-1][1], len(pairs[-1][1])
        way = tuple(self._source(pairs, i) for i in range(width))
        if any(w is None for w in way):
            return [], "the script computes what it feeds the model from what its loader gives"
        made = []
        for raw in raws:
            leaves = tensors(raw)
            if len(leaves) == len(pairs[-1][0]):
                chosen = (fixed[i] if w == FIXED else leaves[w] for i, w in enumerate(way) if w is not None)
                made.append(tuple(t.to(f.device) for t, f in zip(chosen, fixed, strict=True)))
        return made, "" if made else "validation batches are built unlike training batches"

    def _source(self, pairs: list[tuple[list[Tensor], tuple[Tensor, ...]]], i: int) -> int | None:
        for j in range(min(len(leaves) for leaves, _ in pairs)):
            if all(_same(leaves[j], batch[i]) for leaves, batch in pairs):
                return j
        return FIXED if all(_same(batch[i], pairs[0][1][i]) for _, batch in pairs) else None


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a.detach().to(b.device), b))
