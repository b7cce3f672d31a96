"""Gradients one by one: a table after a backward, statistics, their course over a run, clipping that tells what it did."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from traindx import innards
from traindx.errors import UsageError
from traindx.kit.pictures import drawn
from traindx.measures import norms, wide
from traindx.report.picture import Line, Picture

NO_GRADIENT = "no parameter has a gradient: call this after backward() and before zero_grad()"
VANISH, EXPLODE = 1e-6, 10.0  # norms: the limits most people know; they depend on the scale of the loss
APART = 1000.0  # between a layer and those at the output: healthy nets stay within a factor of 100
OUTPUT = 3  # weights at the end of the model that the others are compared with
_COLOURS = {"ok": "green", "frozen": "dim", "vanishing": "yellow", "no gradient": "yellow"}


@dataclass(frozen=True)
class GradientRow:
    """One parameter: the norms of its gradient and of its weights; `grad` is None where there is no gradient."""

    name: str
    grad: float | None
    weight: float
    entries: int
    status: str = "ok"  # or: vanishing, exploding, no gradient, not finite, frozen
    note: str = ""  # empty, or why

    @property
    def ratio(self) -> float | None:
        """Gradient norm over weight norm; None where either is missing."""
        return self.grad / self.weight if self.grad is not None and self.weight else None


@dataclass(frozen=True)
class GradientTable:
    """A row per parameter; prints as a table, and in colours with `show()`."""

    rows: tuple[GradientRow, ...]

    @property
    def total(self) -> float:
        """The 2-norm of all gradients together."""
        return math.sqrt(sum(r.grad**2 for r in self.rows if r.grad is not None))

    @property
    def summary(self) -> str:
        """Smallest, largest and mean norm, the norm of all together, and how many rows are not ok."""
        have = [r for r in self.rows if r.grad is not None and math.isfinite(r.grad)]
        if not have:
            return NO_GRADIENT
        least, most = min(have, key=_size), max(have, key=_size)
        mean = sum(map(_size, have)) / len(have)
        counts = Counter(r.status for r in self.rows if r.status != "ok")
        told = ", ".join(f"{n} {word}" for word, n in counts.items()) or "all ok"
        return (
            f"min {_size(least):.3g} ({least.name}), max {_size(most):.3g} ({most.name}), mean {mean:.3g}, "
            f"together {self.total:.3g}: {told}"
        )

    def __iter__(self) -> Iterator[GradientRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> GradientRow:
        return next(r for r in self.rows if r.name == name)

    def __str__(self) -> str:
        width = max((len(r.name) for r in self.rows), default=9)
        lines = [f"{'parameter':<{width}}  {'gradient':>10}  {'weight':>10}  {'ratio':>9}  status"]
        for r in self.rows:
            cells = f"{r.name:<{width}}  {_cell(r.grad):>10}  {_cell(r.weight):>10}  {_cell(r.ratio):>9}"
            lines.append(f"{cells}  {_told(r)}")
        return "\n".join([*lines, self.summary])

    def __rich__(self) -> Table:
        table = Table("parameter", "gradient", "weight", "ratio", "status", caption=self.summary, box=None)
        for r in self.rows:
            table.add_row(r.name, _cell(r.grad), _cell(r.weight), _cell(r.ratio), _told(r), style=_COLOURS.get(r.status, "red"))
        return table

    def show(self) -> None:
        """Print it, in colours where the terminal has them."""
        Console().print(self)


def _size(row: GradientRow) -> float:
    return row.grad or 0.0


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _told(row: GradientRow) -> str:
    return f"{row.status}: {row.note}" if row.note else row.status


def gradient_table(model: nn.Module, *, vanish: float | None = VANISH, explode: float | None = EXPLODE) -> GradientTable:
    """A row per parameter with the norms of gradient and weights, and its status. Call it after backward().

    `vanish` and `explode` are limits on the norm; None switches them off, which you want where the loss is a sum or scaled.
    Apart from them each parameter is compared with the weights at the output, size per entry: a thousandth of it vanishes, a
    thousandfold explodes. Waits once for the device.

    >>> model = nn.Linear(2, 1)
    >>> model(torch.tensor([[3.0, 4.0]])).sum().backward()
    >>> gradient_table(model)["weight"].grad
    5.0
    >>> gradient_table(model)["weight"].status
    'ok'
    >>> gradient_table(model, explode=4.0)["weight"].status
    'exploding'
    """
    named = list(model.named_parameters())
    if not named:
        raise UsageError(f"{type(model).__name__} has no parameters, so there are no gradients to show")
    have = [_dense(p.grad) for _, p in named if p.grad is not None]
    sizes = norms([p.detach() for _, p in named] + have).tolist()
    weights, rest = sizes[: len(named)], iter(sizes[len(named) :])
    grads = [next(rest) if p.grad is not None else None for _, p in named]
    told = _judged([n for n, _ in named], [p for _, p in named], grads, (vanish, explode))
    cells = zip(named, grads, weights, told, strict=True)
    return GradientTable(tuple(GradientRow(name, g, w, p.numel(), *said) for (name, p), g, w, said in cells))


def _dense(grad: Tensor) -> Tensor:
    return grad.detach().to_dense() if grad.is_sparse else grad.detach()


def _judged(
    names: Sequence[str], params: Sequence[Tensor], grads: Sequence[float | None], limits: tuple[float | None, float | None]
) -> list[tuple[str, str]]:
    """Status and note of each parameter, from the norms of their gradients."""
    each = [g / math.sqrt(p.numel()) if g and math.isfinite(g) else None for g, p in zip(grads, params)]
    ends = [e for e, p in zip(each, params) if e is not None and p.ndim > 1] or [e for e in each if e is not None]
    usual = median(ends[-OUTPUT:]) if ends else 0.0
    out = [_status(p, g, e, usual, limits) for p, g, e in zip(params, grads, each, strict=True)]
    fine = {n.rpartition(".")[0] for n, p, (status, _) in zip(names, params, out) if p.ndim > 1 and status == "ok"}
    for i, (name, p) in enumerate(zip(names, params)):
        if out[i][0] == "vanishing" and p.ndim < 2 and name.rpartition(".")[0] in fine:
            out[i] = ("ok", "no effect: a norm or a softmax after it takes this bias away")
    return out


def _status(
    p: Tensor, grad: float | None, each: float | None, usual: float, limits: tuple[float | None, float | None]
) -> tuple[str, str]:
    if grad is None:
        return ("no gradient", "") if p.requires_grad else ("frozen", "")
    if not math.isfinite(grad):
        return "not finite", ""
    if each is None:
        return "no gradient", "it is exactly zero"
    vanish, explode = limits
    if explode is not None and grad > explode:
        return "exploding", f"norm above {explode:g}"
    if vanish is not None and grad < vanish:
        return "vanishing", f"norm below {vanish:g}"
    factor = each / usual
    if factor < 1 / APART:
        return "vanishing", f"{1 / factor:.0f} times below the layers at the output"
    return ("exploding", f"{factor:.0f} times above the layers at the output") if factor > APART else ("ok", "")


def gradient_statistics(
    model: nn.Module, *, tiny: float = 1e-7, vanish: float | None = VANISH, explode: float | None = EXPLODE
) -> dict[str, dict[str, Any]]:
    """For each parameter with a gradient: mean, std, mean, smallest and largest magnitude, and shares of zeros and of
    entries below `tiny`. Also non-finite entries, and the status of `gradient_table`, where `vanish` is a limit on the
    mean magnitude here.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> model(torch.tensor([[3.0, 0.0]])).sum().backward()
    >>> gradient_statistics(model)["weight"]["zeros"]
    0.5
    """
    named = [(name, p, _dense(p.grad)) for name, p in model.named_parameters() if p.grad is not None]
    if not named:
        raise UsageError(NO_GRADIENT)
    device = named[0][2].device
    rows = torch.stack([_statistics(g, tiny).to(device) for _, _, g in named]).tolist()  # one wait for all of them
    status = _judged([n for n, _, _ in named], [p for _, p, _ in named], [r[-1] for r in rows], (None, explode))
    out = {}
    for (name, _, _), row, (word, note) in zip(named, rows, status, strict=True):
        found = dict(zip(_FIGURES, row[:-1], strict=True))
        low = vanish is not None and (word, note) == ("ok", "") and found["mean_abs"] < vanish
        out[name] = {**found, "nonfinite": int(found["nonfinite"]), "status": "vanishing" if low else word}
    return out


_FIGURES = ("mean", "std", "mean_abs", "min_abs", "max_abs", "zeros", "tiny", "nonfinite")


def _statistics(grad: Tensor, tiny: float) -> Tensor:
    """What `_FIGURES` says, and the norm, of the finite entries; without a wait for the device."""
    flat = wide(grad).reshape(-1)
    fine = torch.isfinite(flat)
    n = fine.sum()
    kept = torch.where(fine, flat, 0.0)
    size = kept.abs()
    mean = kept.sum() / n
    spread = (torch.where(fine, flat - mean, 0.0).square().sum() / (n - 1).clamp(min=1)).sqrt()
    lost = flat.numel() - n
    norm = torch.where(lost > 0, math.nan, torch.linalg.vector_norm(kept))
    least = torch.where(fine, size, math.inf).amin()
    shares = [(flat == 0).float().mean(), ((size < tiny) & fine).float().mean()]
    return torch.stack([v.double() for v in (mean, spread, size.sum() / n, least, size.amax(), *shares, lost, norm)])


class GradientFlow:
    """Gradient norms per parameter over a run, and a chart of them.

    >>> model = nn.Linear(2, 1)
    >>> flow = GradientFlow(model)
    >>> for step in range(3):
    ...     model(torch.ones(1, 2)).sum().backward()
    ...     flow.record(step)
    >>> len(flow.steps), list(flow.norms)
    (3, ['weight', 'bias'])
    >>> [line.name for line in flow.picture(top_k=1).lines]
    ['weight']
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.steps: list[int] = []
        self.norms: dict[str, list[float]] = {name: [] for name, _ in model.named_parameters()}

    def record(self, step: int) -> None:
        """Take the norms of this step, after backward(); NaN where a parameter has no gradient. Waits once for the device."""
        self.steps.append(step)
        have = {name: _dense(p.grad) for name, p in self.model.named_parameters() if p.grad is not None}
        sizes = dict(zip(have, norms(list(have.values())).tolist())) if have else {}
        for name, _ in self.model.named_parameters():
            self.norms.setdefault(name, [math.nan] * (len(self.steps) - 1)).append(sizes.get(name, math.nan))

    def picture(self, *, top_k: int = 6, vanish: float | None = VANISH, explode: float | None = EXPLODE) -> Picture:
        """The `top_k` parameters with the largest mean norm over the steps, with the two limits as lines across."""
        table = {name: np.array(values) for name, values in self.norms.items()}
        means = {name: float(np.mean(v[np.isfinite(v)])) for name, v in table.items() if np.isfinite(v).any()}
        if not means:
            raise UsageError("no gradient was recorded: call record(step) after backward() and before zero_grad()")
        shown = sorted(means, key=lambda name: -means[name])[:top_k]
        steps = np.array(self.steps, dtype=float)
        levels = [(v, word) for v, word in ((vanish, "vanishing below"), (explode, "exploding above")) if v is not None]
        return Picture(
            "Gradient norm per parameter", f"{len(shown)} of {len(means)} parameters with a gradient, largest mean first",
            x_name="step", y_name="norm", log_y=True, levels=tuple(levels),
            lines=tuple(Line(name, steps, table[name]) for name in shown),
        )  # fmt: skip

    def plot(self, path: str | Path | None = None, **what: Any) -> Any:
        """Draw `picture(**what)` as a figure of plotly; `path` also writes it: .html, .svg, or .png with matplotlib."""
        return drawn(self.picture(**what), path)


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
    if not grads:
        raise UsageError(NO_GRADIENT)
    norm = float(torch.linalg.vector_norm(norms(grads)))
    if not math.isfinite(norm):
        if log is not None:
            log(f"gradient norm {norm}: not clipped, better skip this step")
        return Clipped(norm, 1.0)
    if norm <= max_norm:
        return Clipped(norm, 1.0)
    innards.foreach_mul_(grads, max_norm / norm)
    if log is not None:
        log(f"gradient norm {norm:.4g} clipped to {max_norm:.4g}")
    return Clipped(norm, max_norm / norm)
