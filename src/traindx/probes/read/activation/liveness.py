"""Units over a window of samples: dead, dormant, saturated (CATALOGUE 2.13); rank and likeness of features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from traindx.measures import effective_rank, readable, sampled_rows, wide
from traindx.probe import Probe, Reading, Row, Scene
from traindx.probes.read.common.how_often import Rhythm

WINDOW_SAMPLES, WINDOW_BATCHES = 2000, 20  # a unit silent for n samples fires less often than 3/n (95 %)
SAMPLE_ROWS = 1 << 18
UNITS = 8192
LAYERS = 256
ALIVE = 1e-6  # of the layer's RMS
DORMANT = 0.025  # of the layer's mean |h|
SATURATED = {
    "Tanh": (-0.97, 0.97),
    "Sigmoid": (0.03, 0.97),
    "Hardtanh": (-0.97, 0.97),
    "Hardsigmoid": (0.03, 0.97),
    "Softsign": (-0.97, 0.97),
}
RELU = ("ReLU", "ReLU6", "Threshold", "Hardshrink", "Softshrink", "relu")


class _Window:
    """Running statistics of one layer's units."""

    def __init__(self) -> None:
        self.samples = self.batches = 0
        self.top: Tensor | None = None  # largest value of each unit
        self.mean: Tensor | None = None  # sum over batches of mean |h|
        self.square: Tensor | None = None  # sum over batches of mean h²
        self.high: Tensor | None = None  # samples above, and below, the flat tails
        self.low: Tensor | None = None


