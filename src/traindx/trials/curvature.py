"""Sharpness and landscape: curvature, rises along random directions, sections of the loss (CATALOGUE T17)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from traindx.errors import UsageError
from traindx.run import Matrix, Run
from traindx.trial import Progress, Result, silent, trial
from traindx.trials.floors import suspects
from traindx.trials.task import Batch, Task, Twin

Product = Callable[[Twin, Batch, Tensor], Tensor]
FLAT = 1e-6  # curvature over the loss below which there is none
ROOM, RESTARTS = 20, 15  # of Lanczos: vectors kept, and how often it starts again with the best of them
PRODUCTS = ROOM * (RESTARTS + 1)  # at most, for each end of the spectrum
LOST = 0.1  # an exact product this much smaller than differences of gradients has lost parts of the graph
SPENT = 0.05  # of the loss: what following the gradient can still gain where it leads nowhere
DEEP = 0.25  # of the largest eigenvalue: nets in the middle of training show a tenth of it downwards, too
NOTABLE = 0.1  # of the loss: a rise by this share is sharp, and marks the critical radius
MANY = 5.0  # a larger rise is told as a factor
UNTRAINED = 0.9  # of the loss of a model that knows nothing: above it nothing was learned
NOTHING = 0.01  # of the same: a rise or a gain below it is none


@trial("sharpness", steps=180, most=lambda t: 2 * PRODUCTS + 2 + t.directions * (1 + len(t.radii)))
@dataclass(frozen=True)
class Sharpness:
    """Is this minimum flat or sharp, and how curved is the loss here?

    Every weight tensor moves by `epsilon` of its own length in a random direction. The answer is the rise as a share of the
    loss, its interval and the word. The largest and smallest eigenvalue of the Hessian, SAM's rise, and rises along
    filter-normalised directions follow. Compare two checkpoints on the same data, never two models: flatness depends on how a
    net is written down. Away from a minimum neither word means anything, and the answer says so.
    """

    samples: int = 256
    directions: int = 20
    epsilon: float = 0.05
    radii: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1)
    rho: float = 0.05

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Random moves, then Lanczos, on a fixed batch."""
        batch = task.samples(self.samples)
        with task.twin() as twin:
            if not _params(twin):
                raise UsageError("the model has no trainable parameter, so the loss has no curvature")
            twin.model.eval()
            base = float(twin.loss(batch).detach())
            knows_nothing = max((f.level for f in suspects(twin, batch)), default=math.nan)
            moves = self._rises(twin, batch, base, lambda rng: tensor_normalised(twin, rng) * self.epsilon, progress)
            curve = product_of(twin, batch)
            top, bottom, products = eigenvalues(twin, batch, progress, curve)
            gradient = _gradient(twin, batch)
            norm = float(torch.linalg.vector_norm(gradient))
            sam = self._along(twin, batch, gradient / max(norm, 1e-30) * self.rho) - base
            rises = {
                r: self._rises(twin, batch, base, lambda rng, r=r: filter_normalised(twin, rng) * r, progress)  # type: ignore[misc]
                for r in self.radii
            }
        limit = _stability(task)
        small = norm < 1e-3 * max(1.0, math.sqrt(abs(top)))
        # With the noise of a batch in it the gradient is never that small: then what a Newton step along it could still gain counts.
        gain = norm**2 / (2 * max(abs(top), 1e-30))
        spent = gain < SPENT * abs(base)
        plateau = small and max(abs(top), abs(bottom)) < FLAT * max(abs(base), 1e-12)
        fitted = base < NOTHING * knows_nothing  # whatever bends downwards, there is nothing left to gain
        saddle = not plateau and not fitted and ((small and bottom < -0.05 * abs(top)) or (spent and bottom < -DEEP * abs(top)))
        untrained = base > UNTRAINED * knows_nothing
        arrived = small or gain < (NOTHING * knows_nothing if knows_nothing > 0 else SPENT * abs(base))
        at_minimum = arrived and not saddle and not plateau and not untrained
        flatness = _flatness(moves, base, knows_nothing) if at_minimum else {**_ratio(moves, base), "word": "not at a minimum"}
        answer: dict[str, Any] = {
            **flatness, "epsilon": self.epsilon, "perturbed_loss": base + float(np.mean(moves)), "loss": base,
            "lambda_max": top, "lambda_min": bottom, "grad_norm": norm, "sam_rise": sam,
            "random_rise": {f"{r:g}": v for r, v in rises.items()}, "products": products, "stability_limit": limit,
            "critical_radius": _critical(rises, base), "by": "differences" if curve is differenced else "autograd",
            "saddle": saddle, "plateau": plateau,
        }  # fmt: skip
        run = Run.of({"trial/radius": list(self.radii), "trial/rise": [np.median(v) for v in rises.values()]}, kind="trial")
        return Result(
            "sharpness", "done", answer, _said(answer, small), run, products + 2 + self.directions * (1 + len(self.radii))
        )

    def _along(self, twin: Twin, batch: Batch, direction: Tensor) -> float:
        with moved(twin, direction), torch.no_grad():
            return float(twin.loss(batch))

    def _rises(
        self, twin: Twin, batch: Batch, base: float, draw: Callable[[torch.Generator], Tensor], progress: Progress
    ) -> list[float]:
        rng = torch.Generator().manual_seed(0)
        rises = [self._along(twin, batch, draw(rng)) - base for _ in range(self.directions)]
        progress(1, 1, "random directions")
        return sorted(rises)


