"""What to make of an origin: who is to blame, and what to write instead."""

from __future__ import annotations

import math
from dataclasses import dataclass

from traindx.forensics.trace import Origin

HALF = {"float16": 65504.0, "bfloat16": 3.39e38}


@dataclass(frozen=True)
class Advice:
    """Who is to blame (batch, weights, precision or operation), why, and what to write instead."""

    blame: str
    why: str
    write: str


GROWN = 1e12  # [def] far beyond any activation or weight of a healthy network, far below the end of float32
_GROWING = (
    "mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "dot", "convolution", "_convolution", "mul", "add", "sub", "sum",
    "square", "pow", "prod", "cumsum", "cumprod", "mse_loss", "norm", "linalg_vector_norm",
)  # fmt: skip
_LOG = "give the loss logits (`F.cross_entropy`, `F.logsigmoid`, `log_softmax`), or `clamp(min=1e-6)` before the log"
_FAMILIES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("log", "log2", "log10", "log1p", "xlogy", "special_entr"), "a logarithm of {low:.3g}", _LOG),
    (
        ("sqrt", "rsqrt", "norm", "linalg_vector_norm", "_weight_norm_interface", "cdist", "_cdist_forward", "pairwise"),
        "a root or norm at {low:.3g}",
        "put the epsilon inside: `(x.square().sum(-1) + 1e-12).sqrt()`",
    ),
    (
        ("div", "reciprocal", "remainder", "fmod"),
        "a division by {smallest:.3g}",
        "divide by `x.clamp(min=1e-6)` or add an epsilon to the denominator; for normalising use `F.normalize(x, eps=1e-6)`",
    ),
    (
        ("exp", "exp2", "expm1", "sinh", "cosh"),
        "an exponential of {high:.3g}",
        "subtract the maximum first, or use `logsumexp`/`softmax`; clamp the exponent",
    ),
    (
        ("_softmax", "_log_softmax", "softmax", "_safe_softmax"),
        "a softmax row without a finite entry",
        "keep at least one unmasked position per row, or mask with `torch.finfo(dtype).min`",
    ),
    (
        ("pow", "special_zeta"),
        "a power of a base down to {low:.3g}",
        "clamp the base away from 0, or keep negative bases out of fractional powers",
    ),
    (
        ("acos", "asin", "atanh", "acosh", "erfinv", "special_erfinv", "logit"),
        "an argument at the edge of the domain ({low:.3g} … {high:.3g})",
        "clamp to `(-1 + 1e-6, 1 - 1e-6)`",
    ),
    (
        ("std", "var", "var_mean", "std_mean", "native_batch_norm", "native_layer_norm", "native_group_norm"),
        "a spread of too few elements",
        "one element has no spread: use `unbiased=False`, a larger batch, or guard the case",
    ),
    (
        ("mean", "nll_loss_forward", "nll_loss2d_forward"),
        "a mean over nothing",
        "skip batches without a valid target, or divide by `count.clamp(min=1)`",
    ),
    (
        _GROWING,
        "values that outgrew {dtype} (operands up to {high:.3g})",
        "find what grew: lower the learning rate, normalise, clip gradients; in half precision keep this in fp32",
    ),
    (("tan", "gamma", "lgamma", "digamma", "polygamma"), "a pole of the function", "keep the argument away from its poles"),
)


FUSED = {"log": "`F.cross_entropy` or `F.logsigmoid` on the logits", "exp": "`torch.logsumexp` or `log_softmax`"}


def advise(origin: Origin, *, bad_batch: bool = False, bad_weights: bool = False, finite_in_fp32: bool | None = None) -> Advice:
    """Blame and remedy of the first proven origin."""
    numbers = _numbers(origin)
    why, write = _family(origin.op, numbers)
    if bad_batch:
        return Advice(
            "batch", "the batch itself holds NaN or infinity", "drop or clean those samples before they reach the model"
        )
    if bad_weights:
        return Advice("weights", "the weights were already not finite", "go back to a checkpoint whose weights are finite")
    if finite_in_fp32 or (finite_in_fp32 is None and _outgrew_half(origin)):
        limit = HALF.get(origin.dtype, float("nan"))
        return Advice("precision", f"{why}; {origin.dtype} ends at {limit:.3g}", "use bf16, or run this operation in fp32")
    if _outgrew_single(origin):
        return Advice("weights", why, "find what grew: lower the learning rate, warm up, normalise or clip gradients")
    return Advice("operation", why, write)


def _numbers(o: Origin) -> dict[str, object]:
    lows = [x.low for x in o.operands if math.isfinite(x.low)]
    highs = [abs(v) for x in o.operands for v in (x.low, x.high, x.smallest) if math.isfinite(v)]
    small = [x.smallest for x in o.operands[-1:] if math.isfinite(x.smallest)]
    return {
        "low": min(lows, default=float("nan")),
        "high": max(highs, default=float("nan")),
        "smallest": min(small, default=float("nan")),
        "dtype": o.dtype,
    }


def _family(op: str, numbers: dict[str, object]) -> tuple[str, str]:
    base = op.removeprefix("_foreach_").removesuffix("_backward").rstrip("_")
    for names, why, write in _FAMILIES:
        if base in names:
            return why.format(**numbers), write
    return f"`{op}` on operands up to {numbers['high']:.3g}", "keep its inputs inside the operation's domain"


def _outgrew_single(o: Origin) -> bool:
    """A sum or product of numbers that no healthy network holds: something had been growing for a while."""
    return o.phase == "forward" and o.op.rstrip("_") in _GROWING and _top(o) > GROWN


def _top(o: Origin) -> float:
    return max((abs(v) for x in o.operands for v in (x.low, x.high, x.smallest) if math.isfinite(v)), default=0.0)


def _outgrew_half(o: Origin) -> bool:
    """A half-precision infinity from operands that fp32 would have carried with ease."""
    return o.dtype in HALF and o.value != "nan" and _top(o) > 0 and o.op.rstrip("_") in (*_GROWING, "exp", "_to_copy")
