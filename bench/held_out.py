"""Learning rates on tasks that the reading of the sweep was not settled on: other data, other models, other optimizers.

python -m bench.held_out [again]        writes its parts of bench/results/trials.json and the page

Cells that are there are kept; `again` asks for every answer once more and keeps the grids, which do not hang on the trial.
"""

from __future__ import annotations

import inspect
import json
import math
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from bench import trials as bench
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine, make_friedman1, make_moons
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from traindx.trial import catalogue
from traindx.trials.task import Task

RATES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 3.0)
STEPS = 300
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "Adam": torch.optim.Adam,
    "AdamW": lambda p, lr: torch.optim.AdamW(p, lr=lr, weight_decay=0.05),
    "plain SGD": torch.optim.SGD,
    "Nesterov": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9, nesterov=True),
    "Adagrad": torch.optim.Adagrad,
    "RAdam": torch.optim.RAdam,
    "RMSprop": torch.optim.RMSprop,
    "NAdam": torch.optim.NAdam,
    "Adamax": torch.optim.Adamax,
    "heavy ball": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.95, weight_decay=1e-3),
}
Data = tuple[Tensor, Tensor]


def _table(load: Callable[..., Any], seed: int) -> tuple[Tensor, Tensor]:
    x, y = load(return_X_y=True)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(x, dtype=torch.float32)
    return ((x - x.mean(0)) / x.std(0))[order], torch.tensor(y)[order]


