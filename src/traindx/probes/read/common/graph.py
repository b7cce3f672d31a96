"""What the autograd graph says: which parameters a loss reaches, what was applied last, which layers follow each other.

The graph holds every operation, functional or module, so these answers need no hooks and no names. Only shapes and plain
numbers are read off its nodes: a saved tensor is never touched (that could run somebody's unpack hook).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

# Operations that move numbers without changing them.
_TURNS = frozenset({"Transpose", "Permute", "Movedim", "T"})
_MOVES = _TURNS | {
    *(
        "View",
        "UnsafeView",
        "ReshapeAlias",
        "Reshape",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Alias",
        "Clone",
        "Contiguous",
    ),
    *("ToCopy", "Slice", "Select", "Index", "Unbind", "Split", "SplitWithSizes"),
}
_LINEAR = frozenset({"Addmm", "Mm", "Convolution", "Linear"})

# Operation -> (kind, lowest, highest output); None is unbounded.
_RANGES: dict[str, tuple[str, float | None, float | None]] = {
    "Sigmoid": ("sigmoid", 0.0, 1.0),
    "Hardsigmoid": ("hardsigmoid", 0.0, 1.0),
    "Softmax": ("softmax", 0.0, 1.0),
    "LogSoftmax": ("log_softmax", None, 0.0),
    "LogSigmoid": ("logsigmoid", None, 0.0),
    "Tanh": ("tanh", -1.0, 1.0),
    "Relu": ("relu", 0.0, None),
    "Threshold": ("relu", 0.0, None),
    "Softplus": ("softplus", 0.0, None),
    "Exp": ("exp", 0.0, None),
    "Gelu": ("gelu", -0.17, None),  # minimum of x·Φ(x) is -0.16997
    "Silu": ("silu", -0.2785, None),  # minimum of x·σ(x) is -0.27846
    "Mish": ("mish", -0.3089, None),
    "Hardswish": ("hardswish", -0.375, None),
    "LeakyRelu": ("leaky_relu", None, None),
}

Fn = Any  # torch.autograd.graph.Node; its Python type is not public for built-in operations


def op(fn: Fn) -> str:
    """The bare name of a graph node: `AddmmBackward0` is Addmm."""
    return re.sub(r"Backward\d*$", "", str(fn.name()))


def shape(fn: Fn) -> tuple[int, ...] | None:
    """The shape of what a node produced in the forward, where torch tells."""
    told = getattr(fn, "_input_metadata", None)
    try:
        return tuple(int(n) for n in told[0].shape) if told else None
    except (RuntimeError, TypeError, AttributeError):  # nested tensors and symbolic sizes have no plain shape
        return None


def inputs(fn: Fn) -> list[Fn]:
    return [f for f, _ in fn.next_functions if f is not None]


def behind(fn: Fn | None, most: int = 12) -> Iterator[Fn]:
    """The nodes from `fn` down to and with the first that computes something."""
    for _ in range(most):
        if fn is None:
            return
        yield fn
        below = inputs(fn)
        if op(fn) not in _MOVES or not below:
            return
        fn = below[0]


def head_activation(tensor: Tensor) -> dict[str, Any] | None:
    """The activation applied last to `tensor`: {kind, range: [lo, hi], dim}; None when it is none we know."""
    last = list(behind(tensor.grad_fn))
    if not last:
        return None
    name, fn = op(last[-1]), last[-1]
    if name in ("Hardtanh", "Clamp"):
        lo, hi = (
            _number(getattr(fn, a, None))
            for a in (("_saved_min_val", "_saved_max_val") if name == "Hardtanh" else ("_saved_min", "_saved_max"))
        )
        return {"kind": name.lower(), "range": [lo, hi]}
    if name not in _RANGES:
        return None
    kind, lo, hi = _RANGES[name]
    found: dict[str, Any] = {"kind": kind, "range": [lo, hi]}
    if name in ("Softmax", "LogSoftmax"):
        dims = len(shape(fn) or ())
        raw = int(fn._saved_dim)
        raw = raw - 2**64 if raw > 2**63 else raw  # torch shows a negative dim as unsigned
        found["dim"] = raw + dims if raw < 0 else raw
    return found


def softmax_over_batch(fn: Fn, samples: int) -> bool:
    """Whether a node is a softmax along the first axis of a batch of that many samples; (N, N) similarities are not meant."""
    made = shape(fn) if op(fn) in ("Softmax", "LogSoftmax") else None
    if made is None or len(made) < 2 or samples < 2 or made[0] != samples or made[1] == samples:
        return False
    raw = int(fn._saved_dim)
    return (raw - 2**64 if raw > 2**63 else raw) in (0, -len(made))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def features_axis(tensor: Tensor) -> tuple[int, int] | None:
    """(axis, size) of the features of the linear layer that made `tensor`; axis -1 when reshaping tore them apart.

    None when the tensor did not come straight from a linear layer. The last axis of a linear layer's output are its
    features; only transposing moves them, a view cannot.
    """
    last = list(behind(tensor.grad_fn))
    if last and op(last[-1]) == "Add" and (product := _unbiased(last[-1])) is not None:
        last += behind(product)
    if not last or op(last[-1]) not in ("Addmm", "Mm", "Linear"):
        return None
    made = shape(last[-1])
    if made is None or any(op(f) in _TURNS for f in last):
        return None
    size, now = made[-1], tuple(tensor.shape)
    if now and now[-1] == size:
        return len(now) - 1, size
    return (-1, size) if size in now else None


def _unbiased(fn: Fn) -> Fn | None:
    """What a bias was added to: where its input is no block of memory, a linear layer is a product and a sum."""
    below = inputs(fn)
    leaf = next((f for f in below if getattr(f, "variable", None) is not None and f.variable.ndim == 1), None)
    return next((f for f in below if f is not leaf), None) if leaf is not None else None


def torn(tensor: Tensor) -> tuple[int, ...] | None:
    """The shape (N, C, L…) that was reshaped to rows of C without moving the classes last, so that a row mixes places and
    classes; None when `tensor` is no such table."""
    last = list(behind(tensor.grad_fn))
    made = shape(last[-1]) if last and tensor.ndim == 2 else None
    if made is None or len(made) < 3 or any(op(f) in _TURNS for f in last) or math.prod(made) != tensor.numel():
        return None
    return made if made[1] == tensor.shape[1] != made[-1] and math.prod(made[2:]) > 1 else None


@dataclass
class Reach:
    """What one walk from a loss saw."""

    variables: set[int] = field(default_factory=set)  # ids of leaf tensors
    nodes: set[int] = field(default_factory=set)  # sequence numbers of the operations
    pairs: list[tuple[int, int]] = field(default_factory=list)  # ids of weights of linear layers that follow each other
    whole: bool = True  # the walk ended before its limit


def reach(root: Fn | None, most: int = 20_000, visit: Callable[[Fn], None] | None = None) -> Reach:
    """Every leaf and operation below a loss, and the pairs of linear layers with only reshaping between them.

    `visit` is shown every operation once.
    """
    found = Reach()
    seen: set[Fn] = set()
    todo = [root] if root is not None else []
    while todo:
        fn = todo.pop()
        if fn in seen:
            continue
        if len(seen) >= most:
            found.whole = False
            break
        seen.add(fn)
        leaf = getattr(fn, "variable", None)
        if leaf is not None:
            found.variables.add(id(leaf))
            continue
        found.nodes.add(int(fn._sequence_nr()))
        if visit is not None:
            visit(fn)
        if (weight := _weight(fn)) is not None and (earlier := _earlier(fn)) is not None:
            found.pairs.append((id(earlier), id(weight)))
        todo.extend(inputs(fn))
    return found


def _weight(fn: Fn) -> Tensor | None:
    """The weight of a linear node; None for other nodes and for weights that were themselves computed."""
    name = op(fn)
    if name not in _LINEAR:
        return None
    place = {"Addmm": 2, "Mm": 1, "Convolution": 1, "Linear": 1}[name]
    below = [f for f, _ in fn.next_functions]
    if len(below) <= place or below[place] is None:
        return None
    if name == "Convolution" and int(getattr(fn, "_saved_groups", 1)) != 1:
        return None  # depthwise and pointwise convolutions follow each other by design
    *_, last = behind(below[place])
    return getattr(last, "variable", None)


def _earlier(fn: Fn) -> Tensor | None:
    """The weight of the linear layer whose output is this one's input, when only reshaping stands between."""
    below = [f for f, _ in fn.next_functions]
    place = {"Addmm": 1, "Mm": 0, "Convolution": 0, "Linear": 0}[op(fn)]
    if len(below) <= place or below[place] is None:
        return None
    *_, last = behind(below[place])
    return _weight(last) if op(last) in _LINEAR else None


