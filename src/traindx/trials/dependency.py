"""Dependency by gradient: does one sample's output depend on another sample, or a position on its future?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.task import Batch, Task, Twin, apply, evaluating, size_of, split, take, tensors, to_device

MIXING = 1e-6  # off-sample over own gradient: exactly 0 in plain nets, .1 to 1 where samples mix (CATALOGUE WIRE009)


@trial("dependency", steps=2, most=lambda t: 4)
@dataclass(frozen=True)
class Dependency:
    """Which inputs an output depends on, in eval mode: its own sample only? its own past only? its input at all?

    Contrastive losses and in-batch negatives mix samples by design, encoders read the future by design; this trial looks at
    the model's output, not at the loss.
    """

    samples: int = 8
    causal: bool | None = None  # None: look at time when the output has a time axis, and only report it

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Back-propagate one sample's output to every input, then one position's."""
        batch = to_device(take(task.samples(self.samples), self.samples), task.device)
        with task.twin() as twin, evaluating(twin.model, grad=True):
            leaves, output = _leaves(twin, batch)
            if output is None or not leaves:
                return Result("dependency", "undecided", {}, "no differentiable input or embedding was found", steps=1)
            sample = _by_sample(leaves, output, size_of(batch))
            future = _by_time(leaves, output)
            cut = sample is None and _heard(twin, batch)
        answer: dict[str, Any] = {"off_sample": sample, "future": future}
        run = Run.of({}, facts={"trial.batch_mixing": sample, "trial.future_leak": future}, kind="trial")
        if cut:
            said = "no gradient leads from the output to its input, though it follows it: a part is detached, as GANs do"
            return Result("dependency", "undecided", answer, said, run, 4)
        if sample is None:
            return Result("dependency", "fail", answer, "the output does not depend on its input at all", run, 2)
        if sample > MIXING:
            return Result(
                "dependency",
                "fail",
                answer,
                f"samples of a batch mix: off-sample gradient is {sample:.2g} of the own one",
                run,
                2,
            )
        if self.causal and future is not None and future > 0:
            return Result(
                "dependency", "fail", answer, f"positions see their future: gradient {future:.2g} of the past's", run, 2
            )
        said = "each output depends on its own sample only"
        if future is not None:
            said += (
                "; no position sees its future"
                if future == 0
                else f"; positions see their future ({future:.2g}), as encoders do"
            )
        return Result("dependency", "pass", answer, said, run, 2)


def _leaves(twin: Twin, batch: Batch) -> tuple[list[Tensor], Tensor | None]:
    """The float inputs, or the outputs of embeddings when inputs are ids, and the model's output."""
    inputs, _ = split(batch)
    floats: list[Tensor] = []

    def free(t: Tensor) -> Tensor:
        if t.is_floating_point():
            t = t.detach().clone().requires_grad_(True)
            floats.append(t)
        return t

    from traindx.trials.task import _call, _main

    kept: list[Tensor] = []

    def keep(module: nn.Module, args: Any, out: Any) -> None:
        if isinstance(out, Tensor) and out.requires_grad:
            out.retain_grad()
            kept.append(out)

    handles = [m.register_forward_hook(keep) for m in twin.model.modules() if isinstance(m, nn.Embedding)]
    try:
        whole = twin.task.output
        output = _main(
            _call(twin.model, apply(free, inputs))
            if whole is None
            else whole(twin.model, apply(free, to_device(batch, twin.task.device)))
        )
    finally:
        for handle in handles:
            handle.remove()
    n = size_of(batch)
    leaves = [t for t in (floats or kept if whole is None else floats + kept) if t.ndim and t.shape[0] == n]
    return leaves, output if isinstance(output, Tensor) and output.ndim and output.shape[
        0
    ] == n and output.requires_grad else None


def _heard(twin: Twin, batch: Batch) -> bool:
    """Whether the output changes when every input does."""
    rng = torch.Generator().manual_seed(0)

    def other(t: Tensor) -> Tensor:
        if t.is_floating_point():
            return t + torch.randn(t.shape, generator=rng).to(t)
        return t.roll(1, 0) if t.ndim else t

    with torch.no_grad():
        plain, changed = (tensors(twin.task.output_of(twin.model, b)) for b in (batch, apply(other, batch)))
    return any(not torch.equal(a, b) for a, b in zip(plain, changed, strict=False))


def _by_sample(leaves: list[Tensor], output: Tensor, n: int) -> float | None:
    """Largest gradient of sample k's output to other samples, over that to its own; None when its own is zero."""
    k = n // 2
    grads = torch.autograd.grad(_mixed(output[k]), leaves, retain_graph=True, allow_unused=True)
    own = max((float(g[k].abs().max()) for g in grads if g is not None), default=0.0)
    others = torch.arange(n, device=output.device) != k
    off = max((float(g[others].abs().max()) for g in grads if g is not None and n > 1), default=0.0)
    if own == 0.0:
        return None if off == 0.0 else 1.0
    return off / own


def _mixed(output: Tensor) -> Tensor:
    """A sum with unequal weights: a plain one is constant for outputs that add up to one."""
    weights = torch.linspace(0.5, 1.5, output.numel(), device=output.device).reshape(output.shape)
    return (output.float() * weights).sum()


def _by_time(leaves: list[Tensor], output: Tensor) -> float | None:
    """Largest gradient of the output at the middle position to later inputs, over that to earlier ones."""
    long = next(
        (t for t in leaves if t.ndim >= 3 and output.ndim >= 3 and t.shape[1] == output.shape[1] and t.shape[1] > 2), None
    )
    if long is None:
        return None
    at = long.shape[1] // 2
    [grad] = torch.autograd.grad(_mixed(output[:, at]), [long], retain_graph=True, allow_unused=True)
    if grad is None:
        return None
    past, future = float(grad[:, : at + 1].abs().max()), float(grad[:, at + 1 :].abs().max())
    return future / past if past > 0 else (1.0 if future > 0 else 0.0)
