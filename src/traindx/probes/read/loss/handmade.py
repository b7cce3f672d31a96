"""Reading a loss that the script wrote itself: which of torch's loss functions its own calls amount to.

The witness (`forensics/witness.py`) keeps the few torch calls between the model and `backward()`. Followed back from the loss,
`((output - y) ** 2).mean()` is a mean squared error and `-log_softmax(output, 1)[range(n), y].mean()` a cross-entropy. Nothing
is guessed: what is written in another way stays unread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from traindx.probe import TRAIN, LossCall
from traindx.probes.read.common.losses import SIGNATURES, plain

MOST = 64  # calls that are followed from one loss

# Calls that keep, weigh or add up numbers: what stands behind their first argument is looked at instead.
_THROUGH = frozenset(
    {
        *("mean", "nanmean", "sum", "nansum", "div", "true_divide", "mul", "multiply", "neg", "negative"),
        *("view", "reshape", "flatten", "squeeze", "unsqueeze", "float", "double", "to", "contiguous", "masked_select"),
        *("clone", "masked_fill", "nan_to_num"),
    }
)
_MOVED = frozenset({"view", "reshape", "flatten", "squeeze", "unsqueeze", "float", "to", "contiguous", "clone", "double"})


class Taped(Protocol):
    """One torch call of the script's."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    file: str
    line: int


@dataclass(frozen=True)
class Written:
    """A loss in the script's own words."""

    call: LossCall  # of the loss function that it amounts to
    over: int | None = None  # the axis along which its probabilities were made, where that is not the classes'


