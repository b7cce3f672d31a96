"""Reading one loss call: what kind it is, and small tensors that say what went into it.

Everything here takes the call's own tensors and gives back a few numbers still on their device; nothing waits, nothing is
kept, the model is not called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from traindx import innards
from traindx.probe import Forward, LossCall

# Function -> (kind, its positional parameters).
_OLD = ("size_average", "reduce", "reduction")
SIGNATURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "cross_entropy": (
        "ce",
        ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"),
    ),
    "nll_loss": ("nll", ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction")),
    "binary_cross_entropy": ("bce", ("input", "target", "weight", *_OLD)),
    "binary_cross_entropy_with_logits": ("bce_logits", ("input", "target", "weight", *_OLD, "pos_weight")),
    "mse_loss": ("mse", ("input", "target", *_OLD, "weight")),
    "l1_loss": ("l1", ("input", "target", *_OLD, "weight")),
    "smooth_l1_loss": ("huber", ("input", "target", *_OLD, "beta")),
    "huber_loss": ("huber", ("input", "target", "reduction", "delta", "weight")),
    "kl_div": ("kl", ("input", "target", *_OLD, "log_target")),
    "ctc_loss": ("ctc", ("input", "target", "input_lengths", "target_lengths", "blank", "reduction", "zero_infinity")),
    "poisson_nll_loss": ("unknown", ("input", "target", "log_input", "full", "size_average", "eps", "reduce", "reduction")),
    "gaussian_nll_loss": ("unknown", ("input", "target", "var", "full", "eps", "reduction")),
    "multi_margin_loss": ("margin", ("input", "target", "p", "margin", "weight", *_OLD)),
    "multilabel_margin_loss": ("margin", ("input", "target", *_OLD)),
    "multilabel_soft_margin_loss": ("margin", ("input", "target", "weight", *_OLD)),
    "soft_margin_loss": ("margin", ("input", "target", *_OLD)),
    "hinge_embedding_loss": ("margin", ("input", "target", "margin", *_OLD)),
    "margin_ranking_loss": ("margin", ("input", "other", "target", "margin", *_OLD)),
    "cosine_embedding_loss": ("margin", ("input", "other", "target", "margin", *_OLD)),
    "triplet_margin_loss": ("margin", ("input", "other", "negative", "margin", "p", "eps", "swap", *_OLD)),
    "triplet_margin_with_distance_loss": ("margin", ("input", "other", "negative")),
}
REGRESSION = ("mse", "l1", "huber")
BINARY = ("bce", "bce_logits")
CLASSES = ("ce", "nll")
# Losses whose value may fall below zero without anything being wrong.
_MAY_BE_NEGATIVE = frozenset({"poisson_nll_loss", "gaussian_nll_loss", "kl_div"})
_INT = (torch.int64, torch.int32, torch.int16, torch.uint8, torch.int8)

MOST = 131_072  # elements looked at in one pass: about 0.2 ms on one core
FEWEST_ROWS = 32  # but never fewer rows than this, however many classes there are


@dataclass(frozen=True)
class Spoken:
    """A loss call by the names of its arguments."""

    name: str
    kind: str
    input: Tensor
    target: Tensor | None
    weight: Tensor | None
    ignore_index: int
    reduction: str
    smoothing: float
    bend: float  # where a Huber-like loss turns linear
    may_be_negative: bool

    @property
    def indices(self) -> bool:
        """The targets are class indices of a classification loss."""
        return self.kind in CLASSES and self.target is not None and self.target.dtype in _INT

    @property
    def classes(self) -> int | None:
        """Number of classes C; a binary loss has two."""
        if self.kind in CLASSES:
            return int(self.input.shape[1] if self.input.ndim > 1 else self.input.shape[0]) if self.input.ndim else None
        return 2 if self.kind in BINARY else None


def read(call: LossCall) -> Spoken | None:
    """The call by names; None when it is not one of torch's loss functions or its input is no plain tensor."""
    kind, names = SIGNATURES.get(call.name, ("unknown", ("input", "target")))
    said: dict[str, Any] = dict(zip(names, call.args, strict=False)) | call.kwargs
    first = said.get("input", said.get("log_probs", said.get("input1", said.get("anchor"))))
    if not plain(first):
        return None
    target = said.get("target", said.get("targets"))
    weight = said.get("weight") if said.get("weight") is not None else said.get("pos_weight")
    return Spoken(
        call.name,
        kind,
        first,
        target if plain(target) else None,
        weight if plain(weight) else None,
        int(said.get("ignore_index", -100)),
        _reduction(said),
        float(said.get("label_smoothing") or 0.0),
        float(said.get("delta", said.get("beta", 1.0))),
        call.name in _MAY_BE_NEGATIVE,
    )