def gathered(loss: Tensor, most: int = 60) -> list[tuple[Tensor, Tensor | None]]:
    """(classes asked for, weights or None), both (N, L), of losses by hand that pick log-probabilities with `gather`.

    The weights are what the picked ones were multiplied by, filled out or chosen with before they were summed.
    """
    found: list[tuple[Tensor, Tensor | None]] = []
    todo: list[tuple[Fn, Tensor | None]] = [(loss.grad_fn, None)]
    for _ in range(most):
        if not todo:
            break
        fn, weight = todo.pop()
        below = inputs(fn) if fn is not None else []
        name = op(fn) if fn is not None else ""
        if name == "Gather":
            index = _data(fn, "_raw_saved_index")
            source = next((op(b) for f in below for b in behind(f) if op(b) not in _MOVES), "")
            if index is not None and source == "LogSoftmax" and (index.ndim == 2 or index.shape[-1] == 1):
                classes = index.detach().reshape(index.shape[0], -1)
                fits = weight is not None and weight.numel() == classes.numel()
                found.append((classes, weight.reshape(classes.shape) if fits and weight is not None else None))
            continue
        if name == "Mul" and len(below) == 1:
            sides = [_data(fn, f"_raw_saved_{side}") for side in ("self", "other")]
            weight = next((side for side in sides if side is not None and side.numel() > 1), weight)
        elif name == "MaskedFill" and (mask := _data(fn, "_raw_saved_mask")) is not None:
            weight = ~mask
        elif name == "Where" and (mask := _data(fn, "_raw_saved_condition")) is not None:
            weight = mask
        elif name == "Index":
            continue  # which of the picked ones were chosen is not kept
        todo += [(b, weight) for b in below]
    return found