@dataclass(frozen=True)
class _Call:
    """A taped call by a plain name: `Tensor.__rsub__` is rsub."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    site: str

    def other(self, position: int, name: str, default: Any = None) -> Any:
        return self.args[position] if len(self.args) > position else self.kwargs.get(name, default)


class Reader:
    """The calls of one pass, to be followed back from what they made."""

    def __init__(self, taped: Sequence[Taped]) -> None:
        self._made: dict[int, _Call] = {}
        self._left = MOST
        self._over: int | None = None
        for one in taped:
            if isinstance(one.output, Tensor) and not any(a is one.output for a in one.args):  # in place: made before
                name = str(getattr(one.func, "__name__", "")).strip("_")
                self._made[id(one.output)] = _Call(name, one.args, one.kwargs, f"{one.file}:{one.line}")

    def maker(self, value: Any) -> _Call | None:
        """The call that made a tensor; None for what the script was given."""
        return self._made.get(id(value)) if isinstance(value, Tensor) else None

    # -- from the loss to its terms

    def losses(self, root: Tensor) -> Iterator[Written]:
        """Every term of a loss that is one of torch's, written out."""
        for term, reduction, weights in self._terms(root, "", ()):
            self._over = None
            found = self._squared(term) or self._classes(term) or self._binary(term)
            pair = _counted(*found[1:3], weights) if found is not None else None
            if found is not None and pair is not None:
                name, site = found[0], found[3]
                kwargs = {"reduction": reduction or "mean"}
                yield Written(LossCall(0, name, pair, kwargs, None, TRAIN, site, 0, True), self._over)

    def _terms(
        self, value: Any, reduction: str, weights: tuple[Tensor, ...]
    ) -> Iterator[tuple[Tensor, str, tuple[Tensor, ...]]]:
        """The parts of a sum that the gradient goes through, past everything that only weighs them."""
        self._left -= 1
        call = self.maker(value)
        if self._left < 0 or call is None or call.name in SIGNATURES:
            return
        grown = [a for a in call.args if _trained(a)]
        if call.name in ("add", "radd", "iadd") and value.ndim == 0:
            for part in grown:
                yield from self._terms(part, reduction, weights)
            return
        if call.name in ("sub", "rsub") and value.ndim == 0 and len(grown) == 1 and not _tensor(call.args[1:]):
            yield from self._terms(grown[0], reduction, weights)
            return
        if call.name in _THROUGH and len(grown) == 1 and not (call.name in ("mul", "multiply") and self._soft(call)):
            if call.name in ("mean", "nanmean") or (call.name in ("div", "true_divide") and value.ndim == 0):
                reduction = reduction or "mean"  # divided by a number of its own choice: an average
            elif call.name in ("sum", "nansum") and value.ndim == 0:
                reduction = reduction or "sum"
            yield from self._terms(grown[0], reduction, (*weights, *_weights(call)))
            return
        if call.name == "getitem" and len(grown) == 1 and _mask(call.args[1:]):
            yield from self._terms(grown[0], reduction, (*weights, call.args[1]))
            return
        yield value, reduction, weights

    def _soft(self, call: _Call) -> bool:
        """Whether a product is of log-probabilities with targets that are a distribution over the same classes."""
        first, second = call.args[0], call.args[1] if len(call.args) > 1 else None
        if not (isinstance(first, Tensor) and isinstance(second, Tensor) and first.shape == second.shape):
            return False
        return self._scores(first if _trained(first) else second) is not None

    # -- |a - b|, (a - b)²

    def _squared(self, value: Tensor) -> tuple[str, Tensor, Tensor, str] | None:
        call, name = self.maker(value), "mse_loss"
        if call is not None and call.name in ("sqrt", "pow") and (root := self._rooted(call)) is not None:
            call, name = root, "l1_loss"
        if call is None:
            return None
        if call.name == "abs":
            name = "l1_loss"
        elif not (
            call.name == "square"
            or (call.name == "pow" and call.other(1, "exponent") == 2)
            or (call.name in ("mul", "multiply") and len(call.args) == 2 and call.args[0] is call.args[1])
        ):
            return None
        off = self.maker(call.args[0])
        if off is None or off.name not in ("sub", "rsub", "subtract") or len(off.args) < 2 or "alpha" in off.kwargs:
            return None
        pair = [a for a in off.args[:2] if plain(a)]
        asked = [a for a in pair if not a.requires_grad]
        given = [a for a in pair if a.requires_grad]
        if len(asked) != 1 or len(given) != 1 or not self._meet(given[0], asked[0]):
            return None
        return name, given[0], asked[0], off.site

    def _meet(self, output: Tensor, target: Tensor) -> bool:
        """Whether there is one target to every output, or was meant to be: (N,) and (N, 1). All pairs are somebody's design."""
        if output.shape == target.shape:
            return True
        n = output.shape[0] if output.ndim else 0
        if n < 2 or {output.shape, target.shape} != {(n,), (n, 1)}:
            return False
        column = self.maker(output if output.ndim == 2 else target)
        return column is None or not (
            column.name in ("unsqueeze", "expand") or (column.name == "getitem" and _new_axis(column))
        )

    def _rooted(self, call: _Call) -> _Call | None:
        """The square below √(x² + ε)."""
        if call.name == "pow" and call.other(1, "exponent") != 0.5:
            return None
        below = self.maker(call.args[0])
        if below is not None and below.name == "add" and not _tensor(below.args[1:]):
            return self.maker(below.args[0])
        return None

    # -- -log p[y]

    def _classes(self, value: Tensor) -> tuple[str, Tensor, Tensor, str] | None:
        call = self.maker(value)
        if call is None:
            return None
        if call.name in ("sub", "rsub"):
            return self._normalised(call)
        if call.name in ("mul", "multiply"):
            return self._distribution(call)
        picked = self._picked(call)
        if picked is None:
            return None
        scores, target, axis = picked
        made = self._scores(scores)
        if made is None:
            return None
        logits, over = made
        if over == axis:
            return "cross_entropy", _classes_second(logits, axis), target, call.site
        self._over = over
        return ("nll_loss", scores, target, call.site) if axis == 1 == scores.ndim - 1 else None

    def _normalised(self, call: _Call) -> tuple[str, Tensor, Tensor, str] | None:
        """log Σ exp x - x[y]."""
        one, two = call.args[:2] if call.name == "sub" else call.args[1::-1]
        whole, own = self._log_sum(one), self._behind(two)
        picked = self._picked(own) if own is not None else None
        if whole is None or picked is None or whole[0] is not picked[0] or whole[1] != picked[2]:
            return None
        scores, target, axis = picked
        return "cross_entropy", _classes_second(self._unshifted(scores), axis), target, call.site

    def _distribution(self, call: _Call) -> tuple[str, Tensor, Tensor, str] | None:
        """Σ p log q, with a row of p for each row of log q."""
        given = [a for a in call.args[:2] if _trained(a)]
        asked = [a for a in call.args[:2] if plain(a) and not a.requires_grad]
        if len(given) != 1 or len(asked) != 1 or given[0].shape != asked[0].shape or not asked[0].is_floating_point():
            return None
        made = self._scores(given[0])
        if made is None or given[0].ndim < 2:
            return None
        logits, axis = made
        target = asked[0].abs()  # the minus may have been written before them
        return "cross_entropy", _classes_second(logits, axis), _classes_second(target, axis), call.site

    def _picked(self, call: _Call) -> tuple[Tensor, Tensor, int] | None:
        """(scores, chosen classes, class axis) of a gather or of scores[range(n), y]."""
        if call.name in ("squeeze", "view", "reshape", "flatten") and (below := self.maker(call.args[0])) is not None:
            return self._picked(below)
        if not call.args or not plain(call.args[0]) or call.args[0].ndim < 2:
            return None
        scores = call.args[0]
        if call.name in ("gather", "take_along_dim"):
            index = call.other(2, "index") if call.name == "gather" else call.other(1, "indices")
            axis = call.other(1, "dim") if call.name == "gather" else call.other(2, "dim")
            if not plain(index) or not isinstance(axis, int) or index.ndim != scores.ndim or index.shape[axis] != 1:
                return None
            axis %= scores.ndim
            return scores, index.squeeze(axis), axis
        if call.name == "getitem" and scores.ndim == 2 and isinstance(call.args[1], tuple) and len(call.args[1]) == 2:
            rows, chosen = call.args[1]
            if (
                plain(chosen)
                and not chosen.is_floating_point()
                and chosen.shape == scores.shape[:1]
                and _counts(rows, len(scores))
            ):
                return scores, chosen, 1
        return None

    def _scores(self, value: Any) -> tuple[Tensor, int] | None:
        """(what was normalised, along which axis) of log-probabilities."""
        call = self.maker(value)
        if call is None or not call.args or not plain(call.args[0]):
            return None
        if call.name == "log_softmax":
            return _along(call, call.args[0])
        if call.name == "log":
            below = self.maker(call.args[0])
            if below is not None and below.name in ("add", "clamp", "clip", "clamp_min"):  # kept away from zero
                below = self.maker(below.args[0])
            soft = below is not None and below.name == "softmax" and plain(below.args[0])
            return _along(below, below.args[0]) if below is not None and soft else None
        if call.name == "sub" and len(call.args) > 1 and (whole := self._log_sum(call.args[1])) is not None:
            return (self._unshifted(whole[0]), whole[1]) if whole[0] is call.args[0] else None
        return None

    def _log_sum(self, value: Any) -> tuple[Tensor, int] | None:
        """(x, axis) of log Σ exp x."""
        call = self._behind(value)
        if call is None or not call.args or not plain(call.args[0]):
            return None
        if call.name == "logsumexp":
            return _along(call, call.args[0])
        total = self.maker(call.args[0]) if call.name == "log" else None
        exp = self.maker(total.args[0]) if total is not None and total.name == "sum" else None
        if total is None or exp is None or exp.name != "exp" or not plain(exp.args[0]):
            return None
        return _along(total, exp.args[0])

    def _unshifted(self, scores: Tensor) -> Tensor:
        """The scores before their largest was taken off."""
        call = self.maker(scores)
        if call is None or call.name != "sub" or len(call.args) < 2 or not plain(call.args[0]):
            return scores
        most = call.args[1]
        small = isinstance(most, Tensor) and most.ndim == scores.ndim and most.numel() < scores.numel()
        return call.args[0] if small and call.args[0].shape == scores.shape else scores

    def _behind(self, value: Any) -> _Call | None:
        """The call that made a value, past reshaping."""
        call = self.maker(value)
        while call is not None and call.name in _MOVED and self.maker(call.args[0]) is not None:
            call = self.maker(call.args[0])
        return call

    # -- y log p + (1 - y) log (1 - p)

    def _binary(self, value: Tensor) -> tuple[str, Tensor, Tensor, str] | None:
        call = self.maker(value)
        if call is None or call.name not in ("add", "sub") or value.ndim == 0 or len(call.args) < 2:
            return None
        first, second = self._weighed_log(call.args[0]), self._weighed_log(call.args[1])
        if first is None or second is None:
            return None
        (one, share), (two, rest) = first, second
        plain_one, plain_two = self._complement(one) is None, self._complement(two) is None
        if plain_one == plain_two:
            return None
        p: Tensor = one if plain_one else two
        y = share if plain_one else rest
        other = self._complement(two if plain_one else one)
        same = p.shape == y.shape and other is p
        return ("binary_cross_entropy", p, y, call.site) if same else None

    def _weighed_log(self, value: Any) -> tuple[Tensor, Tensor] | None:
        """(p, weight) of weight · log p, also of log(p + ε)."""
        call = self._behind(value)
        if call is not None and call.name in ("neg", "negative"):
            call = self._behind(call.args[0])
        if call is None or call.name not in ("mul", "multiply") or len(call.args) < 2:
            return None
        for log, weight in (call.args[:2], call.args[1::-1]):
            made = self.maker(log)
            if made is not None and made.name == "log" and plain(made.args[0]) and plain(weight) and not weight.requires_grad:
                inside = self.maker(made.args[0])
                if inside is not None and inside.name in ("add", "clamp", "clip") and not _tensor(inside.args[1:]):
                    return (inside.args[0], weight) if plain(inside.args[0]) else None
                return made.args[0], weight
        return None

    def _complement(self, value: Tensor) -> Tensor | None:
        """p of 1 - p, also of (1 - p) + ε."""
        call = self.maker(value)
        if call is not None and call.name == "rsub" and len(call.args) > 1 and call.args[1] == 1:
            return call.args[0] if plain(call.args[0]) else None
        return None


