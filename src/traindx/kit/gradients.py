"""Gradients one by one: a table after a backward, statistics, their course over a run, clipping that tells what it did."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from traindx.errors import UsageError
from traindx.measures import norms, wide

APART = 1000.0  # a layer this many times below or above the median stands apart; healthy nets stay within a factor of 100


@dataclass(frozen=True)
class GradientRow:
    """One parameter: the norms of its gradient and of its weights; `grad` is None where there is no gradient."""

    name: str
    grad: float | None
    weight: float
    entries: int
    note: str = ""  # empty, or what is odd about it

    @property
    def ratio(self) -> float | None:
        """Gradient norm over weight norm; None where either is missing."""
        return self.grad / self.weight if self.grad is not None and self.weight else None


@dataclass(frozen=True)
class GradientTable:
    """A row per parameter; prints as a table."""

    rows: tuple[GradientRow, ...]

    @property
    def total(self) -> float:
        """The 2-norm of all gradients together."""
        return math.sqrt(sum(r.grad**2 for r in self.rows if r.grad is not None))

    def __iter__(self) -> Iterator[GradientRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> GradientRow:
        return next(r for r in self.rows if r.name == name)

    def __str__(self) -> str:
        width = max((len(r.name) for r in self.rows), default=9)
        lines = [f"{'parameter':<{width}}  {'gradient':>10}  {'weight':>10}  {'ratio':>9}"]
        for r in self.rows:
            lines.append(
                f"{r.name:<{width}}  {_cell(r.grad):>10}  {_cell(r.weight):>10}  {_cell(r.ratio):>9}  {r.note}".rstrip()
            )
        return "\n".join([*lines, f"{'together':<{width}}  {_cell(self.total):>10}"])


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def gradient_table(model: nn.Module) -> GradientTable:
    """A row per parameter with the norms of gradient and weights, and what is odd about it. Call it after backward().

    Odd is a missing, zero or non-finite gradient, and one whose size per entry is 1000 times off the median of this model:
    absolute limits would depend on the scale of the loss.

    >>> model = nn.Linear(2, 1)
    >>> model(torch.tensor([[3.0, 4.0]])).sum().backward()
    >>> gradient_table(model)["weight"].grad
    5.0
    """
    named = list(model.named_parameters())
    if not named:
        return GradientTable(())
    weights = norms([p.detach() for _, p in named]).tolist()
    have = [p.grad.detach().to_dense() if p.grad.is_sparse else p.grad.detach() for _, p in named if p.grad is not None]
    sizes = iter(norms(have).tolist() if have else [])
    grads = [next(sizes) if p.grad is not None else None for _, p in named]
    each = [g / math.sqrt(p.numel()) for g, (_, p) in zip(grads, named) if g and math.isfinite(g)]
    usual = median(each) if each else 0.0
    return GradientTable(
        tuple(
            GradientRow(name, g, w, p.numel(), _note(p, g, usual))
            for (name, p), g, w in zip(named, grads, weights, strict=True)
        )
    )


def _note(p: Tensor, grad: float | None, usual: float) -> str:
    if grad is None:
        return "no gradient" if p.requires_grad else "frozen"
    if not math.isfinite(grad):
        return "not finite"
    if grad == 0:
        return "zero"
    factor = grad / math.sqrt(p.numel()) / usual
    if factor < 1 / APART:
        return f"{1 / factor:.0f} times below the median"
    return f"{factor:.0f} times above the median" if factor > APART else ""


def gradient_statistics(model: nn.Module) -> dict[str, dict[str, float]]:
    """Per parameter that has a gradient: mean, std, mean and largest magnitude, share of exact zeros, non-finite entries.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> model(torch.tensor([[3.0, 0.0]])).sum().backward()
    >>> gradient_statistics(model)["weight"]["zeros"]
    0.5
    """
    return {name: _statistics(p.grad.detach()) for name, p in model.named_parameters() if p.grad is not None}


def _statistics(grad: Tensor) -> dict[str, float]:
    flat = wide(grad.to_dense() if grad.is_sparse else grad).reshape(-1)
    fine = flat[torch.isfinite(flat)]
    bad = flat.numel() - fine.numel()
    if not fine.numel():
        return {"mean": math.nan, "std": math.nan, "mean_abs": math.nan, "max_abs": math.nan, "zeros": 0.0, "nonfinite": bad}
    return {
        "mean": float(fine.mean()),
        "std": float(fine.std(unbiased=False)),
        "mean_abs": float(fine.abs().mean()),
        "max_abs": float(fine.abs().max()),
        "zeros": float((flat == 0).float().mean()),
        "nonfinite": bad,
    }


class GradientFlow:
    """Gradient norms per parameter over a run, and a chart of them.

    >>> model = nn.Linear(2, 1)
    >>> flow = GradientFlow(model)
    >>> for step in range(3):
    ...     model(torch.ones(1, 2)).sum().backward()
    ...     flow.record(step)
    >>> len(flow.steps), list(flow.norms)
    (3, ['weight', 'bias'])
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.steps: list[int] = []
        self.norms: dict[str, list[float]] = {name: [] for name, _ in model.named_parameters()}

    def record(self, step: int) -> None:
        """Take the norms of this step, after backward(); NaN where a parameter has no gradient."""
        self.steps.append(step)
        for row in gradient_table(self.model):
            past = self.norms.setdefault(row.name, [math.nan] * (len(self.steps) - 1))
            past.append(math.nan if row.grad is None else row.grad)

    def plot(self, path: str | Path | None = None, *, most: int = 12) -> Any:
        """A plotly figure, one line per parameter from input to output; `path` (.html) also writes it, readable offline."""
        import plotly.graph_objects as go

        names = list(self.norms)
        shown = names if len(names) <= most else [names[round(i * (len(names) - 1) / (most - 1))] for i in range(most)]
        figure = go.Figure(
            [go.Scatter(x=self.steps, y=[v if v > 0 else None for v in self.norms[n]], name=n, mode="lines") for n in shown]
        )
        figure.update_layout(title="Gradient norm per parameter", xaxis_title="step", yaxis_title="norm")
        figure.update_yaxes(type="log", exponentformat="power")
        return saved(figure, path)