def _data(fn: Fn, name: str) -> Tensor | None:
    """A saved tensor without running anybody's unpack hook."""
    data = getattr(getattr(fn, name, None), "data", None)
    return data if isinstance(data, Tensor) else None


def averaged_over(loss: Tensor, most: int = 6) -> tuple[Tensor | float, bool] | None:
    """(how many numbers a loss by hand is the mean of, whether that mean was divided again): `(nll * m).sum() / m.sum() / 8`.

    The count is the last divisor before a sum, or the size of a mean; None where the loss is made in another way.
    """
    fn, again = loss.grad_fn, False
    for _ in range(most):
        if fn is None or not (below := inputs(fn)):
            return None
        name = op(fn)
        if name == "Mean":
            return float(getattr(fn, "_saved_self_sym_numel", 0) or 0), again
        if name == "Div":
            under = inputs(below[0]) if op(below[0]) == "Neg" else below
            count = getattr(getattr(fn, "_raw_saved_other", None), "data", None)
            if under and op(under[0]) == "Sum" and isinstance(count, Tensor) and count.numel() == 1:
                return count, again
        elif name not in ("Mul", "Neg", *_MOVES):
            return None
        fn, again = below[0], again or name in ("Div", "Mul")
    return None


def broadcast_difference(loss: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(prediction's shape, difference's shape) of a hand-written loss whose subtraction grew by broadcasting, else None.

    Looks only along `mean or sum of (power, abs or product of) a difference`, the way such losses are written. A
    difference that is larger than the prediction in it means that the other side stretched the prediction.
    """
    fn = loss.grad_fn
    for _ in range(6):
        if fn is None:
            return None
        name = op(fn)
        if name in ("Sub", "Rsub"):
            return _stretched(fn)
        below = inputs(fn)
        if name not in ("Mean", "Sum", "Pow", "Abs", "Mul", "Div", "SmoothL1Loss", "HuberLoss", "Sqrt") or not below:
            return None
        fn = below[0]
    return None


def _stretched(fn: Fn) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(N,1) - (N,) and its mirror image: N numbers that became N x N. Other growth (pairwise distances) is by design."""
    grown = shape(fn)
    for side in inputs(fn):
        own = shape(side)
        if own is None or grown is None or op(side) in ("Unsqueeze", "Expand"):
            continue
        n = own[0] if own else 0
        if n > 1 and own in ((n,), (n, 1)) and grown == (n, n):
            return own, grown
    return None


def hand_written_target(loss: Tensor, output: Tensor) -> tuple[Tensor, bool] | None:
    """(target, whether it is the plain mean of squares) of a loss like `((output - y) ** 2).mean()`, up to rounding; else None.

    The square (or the absolute value) keeps the difference for the backward, and the output is known: the rest is the target.
    """
    fn = loss.grad_fn
    for _ in range(4):
        if fn is None or op(fn) not in ("Mean", "Sum", "Div", "Mul", "Sqrt"):
            break
        if op(fn) == "Mul" and len(inputs(fn)) == 2:
            break
        fn = next(iter(inputs(fn)), None)
    if fn is None or op(fn) not in ("Pow", "Abs", "Mul"):
        return None
    below = inputs(fn)
    difference = getattr(getattr(fn, "_raw_saved_self", None), "data", None)  # without running anybody's unpack hook
    if not below or any(b is not below[0] for b in below) or op(below[0]) not in ("Sub", "Rsub"):
        return None
    if not isinstance(difference, Tensor) or difference.numel() != output.numel():
        return None
    sides = [side for side, _ in below[0].next_functions]
    own = [i for i, side in enumerate(sides) if side is not None]
    if len(own) != 1 or all(node is not output.grad_fn for node in behind(sides[own[0]])):
        return None
    sign = 1.0 if own[0] == 1 or op(below[0]) == "Rsub" else -1.0
    square = op(fn) == "Mul" or (op(fn) == "Pow" and getattr(fn, "_saved_exponent", None) == 2)
    plain = square and op(loss.grad_fn) == "Mean" and inputs(loss.grad_fn) == [fn]
    return output.detach().reshape(-1) + sign * difference.detach().reshape(-1), plain