def summed_over(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Over how many targets (samples, where they are no classes) a loss call took the sum; 0 when it took none."""
    if kwargs.get("reduction", getattr(module, "reduction", None)) != "sum":
        return 0
    given = [t for t in (*args, *kwargs.values()) if plain(t) and t.ndim]
    target = _classes(args, kwargs)
    if target is not None:
        return counted(module, args, kwargs)[0] or target.numel()
    return int(given[0].shape[0]) if given else 0


def counted(module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """How many class targets of a call are not ignored, of how many; (0, 0) for other targets and other devices."""
    target = _classes(args, kwargs)
    if target is None or target.device.type != "cpu":
        return 0, 0
    ignored = kwargs.get("ignore_index", getattr(module, "ignore_index", -100))
    return int(np.count_nonzero(np.asarray(target.detach()) != ignored)), target.numel()


def _classes(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
    target = kwargs.get("target", args[1] if len(args) > 1 else None)
    return target if plain(target) and target.dtype in _INT else None


def _reduction(said: Mapping[str, Any]) -> str:
    if said.get("reduce") is False:
        return "none"
    if said.get("size_average") is False:
        return "sum"
    return "mean" if said.get("reduction") == "batchmean" else str(said.get("reduction") or "mean")


def plain(value: Any) -> TypeGuard[Tensor]:
    """A dense tensor with numbers in it that ordinary operations take."""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and not value.is_nested
        and not value.is_quantized
        and not value.is_complex()
        and value.device.type != "meta"
        and value.numel() > 0
        and not hasattr(type(value), "__tensor_flatten__")  # wrappers with tensors inside: sharded, fake
        and not innards.functorch_wrapped(value)
    )


def some(flat: Tensor, most: int = MOST) -> Tensor:
    """At most `most` elements of a tensor, evenly spread, as one row."""
    flat = flat.reshape(-1) if flat.is_contiguous() else flat.flatten()
    step = -(-flat.numel() // most)
    return flat[::step]


@dataclass(frozen=True)
class Rows:
    """Logits and targets of a classification call as a table, thinned evenly: sequences stay together."""

    logits: Tensor  # (G*k, C), float32
    targets: Tensor  # (G*k,), int64
    groups: int  # samples (sequences, images) behind the rows
    each: int  # rows kept of every sample
    length: int  # rows a sample really has
    every: int = 1  # one sample of so many was kept


def rows(said: Spoken, samples: int | None = None, most: int = MOST) -> Rows | None:
    """The table of a classification call with class indices; None for anything else. `samples`: batch size of the model's
    input, which tells a flattened (N·L, C) call apart into its sequences."""
    if not said.indices or said.target is None or said.input.ndim < 1:
        return None
    logits, targets = said.input, said.target
    if logits.ndim == 1:
        logits, targets = logits[None], targets.reshape(1)
    count = int(logits.shape[1])
    total = targets.numel()
    if total != logits.numel() // count:
        return None
    groups = int(logits.shape[0])
    if logits.ndim == 2 and samples and 1 < samples < groups and groups % samples == 0:
        groups = samples
    length = total // groups
    if logits.ndim > 2:
        logits = logits.flatten(2).movedim(1, -1)  # (N, L, C)
    table, marks = logits.reshape(groups, length, count) if logits.ndim == 2 else logits, targets.reshape(groups, length)
    budget, still = max(FEWEST_ROWS, most // max(1, count)), 1
    if (over := -(-groups * length // budget)) > 1:
        along = min(length, over)  # thin positions first: other samples say more than more of the same one
        table, marks = table[:, ::along], marks[:, ::along]
        if (still := -(-groups * table.shape[1] // budget)) > 1:
            table, marks = table[::still], marks[::still]
    kept, each = int(table.shape[0]), int(table.shape[1])
    return Rows(table.reshape(-1, count).float(), marks.reshape(-1).long(), kept, each, length, max(1, still))


def classification(said: Spoken, table: Rows) -> dict[str, Tensor]:
    """accuracy, confidence, top_share, logz, maxabs, output_std, valid, sample_var, and the (C,) counts of targets."""
    logits, targets = table.logits, table.targets
    count = logits.shape[1]
    valid = (targets != said.ignore_index).float()
    n = valid.sum().clamp(min=1.0)
    logp = torch.log_softmax(logits, 1)
    top, guess = logp.max(1)
    known = targets.clamp(0, count - 1)
    own = logp.gather(1, known[:, None])[:, 0]
    hits = (guess == targets).float() * valid
    guessed = logits.new_zeros(count).index_add_(0, guess, valid)
    if said.kind == "nll":  # the loss took what it was given, not a softmax of it
        own = logits.gather(1, known[:, None])[:, 0]
    losses = -own * (1 - said.smoothing) - logp.mean(1) * said.smoothing
    heavy = valid if said.weight is None or said.weight.numel() != count else valid * said.weight.float()[known]
    return {
        "accuracy": hits.sum() / n,
        "confidence": (top.exp() * valid).sum() / n,
        "top_share": guessed.max() / n,
        "logz": ((logits[:, 0] - logp[:, 0]) * valid).sum() / n,
        "maxabs": logits.abs().max(),
        "output_std": spread(logits),
        "valid": valid.mean(),
        "sample_var": ratio_variance(losses.view(table.groups, -1), heavy.view(table.groups, -1), table.length),
        "losses": losses,
        "hits": hits,
        "guess": guess,
        "logp": logp,
        "weights": heavy,
    }


def spread(outputs: Tensor) -> Tensor:
    """Mean over outputs of the deviation over samples."""
    if outputs.shape[0] < 2:
        return outputs.new_full((), float("nan"))
    return outputs.std(0).mean()


def ratio_variance(losses: Tensor, weights: Tensor, length: int) -> Tensor:
    """Variance of per-sample losses such that (variance / samples) is that of Σwl/Σw.

    losses, weights  # (samples, rows kept of each). Linearised ratio estimator; where only k of L rows of a sample were
    looked at, the noise of that choice, within·(1/k − 1/L), is taken off again.
    """
    samples, each = losses.shape
    if samples < 2:
        return losses.new_full((), float("nan"))
    whole = weights.sum(1)
    usual = whole.mean().clamp(min=1e-12)
    mean = (losses * weights).sum() / weights.sum().clamp(min=1e-12)
    off = ((losses - mean) * weights).sum(1) / usual
    spread = off.var()
    if 1 < each < length:
        own = (losses * weights).sum(1, keepdim=True) / whole.clamp(min=1e-12)[:, None]
        within = (((losses - own) ** 2 * weights).sum(1) / (whole - 1).clamp(min=1.0)).mean()
        spread = (spread - within * (1 / each - 1 / length)).clamp(min=0.0)
    return spread


def elementwise(said: Spoken) -> Tensor | None:
    """(N, features) losses of a regression or binary call, thinned along the features; None when it cannot be done."""
    x, y = said.input, said.target
    if y is None or x.ndim < 1 or x.shape != y.shape:
        return None
    step = max(1, -(-x.numel() // MOST))
    x, y = (t.reshape(t.shape[0], -1)[:, ::step].float() for t in (x, y))
    if said.kind == "mse":
        return (x - y) ** 2
    if said.kind == "l1":
        return (x - y).abs()
    if said.kind == "huber":
        off, bend = (x - y).abs(), said.bend
        losses = torch.where(off < bend, 0.5 * off**2, bend * (off - 0.5 * bend))
        return losses / bend if said.name == "smooth_l1_loss" and bend else losses
    if said.kind == "bce":
        return -(y * x.log().clamp(min=-100) + (1 - y) * (1 - x).log().clamp(min=-100))
    if said.kind == "bce_logits":
        return x.clamp(min=0) - x * y + torch.log1p(torch.exp(-x.abs()))
    return None


def binary(said: Spoken) -> dict[str, Tensor]:
    """accuracy, confidence and top_share of a two-class call."""
    x, y = some(said.input).float(), some(said.target).float() if said.target is not None else None
    p = x if said.kind == "bce" else torch.sigmoid(x)
    guess = (p > 0.5).float()
    share = guess.mean()
    out = {
        "confidence": torch.maximum(p, 1 - p).mean(),
        "top_share": torch.maximum(share, 1 - share),
        "output_std": spread(said.input.reshape(said.input.shape[0], -1)[:, :64].float()) if said.input.ndim else x.std(),
        "maxabs": x.abs().max(),
    }
    if y is not None and y.shape == x.shape:
        out["accuracy"] = (guess == (y > 0.5).float()).float().mean()
    return out


def batch_size(forward: Forward) -> int | None:
    """The first size of the first tensor a model was given."""
    for value in (*forward.args, *forward.kwargs.values()):
        if isinstance(value, Tensor) and value.ndim:
            return int(value.shape[0])
    return None
