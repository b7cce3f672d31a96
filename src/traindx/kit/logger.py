"""One logger for TensorBoard and W&B: scalars, gradient norms, histograms, rates, sample batches; either one alone is fine."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from traindx.errors import EnvironmentFault
from traindx.measures import norms, readable, spread, wide
from traindx.trials.task import evaluating

MOST_SAMPLES = 16  # of a batch that are shown


class TrainingLogger:
    """Writes to TensorBoard in `folder`, and to W&B when a run of it is given (`wandb.init(mode="offline")` works).

        with TrainingLogger("runs/exp1", wandb=wandb.init(project="p", mode="offline")) as logger:
            logger.scalars({"train/loss": loss}, step)
            logger.gradients(model, step)

    Histograms are made of at most 16 K entries of each tensor. The model's mode, gradients and hooks are put back as they were.

    >>> class Printed:  # anything with log() and finish(), such as a run of W&B
    ...     def log(self, numbers, step): print(step, numbers)
    ...     def finish(self): pass
    >>> with TrainingLogger(wandb=Printed()) as logger:
    ...     logger.scalars({"train/loss": torch.tensor(0.5)}, step=3)
    3 {'train/loss': 0.5}
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, wandb: Any = None) -> None:
        self.writer: Any = None
        self.wandb = wandb
        if folder is not None:
            try:
                self.writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(os.fspath(folder))
            except ModuleNotFoundError as why:
                raise EnvironmentFault("the TensorBoard half of the logger needs: pip install tensorboard") from why

    def __enter__(self) -> TrainingLogger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def scalars(self, metrics: Mapping[str, Any], step: int) -> None:
        """Numbers and one-element tensors by name."""
        numbers = {name: float(v.detach() if isinstance(v, Tensor) else v) for name, v in metrics.items()}
        if self.writer is not None:
            for name, value in numbers.items():
                self.writer.add_scalar(name, value, step)
        if self.wandb is not None:
            self.wandb.log(numbers, step=step)

    def gradients(self, model: nn.Module, step: int) -> None:
        """The gradient norm of every parameter that has one, and of all together; call it after backward()."""
        held = {name: p.grad for name, p in model.named_parameters() if p.grad is not None and readable(p.grad)}
        if held:
            each = norms(list(held.values())).tolist()
            total = math.sqrt(sum(v * v for v in each))
            self.scalars({**{f"grad_norm/{n}": v for n, v in zip(held, each, strict=True)}, "grad_norm/total": total}, step)

    def rates(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """The learning rate of every parameter group."""
        self.scalars({f"lr/group_{i}": group["lr"] for i, group in enumerate(optimizer.param_groups)}, step)

    def weights(self, model: nn.Module, step: int) -> None:
        """Histograms of every parameter and of its gradient."""
        named = list(model.named_parameters())
        self._histograms([(f"weights/{n}", p) for n, p in named] + [(f"gradients/{n}", p.grad) for n, p in named], step)

    def statistics(self, model: nn.Module, step: int) -> None:
        """Norm, mean and standard deviation of every weight tensor, as scalars."""
        held = {name: wide(p.detach()) for name, p in model.named_parameters() if p.numel() > 1 and readable(p)}
        if held:
            rows = torch.stack([torch.stack([p.norm(), p.mean(), p.std()]) for p in held.values()]).tolist()
            words = ("weight_norm", "weight_mean", "weight_std")
            self.scalars({f"{word}/{n}": v for n, row in zip(held, rows, strict=True) for word, v in zip(words, row)}, step)

    def activations(self, model: nn.Module, inputs: Any, step: int) -> None:
        """Histograms of what every leaf module gives for these inputs, in eval mode; the mode is put back afterwards."""
        seen: list[tuple[str, Any]] = []

        def hook(name: str) -> Any:
            return lambda module, args, output: seen.append((f"activations/{name}", output))

        handles = [m.register_forward_hook(hook(n)) for n, m in model.named_modules() if not any(m.children())]
        try:
            with evaluating(model):
                model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
        finally:
            for handle in handles:
                handle.remove()
        self._histograms(seen, step)

    def batch(self, inputs: Tensor, labels: Iterable[Any], step: int, *, name: str = "batch") -> None:
        """The first samples of a batch with their labels: pictures as pictures, anything else as a table of text."""
        named = [str(v) for v in (labels.tolist() if isinstance(labels, Tensor) else list(labels))][:MOST_SAMPLES]
        shown = inputs[:MOST_SAMPLES].detach().float().cpu()
        if shown.dim() == 4 and shown.shape[1] in (1, 3):
            self._pictures(_scaled(shown), named, step, name)
            return
        rows = [[label, " ".join(f"{v:.3g}" for v in sample.reshape(-1)[:12].tolist())] for label, sample in zip(named, shown)]
        if self.writer is not None:
            lines = ["| label | values |", "|---|---|", *(f"| {a} | {b} |" for a, b in rows)]
            self.writer.add_text(name, "\n".join(lines), step)
        if self.wandb is not None:
            table = importlib.import_module("wandb").Table(columns=["label", "values"], data=rows)
            self.wandb.log({name: table}, step=step)

    def _pictures(self, shown: Tensor, named: list[str], step: int, name: str) -> None:
        if self.writer is not None:
            self.writer.add_images(name, shown, step)
            self.writer.add_text(f"{name}/labels", ", ".join(named), step)
        if self.wandb is not None:
            image = importlib.import_module("wandb").Image
            pictures = [image(p.permute(1, 2, 0).numpy(), caption=label) for p, label in zip(shown, named)]
            self.wandb.log({name: pictures}, step=step)

    def _histograms(self, named: list[tuple[str, Any]], step: int) -> None:
        values = {n: spread(t).float().cpu().reshape(-1) for n, t in named if readable(t)}
        values = {n: v[torch.isfinite(v)] for n, v in values.items()}
        values = {n: v for n, v in values.items() if len(v)}
        if self.writer is not None:
            for n, v in values.items():
                self.writer.add_histogram(n, v, step)
        if self.wandb is not None:
            histogram = importlib.import_module("wandb").Histogram
            self.wandb.log({n: histogram(v.numpy()) for n, v in values.items()}, step=step)

    def close(self) -> None:
        """Write the rest; the W&B run is finished, too."""
        if self.writer is not None:
            self.writer.close()
        if self.wandb is not None:
            self.wandb.finish()


def _scaled(pictures: Tensor) -> Tensor:
    """Each picture stretched to 0 … 1."""
    low = pictures.amin((1, 2, 3), keepdim=True)
    return (pictures - low) / (pictures.amax((1, 2, 3), keepdim=True) - low).clamp_min(1e-12)
