"""Generated curves of the shapes and patterns the lessons name: noise, length and scale vary with the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Numbers = dict[str, Any]


class Draw:
    """One curve's own scale, length and noise."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.n = int(self.rng.choice([120, 200, 400, 800, 1500]))
        self.classes = int(self.rng.choice([2, 4, 10, 100]))
        self.chance = float(np.log(self.classes))
        self.noise = float(self.rng.uniform(0.005, 0.04)) * self.chance
        self.t = np.arange(self.n) / self.n

    def noisy(self, y: np.ndarray, much: float = 1.0) -> np.ndarray:
        return np.maximum(y + self.rng.normal(0, self.noise * much, len(y)), 1e-3)

    def falling(self, to: float, speed: float | None = None) -> np.ndarray:
        rate = speed if speed is not None else float(self.rng.uniform(4, 12))
        return to + (self.chance - to) * np.exp(-rate * self.t)

    def evaluated(self, y: np.ndarray, count: int = 20) -> tuple[np.ndarray, np.ndarray]:
        at = np.linspace(self.n // count, self.n - 1, count).astype(int)
        return at, y[at] + self.rng.normal(0, self.noise * 0.2, count)


def table(
    d: Draw, train: np.ndarray, val: np.ndarray | None = None, acc: np.ndarray | None = None, tacc: Any = None
) -> Numbers:
    """The columns as a script would keep them: None where nothing was evaluated."""
    out: Numbers = {"train_loss": train.tolist(), "num_classes": d.classes}
    for name, curve in (("val_loss", val), ("val_acc", acc), ("train_acc", tacc)):
        if curve is not None:
            at, values = d.evaluated(curve)
            if name.endswith("acc"):
                values = np.clip(values, 0.0, 1.0)
            column: list[float | None] = [None] * d.n
            for i, v in zip(at, values):
                column[int(i)] = float(v)
            out[name] = column
    return out


def accuracy(d: Draw, loss: np.ndarray) -> np.ndarray:
    share = np.clip((d.chance - loss) / d.chance, 0, 1)
    return 1 / d.classes + (0.99 - 1 / d.classes) * share


def healthy(d: Draw) -> Numbers:
    low = d.falling(0.1 * d.chance)
    return table(d, d.noisy(low), low + 0.02 * d.chance, accuracy(d, low))


def exploding(d: Draw) -> Numbers:
    y = d.falling(0.4 * d.chance)
    at = int(d.rng.uniform(0.3, 0.7) * d.n)
    rise = np.zeros(d.n)
    rise[at:] = np.expm1(np.linspace(0, d.rng.uniform(4, 8), d.n - at)) * 0.3 * d.chance
    return table(d, d.noisy(y) + rise, y + rise)


def stuck(d: Draw) -> Numbers:
    y = np.full(d.n, d.chance) * (1 - 0.01 * d.t)
    return table(d, d.noisy(y, 0.5), y, np.full(d.n, 1 / d.classes))


def oscillating(d: Draw) -> Numbers:
    y = d.falling(0.5 * d.chance, 8)
    period = float(d.rng.uniform(6, 14))
    swing = 0.3 * d.chance * np.sin(2 * np.pi * np.arange(d.n) / period) * np.minimum(1, 5 * d.t)
    return table(d, d.noisy(y + swing), None)


def overfit(d: Draw) -> Numbers:
    train = d.falling(0.02 * d.chance, 8)
    best = 0.25
    val = np.where(d.t < best, d.falling(0.35 * d.chance, 10), 0)
    low = d.falling(0.35 * d.chance, 10)[int(best * d.n)]
    val = np.where(d.t < best, val, low + d.rng.uniform(0.5, 1.5) * d.chance * (d.t - best))
    return table(d, d.noisy(train, 0.3), val)


def underfit(d: Draw) -> Numbers:
    y = d.falling(d.rng.uniform(0.7, 0.85) * d.chance, 25)
    return table(d, d.noisy(y, 0.6), y + 0.01 * d.chance, accuracy(d, y))


def crawling(d: Draw) -> Numbers:
    y = d.chance * (1 - d.rng.uniform(0.04, 0.08) * d.t)
    return table(d, d.noisy(y, 0.3), y)


def loss_falls_accuracy_stands(d: Draw) -> Numbers:
    y = d.falling(0.45 * d.chance)
    flat = np.full(d.n, 1 / d.classes + 0.25)
    return table(d, d.noisy(y), y + 0.02 * d.chance, flat, flat)


def accuracy_rises_loss_stands(d: Draw) -> Numbers:
    y = np.where(d.t < 0.2, d.falling(0.5 * d.chance, 20), d.falling(0.5 * d.chance, 20)[int(0.2 * d.n)])
    acc = 1 / d.classes + (0.9 - 1 / d.classes) * np.minimum(1, 1.1 * d.t + 0.2)
    return table(d, d.noisy(y), y, acc)


def overconfident(d: Draw) -> Numbers:
    train = d.falling(0.02 * d.chance, 8)
    low = d.falling(0.3 * d.chance, 14)
    val = low + np.where(d.t > 0.3, d.rng.uniform(0.6, 1.2) * d.chance * (d.t - 0.3), 0)
    acc = np.minimum(accuracy(d, low), accuracy(d, low)[int(0.3 * d.n)])
    return table(d, d.noisy(train, 0.3), val, acc)


def spikes(d: Draw) -> Numbers:
    y = d.noisy(d.falling(0.2 * d.chance))
    for at in d.rng.choice(np.arange(d.n // 5, d.n - 5), 4, replace=False):
        y[at] += d.rng.uniform(3, 8) * d.chance
    return table(d, y, d.falling(0.2 * d.chance) + 0.02)


SHAPES: dict[str, Callable[[Draw], Numbers]] = {
    "healthy": healthy, "exploding": exploding, "stuck": stuck, "oscillating": oscillating, "overfit": overfit,
    "underfit": underfit, "crawling": crawling, "loss falls, accuracy stands": loss_falls_accuracy_stands,
    "accuracy rises, loss stands": accuracy_rises_loss_stands, "overconfident": overconfident, "spikes": spikes,
}  # fmt: skip
