"""How self-attention was masked, read off the autograd graph: fused attention says so, hand-written attention shows it.

A saved mask is looked at through `SavedTensor.data`, which does not run anybody's unpack hook; what must be known of it
is reduced on its device and read later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from traindx.probes.read.common.graph import Fn, inputs, op, shape
from traindx.probes.read.common.token_ids import TokenBatch, pad_id

_PASSED = frozenset(
    {"Mul", "Div", "View", "UnsafeView", "Reshape", "ReshapeAlias", "ToCopy", "Clone", "Expand", "Float", "Tanh"}
)
_PRODUCTS = frozenset({"Bmm", "Baddbmm", "Matmul"})
_BLOCKED = -1e4  # an additive mask at or below this shuts a position out, also in fp16
_ROWS = 32
_OWN_TOKENS = 4  # that a model may put in front of a sequence
_CALLS = 12  # whose masks are held against the padding
_CELLS = 2**20  # of masks that are read for who sees which key
_FEW = 4  # sequences of which a square mask is read
_MOST_QUERIES = 0.9  # that see what comes later; where a prefix is read as a whole, those of the rest do not


@dataclass
class Masks:
    """Counts of self-attention calls by how they were masked."""

    causal: int = 0
    masked: int = 0
    none: int = 0
    bare: set[int] = field(default_factory=set)  # how many positions the calls without any mask went over
    open: int = 0  # masked, but alike for all queries: every position sees the later ones
    # of square masks: share of the queries that see a later position, and how far ahead the furthest of them sees
    ahead: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)  # (B, 2, L) first and last query that sees each key; -1: none does

    def visit(self, fn: Fn) -> None:
        """Take note of a graph node if it is self-attention over more than one position."""
        name = op(fn)
        if name.startswith("ScaledDotProduct"):
            self._fused(fn)
        elif name in ("Softmax", "SafeSoftmax"):  # safe: what torch falls back to where dropout rules out the fused kernel
            self._by_hand(fn)

    def _fused(self, fn: Fn) -> None:
        made = shape(fn)
        key = _raw(fn, "_raw_saved_key")
        if made is None or key is None or key.ndim < 3 or made[-2] != key.shape[-2] or made[-2] < 2:
            return
        if bool(getattr(fn, "_saved_is_causal", False)):
            self.causal += 1
            return
        mask = _raw(fn, "_raw_saved_attn_mask")
        mask = mask if mask is not None else _raw(fn, "_raw_saved_attn_bias")
        if mask is None:
            self._without(int(made[-2]))
        else:
            self._tensor(mask <= _BLOCKED if mask.dtype != torch.bool else ~mask)

    def _by_hand(self, fn: Fn) -> None:
        made = shape(fn)
        if made is None or len(made) < 3 or made[-1] != made[-2] or made[-1] < 2:
            return
        below = inputs(fn)
        shut = None
        for _ in range(8):
            if not below:
                return
            name = op(below[0])
            if name in _PRODUCTS:
                if shut is not None:
                    self._tensor(shut)
                elif name == "Baddbmm":
                    self.masked += 1
                else:
                    self._without(int(made[-1]))
                return
            if name in ("MaskedFill", "Where", "Add"):
                if name == "Add" or (shut := _raw(below[0], "_raw_saved_mask")) is None:
                    if _is_product(below[0]):
                        self._by_weights(fn)
                    return
            elif name not in _PASSED:
                return
            below = inputs(below[0])

    def _by_weights(self, fn: Fn) -> None:
        """A mask that was added is not kept, but what it shut out has a weight of exactly zero."""
        weights = _raw(fn, "_raw_saved_result")
        if weights is None or weights.ndim < 3:
            self.masked += 1  # what it shuts cannot be read
        else:
            some = weights[:_ROWS, :1] if weights.ndim == 4 else weights[:_FEW]
            self._tensor(some == 0)

    def _without(self, positions: int) -> None:
        self.none += 1
        self.bare.add(positions)

    def _tensor(self, shut: Tensor) -> None:
        if shut.ndim < 2 or len(self.ahead) >= 64:
            self.masked += 1
            return
        if shut.shape[-1] == shut.shape[-2]:
            place = torch.arange(shut.shape[-1], device=shut.device)
            few = shut.reshape(-1, *shut.shape[-2:])[:_FEW]
            far = (
                torch.where(few, 0, place[None, :] - place[:, None]).amax(-1).clamp_min(0)
            )  # 0: none of the later ones is open
            self.ahead.append(((far[..., :-1] > 0).float().mean(), far.amax()))
        elif shut.shape[-2] == 1:
            self.open += 1
        else:
            self.masked += 1
        if shut.ndim == 4 and shut.shape[0] > 1 and len(self.keys) < _CALLS:
            rows = max(2, min(_ROWS, _CELLS // (shut.shape[-1] * shut.shape[-2])))
            self.keys.append(_seen_by(~shut[:rows, 0]))

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The mask of a fused attention as it was passed: under dropout the graph does not keep it."""
        query, key = (_argument(args, kwargs, i, name) for i, name in enumerate(("query", "key")))
        mask = _argument(args, kwargs, 3, "attn_mask")
        if self.keys or not all(isinstance(t, Tensor) and t.ndim == 4 for t in (query, key, mask)):
            return
        if query.shape[-2] == key.shape[-2] == mask.shape[-1] and mask.shape[0] == query.shape[0] > 1:
            rows = max(2, min(_ROWS, _CELLS // (mask.shape[-1] * mask.shape[-2])))
            self.keys.append(_seen_by((mask if mask.dtype == torch.bool else mask > _BLOCKED)[:rows, 0]))

    def facts(self, pads: list[np.ndarray[Any, Any]], sure: bool = False) -> dict[str, Any]:
        """`model.attention_masks`, and `model.pad_mask` where the padding (N, L) of the same batches is known.

        `sure` says that the padding was not guessed: then a model that never masks anything attends to all of it.
        """
        far = [(float(share), int(most)) for share, most in self.ahead]
        seeing = [most for share, most in far if share >= _MOST_QUERIES]
        causal = sum(most == 0 for _, most in far)
        rest = len(far) - causal - len(seeing)
        count = {
            "causal": self.causal + causal,
            "masked": self.masked + rest,
            "none": self.none,
            "open": self.open + len(seeing),
        }
        if not sum(count.values()):
            return {}
        if seeing:
            count["ahead"] = min(seeing)
        found: dict[str, Any] = {"model.attention_masks": count}
        if self.keys and pads:
            seers = [k.cpu().numpy() for k in self.keys]
            fits = [m for k in seers for p in pads if p.any() and (m := _held_against(k, p)) is not None]
            if fits:  # of several, the batch that a mask was made for fits best
                found["model.pad_mask"] = min(fits, key=lambda m: sum(m.values()))
        elif sure and count["none"] == sum(count.values()) and self._over(pads):
            found["model.pad_mask"] = {"valid_masked": 0.0, "pad_attended": 1.0}
        return found

    def _over(self, pads: list[np.ndarray[Any, Any]]) -> bool:
        """Whether attention without a mask went over the positions of batches that all hold padding."""
        fits = (0 <= n - p.shape[1] <= _OWN_TOKENS for p in pads for n in self.bare)
        return bool(pads) and all(p.any() for p in pads) and any(fits)


def _seen_by(open_: Tensor) -> Tensor:
    """(B, 2, L) of a mask (B, Q, L): the first and the last query that sees each key, -1 where none does."""
    place = torch.arange(open_.shape[1], device=open_.device, dtype=torch.int32)[None, :, None]
    last = torch.where(open_, place, -1).amax(1)
    first = torch.where(open_, place, open_.shape[1]).amin(1)
    return torch.stack([torch.where(last < 0, -1, first), last], 1).long()


def _held_against(seers: np.ndarray[Any, Any], pad: np.ndarray[Any, Any]) -> dict[str, float] | None:
    """How much content no position with content sees, and how much padding one does; None where they are of other batches.

    What padding itself sees does not count: where positions see only earlier ones, padding at the end is shut out already. A
    model may put tokens of its own (a class token) in front.
    """
    extra = seers.shape[2] - pad.shape[1]
    if len(seers) > len(pad) or not 0 <= extra <= _OWN_TOKENS:
        return None
    pad = pad[: len(seers)]
    content = np.pad(~pad, ((0, 0), (extra, 0)), constant_values=True)
    content = np.pad(content, ((0, 0), (0, 1)), constant_values=False)  # what -1 asks for: nobody
    alike = bool((seers[:, 1] <= 0).all())  # one row for all queries
    sees: Any = seers[:, 1] >= 0 if alike else np.take_along_axis(content[:, None, :], seers, 2).any(axis=1)
    seen = sees[:, extra:]
    return {
        "valid_masked": float((~seen)[~pad].mean()) if (~pad).any() else 0.0,
        "pad_attended": float(seen[pad].mean()) if pad.any() else 0.0,
    }


@dataclass
class Pooling:
    """Means over the positions of a batch of sequences, by whether anything shut positions out before."""

    bare: int = 0
    masked: int = 0

    def visit(self, fn: Fn, samples: int, width: int) -> None:
        """Take note of a graph node if it is a mean of (N, L, …) over the L positions."""
        if op(fn) != "Mean" or width < 2 or not (axes := getattr(fn, "_saved_dim", None)):
            return
        sizes = tuple(int(n) for n in getattr(fn, "_saved_self_sym_sizes", ()))
        axis = int(axes[0])
        axis = axis - 2**64 if axis > 2**63 else axis  # torch shows a negative axis as unsigned
        if len(axes) != 1 or len(sizes) != 3 or sizes[0] != samples or axis % 3 == 0 or sizes[axis % 3] != width:
            return
        if sizes[1] != sizes[2]:
            shut = _shut_out(fn, samples, width)
            self.masked += shut
            self.bare += not shut


def _shut_out(fn: Fn, samples: int, width: int, most: int = 400) -> bool:
    """Whether states (N, L, …) below a node are masked, multiplied by one number per position, or packed."""
    todo, seen = inputs(fn), set[Fn]()
    while todo and len(seen) < most:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        name, made = op(node), shape(node)
        if "Packed" in name or "PackPadded" in name:
            return True
        states = made is not None and len(made) == 3 and made[0] == samples and width in made[1:]
        if states and name in ("MaskedFill", "MaskedScatter", "Where", "IndexPut", "Index"):
            return True
        if states and name == "Mul" and len(inputs(node)) == 1 and _per_position(node):
            return True
        todo += inputs(node)
    return len(seen) >= most


def _per_position(fn: Fn) -> bool:
    """Whether what was multiplied by is alike for all features of a position: a mask, no dropout and no scale."""
    for name in ("_raw_saved_other", "_raw_saved_self"):
        factor = _raw(fn, name)
        if factor is not None and not factor.requires_grad:
            if factor.device.type != "cpu":
                return factor.ndim > 1  # to look at it would mean to wait for the device
            return factor.ndim > 1 and (1 in factor.shape or bool((factor == factor[..., :1]).all()))
    return True  # not to be known


def _is_product(fn: Fn) -> bool:
    """Whether a product of two things lies below, past scaling and reshaping: then this was attention."""
    for _ in range(6):
        below = inputs(fn)
        if not below:
            return False
        if op(below[0]) in _PRODUCTS:
            return True
        fn = below[0]
    return False


def _argument(args: tuple[Any, ...], kwargs: dict[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _raw(fn: Fn, name: str) -> Tensor | None:
    saved = getattr(fn, name, None)
    data = getattr(saved, "data", None)
    return data if isinstance(data, Tensor) else None


def padding(tokens: Tensor, mask: Tensor | None, stated: int | None) -> np.ndarray[Any, Any] | None:
    """(N, L) True under padding: where the attention mask is 0, else where the padding id stands; None when unknown."""
    ids = tokens.cpu().long().numpy()
    if mask is not None:
        return np.asarray(mask.cpu().numpy() == 0)
    found = stated if stated is not None else pad_id([TokenBatch(ids, None, None, -100)])[0]
    return None if found is None else np.asarray(ids == found)