def _ratio(moves: list[float], base: float) -> dict[str, Any]:
    """The mean rise as a share of the loss, with the 95 % interval of the mean over the draws."""
    rises = np.array(moves) / (abs(base) + 1e-8)
    half = 1.96 * float(rises.std(ddof=1)) / math.sqrt(len(rises)) if len(rises) > 1 else math.inf
    mean = float(rises.mean())
    return {"ratio": mean, "interval": [mean - half, mean + half]}


def _flatness(moves: list[float], base: float, knows_nothing: float) -> dict[str, Any]:
    """Flat or sharp by the ratio, where the interval decides it, and whether the rise is small compared with what was learned."""
    told = _ratio(moves, base)
    low, high = told["interval"]
    nothing = float(np.mean(moves)) < NOTHING * knows_nothing
    word = "flat" if high < NOTABLE else "sharp" if low > NOTABLE else "between flat and sharp"
    return {**told, "word": word, "negligible": bool(nothing and high > NOTABLE)}


def _said(answer: dict[str, Any], small: bool) -> str:
    ratio, (low, high) = answer["ratio"], answer["interval"]
    change = f"changes the loss by {ratio:+.2%} ({low:+.2%} … {high:+.2%})"
    if ratio > MANY:
        change = f"makes the loss {1 + ratio:.3g} times as large ({1 + low:.3g} … {1 + high:.3g})"
    said = f"{answer['word']}: moving every weight tensor by {answer['epsilon']:g} of its length {change}"
    if answer.get("negligible"):
        said += "; the loss is so small that this rise costs less than 1 % of what was learned"
    top, bottom, limit = answer["lambda_max"], answer["lambda_min"], answer["stability_limit"]
    least = f"from {bottom:.4g} (λ_min)" if math.isfinite(bottom) else "(λ_min not found)"
    said += f"; curvature {least} to {top:.4g} (λ_max)"
    if answer["plateau"]:
        return said + ": a plateau (neither slope nor curvature: the optimizer gets no direction)"
    if answer["saddle"] and small:
        return said + ": a saddle (no slope, negative curvature)"
    if answer["word"] == "not at a minimum":
        return said + ": the loss still falls from here, so flat and sharp say nothing yet"
    if limit is not None:
        return said + f"; the optimizer's stability limit is {limit:.4g}" + (" and is exceeded" if top > limit else "")
    return said + "; no stability limit is known for this optimizer: compare with another checkpoint on the same data"


