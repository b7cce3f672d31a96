"""Gradient noise scale: how large a batch still pays, from small and large batches of the same data (CATALOGUE 2.14)."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.task import Task, size_of, take


@trial("noise-scale", steps=100, most=lambda t: 5 * t.draws)
@dataclass(frozen=True)
class NoiseScale:
    """How noisy is the gradient: B_noise is the batch at which noise and signal are equal.

    Below it a larger batch is nearly free progress, far above it is waste. Late in training only a lower bound is honest.
    """

    draws: int = 50

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Compare |gradient|² of whole batches with that of their parts."""
        rows = []
        drawn = list(task.cycle(self.draws))
        big = max(map(size_of, drawn))
        b = max(1, big // 8)
        if b == big:
            return Result("noise-scale", "refused", {}, "batches of one sample cannot be split")
        with task.twin() as twin:
            twin.model.eval()  # BatchNorm and dropout would mix the two sizes
            for batch in itertools.islice(itertools.cycle(x for x in drawn if size_of(x) == big), self.draws):  # no last crumbs
                whole = _square(twin, batch)
                parts = [_square(twin, take(batch, b, s)) for s in range(0, b * min(4, big // b), b)]
                rows.append((whole, float(np.mean(parts))))
                progress(len(rows), self.draws, "gradients of small and large batches")
        large, part = np.array(rows).T
        signal = (big * large - b * part) / (big - b)
        noise = (part - large) / (1 / b - 1 / big)
        return self._judged(signal, noise, (b, big), task)

    def _judged(self, signal: np.ndarray, noise: np.ndarray, sizes: tuple[int, int], task: Task) -> Result:
        run = Run.of({"trial/signal": signal, "trial/noise": noise}, kind="trial")
        n = len(signal)
        error = float(np.std(signal, ddof=1)) / math.sqrt(n)
        steps = n * (1 + min(4, sizes[1] // sizes[0]))
        if signal.mean() - 2 * error <= 0:
            bound = noise.mean() / (signal.mean() + 2 * error) if signal.mean() + 2 * error > 0 else math.inf
            bounded = {"lower_bound": float(bound), "batch": sizes[1]}
            return Result("noise-scale", "undecided", bounded, f"the signal drowns: B_noise is above {bound:.0f}", run, steps)
        value = float(noise.mean() / signal.mean())
        leave = [(noise.sum() - noise[i]) / (signal.sum() - signal[i]) for i in range(n)]
        spread = math.sqrt((n - 1) / n * float(np.sum((np.array(leave) - np.mean(leave)) ** 2)))
        answer: dict[str, Any] = {
            "noise_scale": value,
            "interval": [max(0.0, value - 2 * spread), value + 2 * spread],
            "batch": sizes[1],
            "lr_factors": _factors(value, sizes[1], task),
        }
        advice = (
            "a larger batch would nearly pay for itself"
            if sizes[1] < value / 2
            else "a smaller batch would do as well per sample"
            if sizes[1] > 2 * value
            else "the batch is well chosen"
        )
        return Result(
            "noise-scale",
            "done",
            answer,
            f"B_noise ≈ {value:.3g} ± {2 * spread:.2g}; your batch is {sizes[1]}: {advice}; "
            f"twice the batch bears {answer['lr_factors']['2']:.2f} times the rate",
            run,
            steps,
        )


def _factors(noise: float, batch: int, task: Task) -> dict[str, float]:
    """By how much the rate may grow with the batch: 1/(1 + B_noise/B) for SGD, its root for adaptive optimizers."""
    sgd = task.optimizer is None or type(task.optimizer).__name__ == "SGD"
    gain = {k: (1 + noise / batch) / (1 + noise / (k * batch)) for k in (0.5, 2, 4, 8)}
    return {f"{k:g}": g if sgd else math.sqrt(g) for k, g in gain.items()}


def _square(twin: object, batch: object) -> float:
    params = [p for p in twin.model.parameters() if p.requires_grad]  # type: ignore[attr-defined]
    grads = torch.autograd.grad(twin.loss_to_fall(batch), params, allow_unused=True)  # type: ignore[attr-defined]
    return float(sum((g.double() ** 2).sum() for g in grads if g is not None))