class Liveness(Probe):
    """`dead_fraction`, `dead_samples`, `dormant_fraction` of ReLU-like layers; `act_saturated` of bounded ones."""

    cadence = "full"

    def __init__(self) -> None:
        self._windows: dict[str, _Window] = {}
        self._bounded: dict[str, _Window] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._told: set[str] = set()  # layers that were reported

    def changed(self, scene: Scene) -> None:
        self._windows.clear()
        self._bounded.clear()

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        kind = type(module).__name__
        if kind in RELU:
            self._relu(name, output)
        elif kind in SATURATED:
            self._tails(name, output, SATURATED[kind])
        return None

    def on_activation(self, scene: Scene, kind: str, layer: str, output: Any) -> Reading | None:
        if kind == "relu":
            self._relu(layer, output)
        elif kind in ("tanh", "sigmoid"):
            self._tails(layer, output, SATURATED[kind.capitalize()])
        return None

    def _relu(self, name: str, output: Any) -> None:
        units = _units(output)
        if units is None or (name not in self._windows and len(self._windows) >= LAYERS):
            return
        window = self._windows.setdefault(name, _Window())
        top, mean = units.amax(0), units.abs().mean(0)
        square = units.square().mean()
        if window.top is None or window.top.shape != top.shape:
            window.__init__()  # type: ignore[misc]
            window.top, window.mean, window.square = top, mean, square
        else:
            window.top = torch.maximum(window.top, top)
            window.mean = window.mean + mean
            window.square = window.square + square
        window.samples += _samples(output)
        window.batches += 1

    def _tails(self, name: str, output: Any, ends: tuple[float, float]) -> None:
        units = _units(output)
        if units is None or (name not in self._bounded and len(self._bounded) >= LAYERS):
            return
        window = self._bounded.setdefault(name, _Window())
        high, low = (units > ends[1]).float().mean(0), (units < ends[0]).float().mean(0)
        if window.high is None or window.high.shape != high.shape:
            window.__init__()  # type: ignore[misc]
            window.high, window.low = high, low
        else:
            window.high, window.low = window.high + high, window.low + low
        window.samples += _samples(output)
        window.batches += 1

    def after_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        return self._report(WINDOW_SAMPLES, WINDOW_BATCHES) if scene.full else None

    def on_eval_begin(self, scene: Scene, evaluation: Any) -> Reading | None:
        return None

    def last(self, scene: Scene) -> Reading | None:
        """What the unfinished windows say, with the number of samples they have."""
        for name in self._told:  # a short rest says less than the window before it
            if name in self._windows and self._windows[name].samples < WINDOW_SAMPLES // 2:
                del self._windows[name]
        return self._report(1, 1)

    def _report(self, samples: int, batches: int) -> Reading | None:
        out: dict[str, Any] = {}
        done = {n: w for n, w in self._windows.items() if w.samples >= samples and w.batches >= batches}
        self._told.update(done)
        if done:
            names = self._own("dead", tuple(done))
            out["dead_fraction/module"] = Row(names, torch.stack([_dead(w) for w in done.values()]))
            out["dormant_fraction/module"] = Row(names, torch.stack([_dormant(w) for w in done.values()]))
            out["dead_samples/module"] = Row(names, [float(w.samples) for w in done.values()])
        stuck = {n: w for n, w in self._bounded.items() if w.batches >= min(batches, 5)}
        if stuck:
            names = self._own("stuck", tuple(stuck))
            out["act_saturated/module"] = Row(names, torch.stack([_stuck(w) for w in stuck.values()]))
        for name in done:
            del self._windows[name]
        for name in stuck:
            del self._bounded[name]
        return out or None

    def _own(self, kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
        if self._names.get(kind) != names:
            self._names[kind] = names
        return self._names[kind]


def _units(output: Any) -> Tensor | None:
    """Samples × units: the last axis are the units of (B, …, F), the second those of images (spatial maximum first)."""
    if not readable(output) or output.dim() < 2:
        return None
    rows = wide(sampled_rows(output.detach(), SAMPLE_ROWS))
    if rows.dim() >= 4:
        rows = rows.flatten(2).amax(2)
    elif rows.dim() == 3:
        rows = rows.reshape(-1, rows.shape[-1])
    return rows if rows.shape[1] <= UNITS else rows[:, :UNITS]


def _samples(output: Tensor) -> int:
    return int(sampled_rows(output, SAMPLE_ROWS).shape[0])


def _dead(w: _Window) -> Tensor:
    assert w.top is not None and w.square is not None
    return (w.top <= ALIVE * (w.square / w.batches).sqrt()).float().mean()


def _dormant(w: _Window) -> Tensor:
    assert w.mean is not None
    return (w.mean <= DORMANT * w.mean.mean()).float().mean()


def _stuck(w: _Window) -> Tensor:
    assert w.high is not None and w.low is not None
    return (torch.maximum(w.high, w.low) / w.batches > 0.9).float().mean()


class Features(Probe):
    """`effective_rank` and `feature_cosine` of what goes into the last linear layer, occasionally."""

    cadence = "full"

    def __init__(self) -> None:
        self._rhythm = Rhythm(every=24)
        self._latest: tuple[str, Tensor] | None = None
        self._name: tuple[str, ...] = ()

    def on_module(self, scene: Scene, name: str, module: nn.Module, args: tuple[Any, ...], output: Any) -> Reading | None:
        if isinstance(module, nn.Linear) and args and readable(args[0]) and args[0].dim() >= 2:
            self._latest = (name, args[0].detach())  # let go at the update of this very step
        return None

    def before_step(self, scene: Scene, optimizer: Any) -> Reading | None:
        latest, self._latest = self._latest, None
        if latest is None or not self._rhythm.beat(scene, optimizer):
            return None
        rows = wide(latest[1].reshape(-1, latest[1].shape[-1])[:256, :512])
        if rows.shape[0] < 16 or rows.shape[1] < 4:
            return None
        if self._name != (latest[0],):
            self._name = (latest[0],)
        unit = normalize(rows, dim=1)
        n = rows.shape[0]
        cosine = (torch.linalg.vector_norm(unit.sum(0)) ** 2 - n) / (n * (n - 1))
        return {
            "effective_rank/module": Row(self._name, effective_rank(rows).reshape(1)),
            "feature_cosine/module": Row(self._name, cosine.reshape(1)),
        }


PROBES = [Liveness, Features]
