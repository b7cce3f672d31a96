"""Label information: do the labels go with these inputs at all? A permutation test on mean gradients (CATALOGUE 2.17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from traindx.run import Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.task import Batch, Task, Twin, evaluating, size_of, split, tensors, to_device

SURE, NOTHING = 4.0, 2.0


@trial("label-info", steps=480, most=lambda t: t.batches * (t.permutations + 1))
@dataclass(frozen=True)
class LabelInfo:
    """Do the labels belong to the inputs? The mean gradient under the true pairing against that under permuted labels.

    "No first-order signal at these weights" is not proof of bad labels: parity-like tasks show none either.
    """

    batches: int = 16
    permutations: int = 24

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Compare the gradient's agreement over batches with its agreement under shuffled labels."""
        batches = [to_device(b, task.device) for b in task.batches(self.batches)]
        if len(batches) < 4:
            return Result("label-info", "undecided", {}, "needs at least 4 batches")
        if why := unlabelled(task, batches):
            return Result("label-info", "refused", {}, why)
        with task.twin() as twin:
            twin.model.eval()
            _centre(twin, batches)
            rng = torch.Generator().manual_seed(0)
            true = self._agreement(twin, batches, None)
            null = []
            for i in range(self.permutations):
                null.append(self._agreement(twin, batches, rng))
                progress(i + 1, self.permutations, "permuting labels")
        z = (true - float(np.mean(null))) / (float(np.std(null, ddof=1)) or 1e-30)
        answer = {"z": z, "n": sum(map(size_of, batches)), "permutations": self.permutations}
        run = Run.of({"trial/null": null}, facts={"trial.label_info": answer}, kind="trial")
        steps = len(batches) * (self.permutations + 1)
        if abs(z) >= SURE:
            return Result(
                "label-info", "pass", answer, f"the labels carry information about the inputs (z {z:.1f})", run, steps
            )
        if abs(z) < NOTHING:
            return Result(
                "label-info",
                "fail",
                answer,
                f"shuffling the labels changes nothing (z {z:.1f}): they do not belong to these inputs, or the task has no first-order signal",
                run,
                steps,
            )
        return Result("label-info", "undecided", answer, f"weak sign of information (z {z:.1f}); use more batches", run, steps)

    def _agreement(self, twin: Twin, batches: list[Batch], rng: torch.Generator | None) -> float:
        """Unbiased square of the mean gradient of the last layers: ΣΣ_{i≠j} g_i·g_j."""
        targets = torch.cat([split(b)[1] for b in batches])
        if rng is not None:
            targets = targets[torch.randperm(len(targets), generator=rng).to(targets.device)]
        total, squares, at = None, 0.0, 0
        for batch in batches:
            n = len(split(batch)[1])
            g = _gradient(twin, _with_target(batch, targets[at : at + n]))
            at += n
            squares += float(g @ g)
            total = g if total is None else total + g
        assert total is not None
        k = len(batches)
        return (float(total @ total) - squares) / (k * (k - 1))


def unlabelled(task: Task, batches: list[Batch]) -> str:
    """Why these batches have no labels that could be shuffled; nothing where they have."""
    if not all(isinstance(b, Mapping) or (isinstance(b, list | tuple) and len(b) > 1) for b in batches):
        return "a batch is one thing: there are no labels to shuffle"
    targets = [split(b)[1] for b in batches]
    if not all(isinstance(t, Tensor) and t.ndim for t in targets):
        return "no tensor of a batch is known to be the labels"
    if len({t.shape[1:] for t in targets}) > 1:
        return "the labels of batches differ in shape"
    every = torch.cat(targets)
    if bool((every == every[0]).all()):
        return "all labels are the same: shuffling them is no change"
    if _goes_in(task, batches[0], targets[0]):
        return "what comes last in a batch goes into the model, so it is no label"
    return ""


def _goes_in(task: Task, batch: Batch, target: Tensor) -> bool:
    """Whether a module of the model is called with the target, or a part of it that starts where it does."""
    given: set[int] = set()

    def note(module: nn.Module, args: Any, kwargs: Any) -> None:
        given.update(t.data_ptr() for t in tensors((args, kwargs)))

    with task.twin() as twin, evaluating(twin.model):
        handles = [m.register_forward_pre_hook(note, with_kwargs=True) for m in twin.model.modules()]
        try:
            twin.loss(batch)
        finally:
            for handle in handles:
                handle.remove()
    return target.data_ptr() in given


def _gradient(twin: Twin, batch: Batch) -> Tensor:
    params = [p for p in twin.model.parameters() if p.requires_grad]
    grads = torch.autograd.grad(twin.loss_to_fall(batch), params, allow_unused=True)
    return torch.cat([g.detach().reshape(-1).double() for g in grads if g is not None])


def _with_target(batch: Batch, target: Tensor) -> Batch:
    if isinstance(batch, dict):
        _, old = split(batch)
        return {k: target if v is old else v for k, v in batch.items()}
    return (*batch[:-1], target)


def _centre(twin: Twin, batches: list[Batch]) -> None:
    """Start the last bias at the prior, so that the class mix alone makes no gradient."""
    last = next(
        (m for m in reversed(list(twin.model.modules())) if isinstance(m, nn.Linear | nn.Conv2d) and m.bias is not None), None
    )
    targets = torch.cat([split(b)[1].reshape(-1) for b in batches])
    if last is None or last.bias is None:
        return
    with torch.no_grad():
        if not targets.is_floating_point():
            counts = torch.bincount(targets[targets >= 0], minlength=len(last.bias)).float() + 0.5
            if len(counts) == len(last.bias):
                last.bias.copy_((counts / counts.sum()).log())
        elif len(last.bias) == 1:
            last.bias.fill_(float(targets.float().mean()))