@trial("landscape", steps=225, most=lambda t: t.points**t.dimensions)
@dataclass(frozen=True)
class Landscape:
    """The loss along one or two filter-normalised random directions around the present weights: a picture, not a verdict."""

    points: int = 15
    reach: float = 1.0
    dimensions: int = 2
    samples: int = 512

    def run(self, task: Task, progress: Progress = silent) -> Result:
        """Loss on a grid; BatchNorm uses the statistics of the batch, so every point is judged by its own weights."""
        batch = task.samples(self.samples)
        axis = np.linspace(-self.reach, self.reach, self.points)
        with task.twin() as twin:
            twin.model.train()
            for m in twin.model.modules():
                if "Dropout" in type(m).__name__ and hasattr(m, "p"):
                    m.p = 0.0
            rng = torch.Generator().manual_seed(1)
            first = filter_normalised(twin, rng)
            second = filter_normalised(twin, rng)
            rows = [0.0] if self.dimensions == 1 else axis.tolist()
            table = np.empty((len(rows), self.points))
            for i, v in enumerate(rows):
                for j, u in enumerate(axis.tolist()):
                    with moved(twin, first * u + second * v), torch.no_grad():
                        table[i, j] = float(twin.loss(batch))
                    progress(i * self.points + j + 1, table.size, "points of the landscape")
        names = tuple(f"{u:.3f}" for u in axis)
        run = Run({"trial/landscape": Matrix(np.arange(len(rows)), names, table)}, kind="trial")
        answer = {"axis": axis.tolist(), "loss": table.tolist(), "dimensions": self.dimensions}
        centre = table[len(rows) // 2, self.points // 2]
        return Result(
            "landscape",
            "done",
            answer,
            f"loss {centre:.4g} here, {np.nanmin(table):.4g} … {np.nanmax(table):.4g} around",
            run,
            table.size,
        )


def _critical(rises: dict[float, list[float]], base: float) -> float | None:
    """The radius at which the median rise reaches a tenth of the loss, between the radii looked at; None beyond them."""
    radii, middle = list(rises), [float(np.median(v)) for v in rises.values()]
    limit = NOTABLE * abs(base)
    for i, rise in enumerate(middle):
        if rise >= limit:
            below, radius = (middle[i - 1], radii[i - 1]) if i else (0.0, 0.0)
            share = (limit - below) / (rise - below) if rise > below else 1.0
            return radius + share * (radii[i] - radius)
    return None


def _params(twin: Twin) -> list[Tensor]:
    return [p for p in twin.model.parameters() if p.requires_grad]


def _gradient(twin: Twin, batch: Batch) -> Tensor:
    grads = torch.autograd.grad(twin.loss_to_fall(batch), _params(twin), allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(_params(twin), grads, strict=True)]
    ).detach()


def hessian_vector(twin: Twin, batch: Batch, v: Tensor) -> Tensor:
    """The Hessian of the batch's loss times `v`, by differentiating twice."""
    params = _params(twin)
    # the fused attention and recurrent kernels have no second derivative; the plain ones compute the same
    with sdpa_kernel(SDPBackend.MATH), torch.backends.cudnn.flags(enabled=False):
        loss = twin.loss_to_fall(batch)
    grads = torch.autograd.grad(loss, params, create_graph=True, allow_unused=True)
    at, inner = 0, torch.zeros((), device=v.device, dtype=v.dtype)
    for p, g in zip(params, grads, strict=True):
        part = v[at : at + p.numel()].reshape(p.shape)
        at += p.numel()
        if g is not None and g.requires_grad:
            inner = inner + (g * part).sum()
    again = torch.autograd.grad(inner, params, allow_unused=True) if inner.requires_grad else [None] * len(params)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(params, again, strict=True)]
    ).detach()


def differenced(twin: Twin, batch: Batch, v: Tensor) -> Tensor:
    """The Hessian times `v` from two gradients: for operations that cannot be differentiated twice."""
    size = float(torch.linalg.vector_norm(v))
    if size == 0:
        return torch.zeros_like(v)
    weights = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(p.detach()) for p in _params(twin)])))
    reach = 1e-3 * max(weights, 1e-3) / size
    with moved(twin, v * reach):
        ahead = _gradient(twin, batch)
    with moved(twin, v * -reach):
        behind = _gradient(twin, batch)
    return (ahead - behind) / (2 * reach)


def product_of(twin: Twin, batch: Batch) -> Product:
    """The exact product where the model can be differentiated twice, differences of gradients elsewhere.

    Some functions that can be differentiated only once say so, others give nothing; hence the comparison.
    """
    params = _params(twin)
    v = torch.randn(sum(p.numel() for p in params), generator=torch.Generator().manual_seed(0))
    v = v.to(params[0].device, params[0].dtype)
    try:
        exact = hessian_vector(twin, batch, v)
    except RuntimeError as why:
        if not any(
            word in str(why) for word in ("derivative", "differentiate twice", "double backward", "does not require grad")
        ):
            raise
        return differenced
    near = differenced(twin, batch, v)
    return differenced if float(exact.norm()) < LOST * float(near.norm()) else hessian_vector