def cancer(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    x, y = _table(load_breast_cancer, seed)
    net = nn.Sequential(nn.Linear(30, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    return (x, y.float()[:, None]), net, nn.BCEWithLogitsLoss()


def wine(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    x, y = _table(load_wine, seed)
    return (x.repeat(4, 1), y.repeat(4)), nn.Linear(13, 3), nn.CrossEntropyLoss()


def diabetes(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    x, y = _table(load_diabetes, seed)
    y = y.float()
    return (x, ((y - y.mean()) / y.std())[:, None]), nn.Sequential(nn.Linear(10, 48), nn.GELU(), nn.Linear(48, 1)), nn.MSELoss()


def friedman(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    x, y = make_friedman1(2000, noise=0.5, random_state=seed)
    net = nn.Sequential(nn.Linear(10, 64), nn.SiLU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)[:, None]
    return (torch.tensor(x, dtype=torch.float32), y), net, nn.SmoothL1Loss()


class Next(nn.Module):
    """A small causal transformer over characters."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, 32), nn.Embedding(32, 32)
        layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, vocabulary)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.token(x) + self.place(torch.arange(x.shape[1]))
        return self.head(self.body(h, mask=mask, is_causal=True)).transpose(1, 2)


def text(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    said = inspect.getsource(random) + inspect.getsource(inspect)[:60_000]
    letters = sorted(set(said))
    ids = torch.tensor([letters.index(c) for c in said])
    starts = torch.randint(len(ids) - 33, (2000,), generator=torch.Generator().manual_seed(seed))
    rows = torch.stack([ids[s : s + 33] for s in starts.tolist()])
    return (rows[:, :-1], rows[:, 1:]), Next(len(letters)), nn.CrossEntropyLoss()


class Last(nn.Module):
    """An LSTM that is asked at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(4, 32, batch_first=True), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0][:, -1])


def recall(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, (2000, 10), generator=g)
    return (nn.functional.one_hot(ids, 4).float(), ids[:, -3]), Last(), nn.CrossEntropyLoss()


def shapes(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (1500,), generator=g)
    x = 0.5 * torch.randn(1500, 1, 12, 12, generator=g)
    for i, kind in enumerate(y.tolist()):
        a, b = (int(v) for v in torch.randint(2, 9, (2,), generator=g))
        x[i, 0, a : a + (5 if kind == 0 else 2), b : b + (5 if kind == 1 else 2)] += 2.0
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
    )
    return (x, y), net, nn.CrossEntropyLoss()


def repaint(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    x, _ = bench.digits(seed)
    net = nn.Sequential(nn.Linear(64, 32), nn.ELU(), nn.Linear(32, 12), nn.ELU(), nn.Linear(12, 64), nn.Sigmoid())
    return (x, x), net, nn.MSELoss()


def spirals(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (2000,), generator=g)
    t = 3 * torch.rand(2000, generator=g) + 0.3
    angle = 2 * t + math.pi * y
    x = torch.stack([t * angle.cos(), t * angle.sin()], 1) + 0.05 * torch.randn(2000, 2, generator=g)
    net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    return (x, y), net, nn.CrossEntropyLoss()


class Bag(nn.Module):
    """Word counts by an embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.EmbeddingBag(200, 24), nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.words(x))


def topics(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    weights = torch.rand(4, 200, generator=g) ** 3
    y = torch.randint(4, (2000,), generator=g)
    return (torch.multinomial(weights[y], 20, replacement=True, generator=g), y), Bag(), nn.CrossEntropyLoss()


class Ratings(nn.Module):
    """Matrix factorisation with biases."""

    def __init__(self) -> None:
        super().__init__()
        self.who, self.what = nn.Embedding(60, 9), nn.Embedding(80, 9)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.who(x[:, 0]), self.what(x[:, 1])
        return (a[:, 1:] * b[:, 1:]).sum(1) + a[:, 0] + b[:, 0]


def ratings(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    u, v = torch.randn(60, 3, generator=g), torch.randn(80, 3, generator=g)
    x = torch.stack([torch.randint(60, (3000,), generator=g), torch.randint(80, (3000,), generator=g)], 1)
    return (x, (u[x[:, 0]] * v[x[:, 1]]).sum(1) + 0.3 * torch.randn(3000, generator=g)), Ratings(), nn.MSELoss()


def signals(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (1500,), generator=g)
    t = torch.linspace(0, 1, 48)
    phase = 6.3 * torch.rand(1500, 1, generator=g)
    x = torch.sin(2 * math.pi * (3 + 2 * y[:, None]) * t + phase) + 0.7 * torch.randn(1500, 48, generator=g)
    net = nn.Sequential(
        nn.Conv1d(1, 12, 7), nn.BatchNorm1d(12), nn.ReLU(), nn.Conv1d(12, 12, 5, stride=2), nn.BatchNorm1d(12), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(12, 3),
    )  # fmt: skip
    return (x[:, None], y), net, nn.CrossEntropyLoss()


def moons(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    x, y = make_moons(1500, noise=0.2, random_state=seed)
    net = nn.Sequential(*[m for i in range(4) for m in (nn.Linear(2 if i == 0 else 24, 24), nn.Tanh())], nn.Linear(24, 1))
    return (torch.tensor(x, dtype=torch.float32), torch.tensor(y).float()[:, None]), net, nn.BCEWithLogitsLoss()


def counts(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(2000, 8, generator=g)
    y = torch.poisson(torch.exp(0.6 * x[:, 0] - 0.4 * x[:, 1] * x[:, 2]).clamp(max=20), generator=g)
    return (x, y[:, None]), nn.Sequential(nn.Linear(8, 40), nn.Softplus(), nn.Linear(40, 1)), nn.PoissonNLLLoss()


class Total(nn.Module):
    """A GRU whose outputs are added up."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(2, 24, batch_first=True), nn.Linear(24, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[0]).sum(1)


def adding(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    x = torch.stack([torch.rand(2000, 12, generator=g), (torch.rand(2000, 12, generator=g) < 0.3).float()], 2)
    return (x, (x[..., 0] * x[..., 1]).sum(1, keepdim=True)), Total(), nn.MSELoss()


def iris(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    x, y = _table(load_iris, seed)
    return (x.repeat(5, 1), y.repeat(5)), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), nn.MultiMarginLoss()


class Score(nn.Module):
    """The noise in a point, from the noisy point and how noisy it is."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def denoise(seed: int) -> tuple[Data, nn.Module, nn.Module]:
    g = torch.Generator().manual_seed(seed)
    angle, t = 6.3 * torch.rand(3000, generator=g), torch.rand(3000, 1, generator=g)
    noise = torch.randn(3000, 2, generator=g)
    x = (1 - t) * torch.stack([angle.cos(), angle.sin()], 1) + t * noise
    return (torch.cat([x, t], 1), noise), Score(), nn.MSELoss()


CELLS = (
    (cancer, "plain SGD"), (cancer, "RAdam"), (wine, "Adagrad"), (diabetes, "Adam"), (friedman, "AdamW"), (friedman, "Nesterov"),
    (spirals, "Nesterov"), (spirals, "Adam"), (repaint, "RAdam"), (recall, "Adam"), (shapes, "Nesterov"), (shapes, "Adam"),
    (text, "AdamW"), (text, "RMSprop"),
)  # fmt: skip
NEW = (
    (signals, "RAdam"), (moons, "RAdam"), (topics, "NAdam"), (ratings, "Adagrad"), (counts, "Adam"), (adding, "RMSprop"),
    (iris, "Adamax"), (denoise, "AdamW"), (signals, "heavy ball"), (moons, "heavy ball"),
)  # fmt: skip
SHUFFLED = (
    (cancer, "plain SGD"),
    (text, "AdamW"),
    (recall, "Adam"),
    (shapes, "Nesterov"),
    (spirals, "Adam"),
    (friedman, "AdamW"),
)
NEW_SHUFFLED = ((signals, "RAdam"), (counts, "Adam"), (moons, "heavy ball"), (iris, "Adamax"))
PARTS = {"lr_range_held_out": (CELLS, (21, 22), SHUFFLED), "lr_range_new": (NEW, (31,), NEW_SHUFFLED)}


def task(make: Callable[[int], Any], optimizer: str, lr: float, seed: int, shuffled: bool = False) -> Task:
    torch.manual_seed(seed)
    (x, y), net, loss = make(seed)
    if shuffled:
        y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]
    cut = int(0.8 * len(x))
    train = DataLoader(TensorDataset(x[:cut], y[:cut]), 32, shuffle=True)
    val = DataLoader(TensorDataset(x[cut:], y[cut:]), 100)
    return Task(net, loss, train, val, OPTIMIZERS[optimizer](net.parameters(), lr=lr))


def trained(make: Callable[[int], Any], optimizer: str, lr: float, seed: int) -> tuple[float, float]:
    """Validation loss before and after 300 updates."""
    t = task(make, optimizer, lr, seed)
    with t.twin(seed=seed) as twin:
        before = twin.probe(t.batches(3, "val"))
        twin.model.train()
        for batch in t.cycle(STEPS):
            if not math.isfinite(twin.step(batch)):
                break
        return before, twin.probe(t.batches(3, "val"))


def measured(make: Callable[[int], Any], optimizer: str, seed: int, grid: dict[str, float | None] | None) -> dict[str, Any]:
    """One cell: the best rate of the grid, the answer, and which share of what the best rate learns the answer learns."""
    if grid is None:
        ends = {f"{lr:g}": trained(make, optimizer, lr, seed)[1] for lr in RATES}
        grid = {k: round(v, 4) if math.isfinite(v) else None for k, v in ends.items()}
    finite = {k: v for k, v in grid.items() if v is not None}
    best = min(finite, key=finite.__getitem__)
    found = catalogue()["lr-range"].run(task(make, optimizer, 1e-3, seed))
    start = found.answer.get("start_lr")
    cell = {"setup": f"{make.__name__} {optimizer}", "seed": seed, "best": float(best), "answer": start, "result": found.result}
    kept = None
    if start:
        before, after = trained(make, optimizer, start, seed)
        kept = round((before - after) / (before - finite[best]), 3)
    ratio = start / float(best) if start else None
    return cell | {"ratio": ratio, "kept": kept, "reason": found.reason, "steps": found.steps, "grid": grid}


def summed(cells: list[dict[str, Any]], shuffled: list[str]) -> dict[str, Any]:
    good = [c for c in cells if c["ratio"] is not None and 0.1 <= c["ratio"] <= 2.0]
    hot = sum(bool(c["ratio"] and c["ratio"] > 2) for c in cells)
    return {"cells": cells, "within": len(good), "of": len(cells), "too_hot": hot, "shuffled_labels": shuffled}


def part(name: str, again: bool) -> None:
    """Every cell of a part; each is written when it is done, so it can be stopped and taken up again."""
    setups, seeds, mixed = PARTS[name]
    have = json.loads(bench.OUT.read_text(encoding="utf-8")).get(name, {})
    grids = {(c["setup"], c["seed"]): c["grid"] for c in have.get("cells", [])}
    cells = {} if again else {(c["setup"], c["seed"]): c for c in have.get("cells", [])}
    shuffled = [] if again else list(have.get("shuffled_labels", []))

    def keep() -> None:
        found = json.loads(bench.OUT.read_text(encoding="utf-8"))
        found[name] = summed(list(cells.values()), shuffled)
        bench.OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        bench.OUT.with_suffix(".md").write_text(bench.table(found), encoding="utf-8")

    for seed in seeds:
        for make, optimizer in setups:
            key = f"{make.__name__} {optimizer}", seed
            if key not in cells:
                cells[key] = measured(make, optimizer, seed, grids.get(key))
                print({k: v for k, v in cells[key].items() if k != "grid"}, flush=True)
                keep()
    for make, optimizer in mixed[len(shuffled) :]:
        shuffled.append(catalogue()["lr-range"].run(task(make, optimizer, 1e-3, 21, shuffled=True)).result)
        keep()


def main() -> None:
    torch.set_num_threads(1)
    words = sys.argv[1:]
    for name in [w for w in words if w in PARTS] or PARTS:
        part(name, "again" in words)


if __name__ == "__main__":
    main()
