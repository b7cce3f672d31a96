"""What an investigation costs: one traced step against a normal one, and the counterfactual passes apart.

    python bench/forensics.py

The step breaks in its loss (a logarithm of zero), so that the trace meets an origin and the proof has something to repair. The
time of a normal step is the median of eleven; `trace` is the pass that names the operation, `proof` everything after it.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from traindx.forensics.trace import explain, trace

torch.set_num_threads(1)


class GPT(nn.Module):
    """Four layers of width 128, 64 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, norm_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, 256)

    def forward(self, ids: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.body(self.tokens(ids), mask=mask, is_causal=True)).flatten(0, 1)


def cnn() -> nn.Module:
    """Four convolutions with batch norm on 32 × 32 pictures."""
    widths = (3, 32, 64, 64, 128)
    parts: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        parts += [nn.Conv2d(a, b, 3, stride=2 if b > 32 else 1, padding=1), nn.BatchNorm2d(b), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def tiny() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))


def stepper(model: nn.Module, x: Tensor, broken: bool) -> Callable[[], list[Tensor]]:
    """One step of the model, with a loss that breaks or one that does not."""

    def step() -> list[Tensor]:
        model.zero_grad()
        p = torch.softmax(model(x) * (1e4 if broken else 1.0), -1)
        loss = -torch.log(p if broken else p + 1e-6).mean()
        loss.backward()
        return [loss, *(p.grad for p in model.parameters() if p.grad is not None)]

    return step


def median_of(step: Callable[[], object], times: int = 11) -> float:
    seen = []
    for _ in range(times):
        begun = time.perf_counter()
        step()
        seen.append(time.perf_counter() - begun)
    return statistics.median(seen)


def main() -> None:
    torch.manual_seed(0)
    cases = {
        "tiny": (tiny(), torch.randn(32, 16)),
        "cnn": (cnn(), torch.randn(32, 3, 32, 32)),
        "gpt": (GPT(), torch.randint(0, 256, (16, 64))),
    }
    for name, (model, x) in cases.items():
        normal = median_of(stepper(model, x, broken=False))
        step = stepper(model, x, broken=True)
        traced = median_of(lambda step=step, model=model: trace(step, [model]), 5)  # type: ignore[misc]
        begun = time.perf_counter()
        found = explain(step, [model], seconds=60)
        whole = time.perf_counter() - begun
        ok = bool(found.origins) and any(o.proven and o.op == "log" for o in found.origins)
        print(
            f"{name:5} step {normal * 1e3:7.1f} ms   trace {traced * 1e3:7.1f} ms = {traced / normal:4.1f}×   "
            f"proof {(whole - traced) * 1e3:7.1f} ms   named {ok}"
        )


if __name__ == "__main__":
    main()
