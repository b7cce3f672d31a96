"""What `traindx.seed_everything(seed, deterministic=True)` costs: a step with deterministic algorithms against one without.

    python -m bench.determinism    # writes bench/results/determinism.md

Each workload is measured by `Seeds.price`, which takes turns between the two, five times over; the middle of the five ratios
is the figure. On a processor few operations have a deterministic twin; on CUDA the price is higher, and has to be measured there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import traindx

RESULTS = Path(__file__).parent / "results"
ROUNDS, TIMES = 5, 20


def step_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], Any]:
    """One update of a classifier."""
    optimizer = torch.optim.Adam(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def bag() -> nn.Module:
    """Embeddings that are summed by index: their gradient is added up by index, too."""
    return nn.Sequential(nn.Embedding(5000, 64), nn.Flatten(), nn.Linear(64 * 32, 10))


def workloads() -> dict[str, Callable[[], Any]]:
    """Small models of usual kinds, by name."""
    y = torch.randint(0, 10, (64,))
    conv = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    attention = nn.Sequential(layer, nn.Flatten(), nn.Linear(64 * 16, 10))
    mlp = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    return {
        "perceptron, 64 × 256": step_of(mlp, torch.randn(64, 256), y),
        "convolutions, 64 × 3 × 32 × 32": step_of(conv, torch.randn(64, 3, 32, 32), y),
        "attention, 64 × 16 × 64": step_of(attention, torch.randn(64, 16, 64), y),
        "embeddings, 64 × 32 of 5,000": step_of(bag(), torch.randint(0, 5000, (64, 32)), y),
    }


def main() -> None:
    """Measure and write."""
    lines = [
        f"A step with `traindx.seed_everything(0, deterministic=True)` against one without (`python -m bench.determinism`; torch "
        f"{torch.__version__.partition('+')[0]} on a processor, {torch.get_num_threads()} thread; middle and range of {ROUNDS} "
        f"measurements of {TIMES} pairs of steps, taken in turns while other work ran beside). On CUDA the price is another: `seeds.price(step)` measures it there.",
        "",
        "| workload | as it is | deterministic | ratio |",
        "|---|---|---|---|",
    ]
    with traindx.seed_everything(0) as seeds:
        for name, step in workloads().items():
            prices = sorted((seeds.price(step, times=TIMES) for _ in range(ROUNDS)), key=lambda p: p.ratio)
            middle = prices[ROUNDS // 2]
            span = f"{middle.ratio:.2f} ({prices[0].ratio:.2f}–{prices[-1].ratio:.2f})"
            lines.append(f"| {name} | {middle.usual_s * 1e3:.2f} ms | {middle.deterministic_s * 1e3:.2f} ms | {span} |")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "determinism.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