def _weights(call: _Call) -> tuple[Tensor, ...]:
    """What a product, a quotient or a mask says about how much each part counts."""
    others = [a for a in (*call.args[1:], *call.kwargs.values()) if isinstance(a, Tensor) and a.ndim and not a.requires_grad]
    first = call.args[0]
    if isinstance(first, Tensor) and first.ndim and not first.requires_grad:
        others.append(first)
    if call.name == "masked_fill":
        others = [~a for a in others if a.dtype == torch.bool]
    return tuple(others) if call.name in ("mul", "multiply", "masked_select", "masked_fill") else ()


def _counted(output: Tensor, target: Tensor, weights: tuple[Tensor, ...]) -> tuple[Tensor, Tensor] | None:
    """Output and target without what has no weight; None where it cannot be told which parts that are."""
    if weights and target.device.type != "cpu":
        return None  # to look at them would mean to wait for the device
    for weight in weights:
        keep = weight != 0
        if target.is_floating_point() and target.shape == output.shape:
            while keep.ndim < target.ndim and keep.shape == target.shape[: keep.ndim]:
                keep = keep[..., None]
            if keep.ndim != target.ndim or any(n not in (1, m) for n, m in zip(keep.shape, target.shape)):
                return None
            if not bool(keep.all()):
                at = keep.expand_as(target)
                output, target = output[at], target[at]
        elif keep.numel() == target.numel() and _is_mask(weight):
            target = torch.where(keep.reshape(target.shape), target, -100)
        elif keep.numel() > 1:
            return None  # rewards and advantages: what was picked is no label
    return (output, target) if output.numel() else None