def eigenvalues(
    twin: Twin, batch: Batch, progress: Progress = silent, curve: Product = hessian_vector
) -> tuple[float, float, int]:
    """Largest and smallest eigenvalue of the Hessian by Lanczos, and how many products it took."""
    params = _params(twin)
    n = sum(p.numel() for p in params)
    count = 0

    def product(x: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        progress(min(count, 40), 40, "Hessian-vector products")
        v = torch.as_tensor(np.ascontiguousarray(x), dtype=params[0].dtype, device=params[0].device)
        return curve(twin, batch, v).double().cpu().numpy()

    if n <= ROOM:  # too small for Lanczos: all of it, column by column
        dense = np.stack([product(row) for row in np.eye(n)])
        values = np.linalg.eigvalsh((dense + dense.T) / 2)
        return float(values[-1]), float(values[0]), count
    start = np.random.default_rng(0).normal(size=n)
    return _extreme(product, start, -1), _extreme(product, start, 0), count


def _extreme(product: Callable[[np.ndarray], np.ndarray], start: np.ndarray, end: int, near: float = 1e-3) -> float:
    """The largest (`end` -1) or smallest (0) eigenvalue by Lanczos, started again with the best vector when the room is full."""
    value = math.nan
    for _ in range(RESTARTS + 1):
        basis, table, rest = np.empty((0, len(start))), np.zeros((ROOM, ROOM)), start
        for j in range(ROOM):
            basis = np.vstack([basis, rest / np.linalg.norm(rest)])
            image = product(basis[j])
            table[: j + 1, j] = table[j, : j + 1] = basis @ image
            rest = image - basis.T @ (basis @ image)
            rest -= basis.T @ (basis @ rest)  # twice is enough
            if np.linalg.norm(rest) <= 1e-7 * np.linalg.norm(image):
                break
        values, vectors = np.linalg.eigh(table[: len(basis), : len(basis)])
        value, best = float(values[end]), vectors[:, end]
        if np.linalg.norm(rest) * abs(best[-1]) <= near * max(abs(value), 0.01 * float(np.abs(values).max())):
            break
        start = basis.T @ best
    return value


def tensor_normalised(twin: Twin, rng: torch.Generator) -> Tensor:
    """A random direction in which every trainable tensor has the length of its own weights, biases and norm gains too."""
    draws = [(p, torch.randn(p.shape, generator=rng).to(p.device).reshape(-1)) for p in _params(twin)]
    return torch.cat([d / (d.norm() + 1e-8) * p.detach().norm() for p, d in draws])


def filter_normalised(twin: Twin, rng: torch.Generator) -> Tensor:
    """A random direction in which every filter has the length of its own weights; biases and norm gains stay put."""
    parts = []
    for p in _params(twin):
        if p.ndim < 2:
            parts.append(torch.zeros(p.numel(), device=p.device))
            continue
        d = torch.randn(p.shape, generator=rng).to(p.device)
        flat, own = d.reshape(p.shape[0], -1), p.detach().reshape(p.shape[0], -1)
        scale = torch.linalg.vector_norm(own, dim=1) / torch.linalg.vector_norm(flat, dim=1).clamp(min=1e-12)
        parts.append((flat * scale[:, None]).reshape(-1))
    return torch.cat(parts)


@contextmanager
def moved(twin: Twin, direction: Tensor) -> Iterator[None]:
    """The twin's weights moved along `direction` while inside."""
    params = _params(twin)
    kept = [p.detach().clone() for p in params]
    try:
        at = 0
        with torch.no_grad():
            for p in params:
                p.add_(direction[at : at + p.numel()].reshape(p.shape).to(p.dtype))
                at += p.numel()
        yield
    finally:
        with torch.no_grad():
            for p, old in zip(params, kept, strict=True):
                p.copy_(old)


def _stability(task: Task) -> float | None:
    """2/η for plain SGD, (2+2β)/η with momentum; adaptive optimizers have no limit on this matrix."""
    if task.optimizer is None or type(task.optimizer).__name__ != "SGD":
        return None
    group = task.optimizer.param_groups[0]
    rate = float(group["lr"])
    return (2 + 2 * float(group.get("momentum", 0.0))) / rate if rate > 0 else None