def saved(figure: Any, path: str | Path | None) -> Any:
    """The figure, written to `path` where one is given: one HTML file that needs no network."""
    if path is not None:
        if Path(path).suffix != ".html":
            raise UsageError(f"charts are written as .html; {path} is not (the figure itself has write_image, with kaleido)")
        figure.write_html(path, include_plotlyjs=True)
    return figure


@dataclass(frozen=True)
class Clipped:
    """What a clipping found and did."""

    norm: float  # before
    scale: float  # what the gradients were multiplied by: 1 when nothing was done

    @property
    def clipped(self) -> bool:
        """Whether the gradients were made smaller."""
        return self.scale < 1

    @property
    def finite(self) -> bool:
        """Whether the gradients were finite; if not they are as they were, and the step is better not made."""
        return math.isfinite(self.norm)


def clip_and_log(
    parameters: nn.Module | Iterable[Tensor], max_norm: float, *, log: Callable[[str], Any] | None = None
) -> Clipped:
    """Clip by global norm and say what was done; `log` gets a line when it had to. Waits once for the device.

    Gradients that are not finite are left alone: scaling by a NaN norm would spread one bad entry over the whole model.

    >>> w = nn.Parameter(torch.zeros(2))
    >>> w.grad = torch.tensor([3.0, 4.0])
    >>> clip_and_log([w], 1.0)
    Clipped(norm=5.0, scale=0.2)
    """
    if max_norm <= 0:
        raise UsageError(f"gradients are clipped to a norm above zero; got {max_norm}")
    params = list(parameters.parameters() if isinstance(parameters, nn.Module) else parameters)
    grads = [p.grad for p in params if p.grad is not None]
    norm = float(torch.linalg.vector_norm(norms(grads))) if grads else 0.0
    if not math.isfinite(norm):
        if log is not None:
            log(f"gradient norm {norm}: not clipped, better skip this step")
        return Clipped(norm, 1.0)
    if norm <= max_norm:
        return Clipped(norm, 1.0)
    torch._foreach_mul_(grads, max_norm / norm)
    if log is not None:
        log(f"gradient norm {norm:.4g} clipped to {max_norm:.4g}")
    return Clipped(norm, max_norm / norm)