def _is_mask(weight: Tensor) -> bool:
    """Whether parts count alike or not at all."""
    return bool(((weight == 0) | ((weight == weight.max()) & (weight > 0))).all())


def _new_axis(call: _Call) -> bool:
    index = call.args[1] if len(call.args) > 1 else ()
    return index is None or (isinstance(index, tuple) and any(part is None for part in index))


def _trained(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _tensor(values: tuple[Any, ...]) -> bool:
    return any(isinstance(v, Tensor) and v.ndim for v in values)


def _mask(values: tuple[Any, ...]) -> bool:
    return len(values) == 1 and isinstance(values[0], Tensor) and values[0].dtype == torch.bool


def _counts(rows: Any, n: int) -> bool:
    """Whether an index is 0 … n-1, or as long and most likely so."""
    if isinstance(rows, range):
        return rows == range(n)
    if isinstance(rows, list):
        return rows == list(range(n))
    return isinstance(rows, Tensor) and rows.shape == (n,) and not rows.is_floating_point() and rows.dtype != torch.bool


def _along(call: _Call, scores: Tensor) -> tuple[Tensor, int] | None:
    """(scores, axis) of a call that goes along one axis."""
    axis = call.other(1, "dim")
    if isinstance(axis, list | tuple) and len(axis) == 1:
        axis = axis[0]
    return (scores, axis % scores.ndim) if isinstance(axis, int) and scores.ndim else None


def _classes_second(table: Tensor, axis: int) -> Tensor:
    """Scores with their classes on axis 1, where torch's cross-entropy has them."""
    return table if axis == 1 else table.movedim(axis, 1) if table.ndim > 1 else table


def read(taped: Sequence[Taped], root: Tensor) -> list[Written]:
    """The loss calls that a script's own calls amount to; none where it is not written in a way that is known."""
    return list(Reader(taped).losses(root))
