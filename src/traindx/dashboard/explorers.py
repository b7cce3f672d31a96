"""What the explorers of the dashboard compute live, in numpy: signal and gradient scale by depth, living units, weight shapes."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traindx.errors import UsageError

Floats = NDArray[np.float64]

_GELU = np.sqrt(2 / np.pi)


def _gelu(x: Floats) -> Any:
    return 0.5 * x * (1 + np.tanh(_GELU * (x + 0.044715 * x**3)))


def _gelu_slope(x: Floats) -> Any:
    t = np.tanh(_GELU * (x + 0.044715 * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * _GELU * (1 + 3 * 0.044715 * x**2)


ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(float)),
    "leaky-relu": (lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1.0, 0.01)),
    "gelu": (_gelu, _gelu_slope),
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    "sigmoid": (
        lambda x: 1 / (1 + np.exp(-np.clip(x, -60, 60))),
        lambda x: (s := 1 / (1 + np.exp(-np.clip(x, -60, 60)))) * (1 - s),
    ),
    "linear": (lambda x: x, lambda x: np.ones_like(x)),
}
INITS = {"he": 2.0, "xavier": 1.0, "uniform": 1 / 3, "zero": 0.0, "small": 0.01, "large": 16.0}  # variance × width
NORMS = ("none", "layer")
DEEPEST, WIDEST = 100, 512


def gradient_health(
    activation: str, init: str, depth: int, width: int, norm: str, residual: bool, seed: int = 0
) -> dict[str, Any]:
    """Forward and gradient scale by layer of a random net of that make, by one forward and one backward pass."""
    for what, value, known in (("activation", activation, ACTIVATIONS), ("init", init, INITS), ("norm", norm, NORMS)):
        if value not in known:
            raise UsageError(f"there is no {what} '{value}' here; there are {', '.join(known)}")
    if not (1 <= depth <= DEEPEST and 4 <= width <= WIDEST):
        raise UsageError(f"depth is 1 … {DEEPEST} and width 4 … {WIDEST}; got {depth} and {width}")
    f, slope = ACTIVATIONS[activation]
    rng = np.random.default_rng(seed)
    scale = np.sqrt(INITS[init] / width)
    draw = (
        (lambda size: rng.uniform(-np.sqrt(3), np.sqrt(3), size)) if init == "uniform" else (lambda size: rng.normal(size=size))
    )
    x = rng.normal(size=(64, width))
    tape: list[tuple[Floats, Floats, Floats, Floats]] = []
    forward = []
    for _ in range(depth):
        w = draw((width, width)) * scale
        h, spread = (x, np.ones((64, 1))) if norm == "none" else _normed(x)
        z = h @ w
        y = f(z) + (x if residual else 0)
        tape.append((w, z, h, spread))
        forward.append(float(np.sqrt(np.mean(y**2))))
        x = y
    g = rng.normal(size=x.shape) / x.size
    gradients, weight_gradients = [], []
    for w, z, h, spread in reversed(tape):
        through = g * slope(z)
        weight_gradients.append(float(np.linalg.norm(h.T @ through)))
        back = through @ w.T
        if norm != "none":
            back = (back - back.mean(1, keepdims=True) - h * (back * h).mean(1, keepdims=True)) / spread
        g = back + (g if residual else 0)
        gradients.append(float(np.sqrt(np.mean(g**2))))
    gradients.reverse()
    weight_gradients.reverse()
    first, last = max(weight_gradients[0], 1e-300), max(weight_gradients[-1], 1e-300)
    verdict = _verdict(first / last, forward) if any(weight_gradients) else "dead: no weight gets any gradient"
    return {"layers": list(range(1, depth + 1)), "forward": forward, "gradient": gradients, "weight_gradient": weight_gradients,
            "ratio": first / last, "verdict": verdict}  # fmt: skip


def _normed(x: Floats) -> tuple[Floats, Floats]:
    spread = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    return (x - x.mean(1, keepdims=True)) / spread, spread


def _verdict(ratio: float, forward: list[float]) -> str:
    if not np.isfinite(ratio) or not np.isfinite(forward[-1]) or ratio > 70 or forward[-1] > 1e2 * max(forward[0], 1e-30):
        return "exploding: signal or gradient grows with depth"
    if ratio < 1e-2:
        return "vanishing: the first layers receive a hundredth of the last one's gradient or less"
    if forward[-1] < 1e-2 * forward[0]:
        return "fading: the signal dies on the way"
    return "healthy: every layer gets a gradient of similar size"


def units_alive(lr: float, bias: float, depth: int, width: int, steps: int = 60, seed: int = 0) -> dict[str, Any]:
    """Living ReLU units by layer while a small net learns a random teacher with plain gradient descent."""
    depth, width = min(max(depth, 1), 12), min(max(width, 4), 128)
    lr, bias = float(np.clip(lr, 0, 1e3)), float(np.clip(bias, -10, 10))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(256, 16))
    target = np.tanh(x @ rng.normal(size=(16, 1)))
    sizes = [16, *[width] * depth, 1]
    weights = [rng.normal(size=(a, b)) * np.sqrt(2 / a) for a, b in itertools.pairwise(sizes)]
    biases = [np.full(b, bias if i < depth else 0.0) for i, b in enumerate(sizes[1:])]
    history, losses = [], []
    with np.errstate(all="ignore"):
        for _ in range(steps):
            hs, zs = [x], []
            for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
                zs.append(hs[-1] @ w + b)
                hs.append(np.maximum(zs[-1], 0) if i < depth else zs[-1])
            history.append([float((h > 0).any(0).mean()) if np.isfinite(h).all() else 0.0 for h in hs[1:-1]])
            error = hs[-1] - target
            losses.append(float(np.mean(error**2)))
            if not np.isfinite(losses[-1]) or losses[-1] > 1e12:
                break
            g = 2 * error / len(x)
            for i in reversed(range(len(weights))):
                if i < depth:
                    g = g * (zs[i] > 0)
                back = g @ weights[i].T
                weights[i] -= lr * hs[i].T @ g
                biases[i] -= lr * g.sum(0)
                g = back
    return {
        "layers": list(range(1, depth + 1)),
        "alive": history[-1],
        "history": history,
        "loss": losses,
        "diverged": len(losses) < steps or not np.isfinite(losses[-1]),
    }


# what is done to the same small net, and what comes of it
SHAPES: dict[str, tuple[dict[str, float], str]] = {
    "healthy": ({"lr": 0.05}, "One hump around zero, about as wide as √(2 / inputs) made it at the start."),
    "collapsed": (
        {"lr": 0.05, "decay": 0.3},
        "A needle at zero: weight decay pulls harder than the gradients; the layer learned to be silent (WGHT002).",
    ),
    "exploded": (
        {"lr": 0.5},
        "Stopped when it ran away: a few huge weights carry the layer, the steps were too long (WGHT001).",
    ),
    "bimodal": (
        {"lr": 0.3, "clip": 0.05},
        "Two heaps at the ends: weights are clipped after each step (as in early GANs) and nearly all hit the wall. Two humps without "
        "a wall, in gates or binarised layers, are often harmless.",
    ),
}  # fmt: skip


@cache
def weight_shapes() -> dict[str, Any]:
    """Histograms of the second layer of a small net after training it well, and in three ways that spoil it."""
    out = {}
    widest = (0.0, 0.0)
    for name, (how, says) in SHAPES.items():
        w, steps, loss = _second_layer(**how)
        lo, hi = np.quantile(w, [0.002, 0.998])
        if name == "healthy":
            widest = (lo, hi)
        elif name == "collapsed":  # on the scale of the healthy one: a needle
            lo, hi = widest
        counts, edges = np.histogram(w, bins=60, range=(float(lo), float(hi)))
        out[name] = {
            "counts": counts.tolist(),
            "edges": [float(f"{e:.5g}") for e in edges],
            "std": float(w.std()),
            "kurtosis": float(np.mean((w - w.mean()) ** 4) / w.var() ** 2),
            "how": ", ".join([f"{_TOLD[k]} {v:g}" for k, v in how.items()] + [f"{steps} steps", f"loss {loss:.3g}"]),
            "says": says,
        }
    return out


TRAINED = 250  # steps
_TOLD = {"lr": "learning rate", "decay": "weight decay", "clip": "weights clipped at"}


def _second_layer(lr: float, decay: float = 0.0, clip: float = 0.0) -> tuple[Floats, int, float]:
    """Its weights, the steps made and the last loss: a ReLU net of three hidden layers learns sines by plain gradient descent."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 16))
    target = np.sin(x @ rng.normal(size=(16, 4)))
    weights = [rng.normal(size=(a, b)) * np.sqrt(2 / a) for a, b in itertools.pairwise([16, 64, 64, 64, 4])]
    losses: list[float] = []
    for _ in range(TRAINED):
        hs = [x]
        for i, w in enumerate(weights):
            hs.append(hs[-1] @ w if i == len(weights) - 1 else np.maximum(hs[-1] @ w, 0))
        error = hs[-1] - target
        losses.append(float(np.mean(error**2)))
        if losses[-1] > 1e6:
            break
        g = 2 * error / error.size
        for i in reversed(range(len(weights))):
            back = (g @ weights[i].T) * (hs[i] > 0) if i else g
            weights[i] -= lr * (hs[i].T @ g + decay * weights[i])
            if clip:
                weights[i] = np.clip(weights[i], -clip, clip)
            g = back
    return weights[1].ravel(), len(losses), losses[-1]
