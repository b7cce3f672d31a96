"""Precision: does half precision change this step, and in which module first? (CATALOGUE T06)"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials import paste
from traindx.trials.state import random_kept
from traindx.trials.task import Batch, Task, Twin

EXPECTED_LOSS = {"bfloat16": 2e-2, "float16": 5e-3}  # relative error a layer may add
EXPECTED = {getattr(torch, name): error for name, error in EXPECTED_LOSS.items()}


@trial("precision", steps=4)
@dataclass(frozen=True)
class Precision:
    """The same batch in fp32 and under autocast: loss, gradients, and the first module whose output departs."""

    dtype: str = "bfloat16"

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """One step each way, from the same weights and random numbers."""
        low = getattr(torch, self.dtype)
        [batch] = task.batches(1)
        with task.twin() as twin:
            twin.model.train()
            kept = twin.snapshot()
            full = _step(twin, batch, None)
            twin.restore(kept)
            half = _step(twin, batch, low)
        errors = {n: _error(full.outputs[n], half.outputs[n]) for n in full.outputs if n in half.outputs}
        culprit = _culprit(errors, EXPECTED.get(low, 2e-2))
        grad = _error(full.gradient, half.gradient)
        answer: dict[str, Any] = {
            "loss_fp32": full.loss,
            f"loss_{self.dtype}": half.loss,
            "gradient_error": grad,
            "first_module": culprit,
            "zeros_gained": half.zeros - full.zeros,
        }
        run = Run.of(
            {"trial/error": list(errors.values())},
            facts={"trial.underflow": {"zeros_gained": half.zeros - full.zeros}},
            kind="trial",
        )
        if math.isfinite(full.loss) and not math.isfinite(half.loss):
            return Result(
                "precision",
                "fail",
                answer,
                f"finite in fp32, {half.loss} in {self.dtype}; {culprit or 'the loss'} departs first",
                run,
                2,
            )
        if not math.isfinite(full.loss):
            return Result(
                "precision", "undecided", answer, "the loss is not finite in fp32 either: precision is not to blame", run, 2
            )
        if culprit:
            return Result(
                "precision",
                "fail",
                answer,
                f"{culprit} is off by {errors[culprit]:.1%} in {self.dtype}, the first to depart",
                run,
                2,
            )
        answer["code"] = paste.mixed_precision(self.dtype)
        return Result(
            "precision",
            "pass",
            answer,
            f"{self.dtype} changes the loss by {abs(half.loss - full.loss) / max(abs(full.loss), 1e-12):.2%} and the gradient by {grad:.1%}",
            run,
            2,
        )


@dataclass
class _Pass:
    loss: float
    outputs: dict[str, Tensor]
    gradient: Tensor
    zeros: float


def _step(twin: Twin, batch: Batch, dtype: torch.dtype | None) -> _Pass:
    outputs: dict[str, Tensor] = {}
    names = {m: n for n, m in twin.model.named_modules() if n}

    def keep(module: nn.Module, args: Any, out: Any) -> None:
        if module in names and isinstance(out, Tensor) and out.is_floating_point():
            outputs.setdefault(names[module], out.detach().float().clone())

    handles = [m.register_forward_hook(keep) for m in names if not list(m.children())]
    device = torch.device(twin.task.device or "cpu").type
    try:
        with random_kept(seed=0), torch.autocast(device, dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            twin.model.zero_grad(set_to_none=True)
            loss = twin.loss_to_fall(batch)
        loss.float().backward()
    finally:
        for handle in handles:
            handle.remove()
    grads = [p.grad.detach().float().reshape(-1) for p in twin.model.parameters() if p.grad is not None]
    flat = torch.cat(grads) if grads else torch.zeros(1)
    return _Pass(float(loss.detach()), outputs, flat, float((flat == 0).float().mean()))


def _error(a: Tensor, b: Tensor) -> float:
    if a.shape != b.shape:
        return math.nan
    size = float(torch.linalg.vector_norm(a))
    return float(torch.linalg.vector_norm(a - b)) / size if size > 0 else 0.0


def _culprit(errors: dict[str, float], expected: float) -> str:
    """The first module in forward order whose error is five times that of everything before it and beyond the expected."""
    worst = 0.0
    for name, error in errors.items():
        if not math.isfinite(error) or (error > 5 * max(worst, expected / 5) and error > 3 * expected):
            return name
        worst = max(worst, error)
    return ""
