"""What the page of the lessons promises: every tool is there, every row of a table has a program, and listings agree.

`contract` says what holds each item; the list itself is `traindx/report/lessons.json`, which also makes docs/lessons.md.
"""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clinic import symptoms
from clinic.case import written
from torch import nn

import traindx
from traindx import kit
from traindx.report import search
from traindx.trials import check

ROOT = Path(__file__).parents[2]


def items() -> list[dict[str, Any]]:
    held: list[dict[str, Any]] = search.lessons()["items"]
    return held


@pytest.mark.parametrize("item", items(), ids=lambda item: str(item["id"]))
def test_the_tool_exists(item: dict[str, Any]) -> None:
    """What the page tells you to call is there, and the page tells of it."""
    from traindx.cli import verbs
    from traindx.trial import catalogue

    here = item["here"]
    for call in here.replace("with ", "").replace("print(", "").split(";"):
        word = call.strip().split("(")[0]
        if word.startswith("kit."):
            assert hasattr(kit, word.removeprefix("kit.").split(".")[0])
        elif word.startswith("traindx.watch"):
            assert callable(traindx.watch)
        elif word.startswith("traindx "):
            assert word.split()[1].strip(",") in verbs()
            assert word.split()[1] != "trial" or word.split()[2] in catalogue()
        else:
            assert (ROOT / word).exists()
    assert item["name"] in (ROOT / "docs" / "lessons.md").read_text(encoding="utf-8")


# -- tables and checklists: programs with the truth beside them


@pytest.mark.parametrize("title", symptoms.TABLES)
def test_every_row_of_a_table_is_found_in_a_program(title: str) -> None:
    """Each row has a program that shows it, and the published results of the clinic say whether it was found."""
    results = json.loads((ROOT / "clinic" / "results" / "written.json").read_text(encoding="utf-8"))["cases"]
    right = {r["name"]: r["hit"] if r["kind"] == "sick" else not r["alarms"]["critical"] for r in results}
    for row in symptoms.TABLES[title]:
        programs = [case.name for case in written() if row in case.covers]
        assert programs and any(right.get(name) for name in programs), row


def test_every_line_of_a_checklist_has_an_answer() -> None:
    for name, lines in check.LISTS.items():
        for i, line in enumerate(lines, 1):
            assert any((name, i) in q.lists for q in check.QUESTIONS), line


def test_every_complaint_has_hypotheses_with_a_way_to_settle_them() -> None:
    from traindx.diagnosis.trees import TREES

    for tree in TREES:
        assert len(tree.branches) >= 2 and all(b.codes if hasattr(b, "codes") else True for b in tree.branches)
        assert any(b.trial or b.reading for b in tree.branches)


# -- listings: the same arithmetic, written here

NETS: dict[str, Any] = {
    "healthy": lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)),
    "vanishing": lambda: nn.Sequential(*[m for _ in range(10) for m in (nn.Linear(8, 8), nn.Sigmoid())], nn.Linear(8, 3)),
    "exploding": lambda: scaled(
        nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3)), 8.0
    ),
}


def scaled(net: nn.Module, by: float) -> nn.Module:
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(by)
    return net


def separable(samples: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(0))
    return x, (x @ torch.randn(8, 3, generator=torch.Generator().manual_seed(1))).argmax(1)


@pytest.fixture(params=NETS)
def net(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    made: nn.Module = NETS[request.param]()
    made.kind = request.param  # type: ignore[assignment]
    return made


def trained(net: nn.Module, steps: int = 200, lr: float = 1e-2) -> nn.Module:
    x, y = separable()
    optimizer = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net


def test_norms_are_those_of_the_plain_loop(net: nn.Module) -> None:
    x, y = separable()
    nn.functional.cross_entropy(net(x), y).backward()
    table = kit.gradient_table(net)
    plain = {name: float(torch.sqrt((p.grad**2).sum())) for name, p in net.named_parameters()}
    assert {row.name: row.grad for row in table} == pytest.approx(plain, rel=1e-4)
    assert table.total == pytest.approx(math.sqrt(sum(v * v for v in plain.values())), rel=1e-4)
    told = {row.status for row in table}
    assert (told == {"ok"}) if net.kind == "healthy" else (str(net.kind) in told)


def test_the_sharpness_ratio_is_the_lessons(net: nn.Module) -> None:
    """Every tensor moved by 0.05 of its own norm along a random direction; the mean rise over the loss."""
    x, y = separable()
    if net.kind == "healthy":
        trained(net)
    before = copy.deepcopy(net.state_dict())
    found = kit.sharpness(kit.Task(net, nn.CrossEntropyLoss(), [(x, y)]), draws=40)
    base = float(nn.functional.cross_entropy(net.eval()(x), y).detach())
    rises = []
    for seed in range(40):
        rng = torch.Generator().manual_seed(100 + seed)
        with torch.no_grad():
            for p in net.parameters():
                d = torch.randn(p.shape, generator=rng)
                p.add_(d / d.norm() * 0.05 * p.norm())
            rises.append(float(nn.functional.cross_entropy(net(x), y)) - base)
            net.load_state_dict(before)
    mean, half = float(np.mean(rises)) / base, 2.6 * float(np.std(rises)) / base / math.sqrt(20)
    assert found.answer["loss"] == pytest.approx(base, rel=1e-4)
    assert abs(found.answer["ratio"] - mean) <= half + 1e-4  # two draws of forty
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    low, high = found.answer["interval"]
    by_ratio = "flat" if high < 0.1 else "sharp" if low > 0.1 else "between flat and sharp"
    assert found.answer["word"] == (by_ratio if net.kind == "healthy" else "not at a minimum")


def test_the_schedule_is_the_lessons_shifted_by_one() -> None:
    """A ratio floor, warm-up and cosine; ours makes its first update at 1/warmup instead of at zero."""
    for warmup, total, floor in ((5, 50, 0.1), (0, 20, 0.0), (10, 11, 0.5)):
        optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
        schedule = kit.warmup_cosine(optimizer, warmup, total, floor=floor)
        for step in range(total + 10):
            done = min(max(step - warmup, 0) / (total - warmup), 1.0)
            cosine = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))
            share = (step + 1) / warmup if step < warmup else cosine
            assert optimizer.param_groups[0]["lr"] == pytest.approx(0.3 * share)
            optimizer.step()
            schedule.step()


@pytest.mark.parametrize("seed", range(3))
def test_the_finder_leaves_everything_and_starts_below_divergence(seed: int) -> None:
    torch.manual_seed(seed)
    net = NETS["healthy"]()
    x, y = separable(512)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    found = kit.lr_finder(kit.Task(net, nn.CrossEntropyLoss(), [(x[i::8], y[i::8]) for i in range(8)], optimizer=optimizer))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items()) and torch.equal(torch.get_rng_state(), state)
    low, high = found.answer["interval"]
    assert found.result == "done" and low <= found.answer["start_lr"] <= high
    ends = [run(copy.deepcopy(net), found.answer["start_lr"], steps) for steps in (0, 100)]
    first, last = (float(nn.functional.cross_entropy(end(x), y).detach()) for end in ends)
    assert last < 0.6 * first  # the rate it names trains


def run(net: nn.Module, lr: float, steps: int) -> nn.Module:
    x, y = separable(512)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


class Detached(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).detach()


@pytest.mark.parametrize(
    ("make", "passes"),
    [(NETS["healthy"], True), (lambda: nn.Linear(8, 3), True), (Detached, False),
     (lambda: nn.Sequential(NETS["healthy"](), nn.Softmax(-1)), False)],
)  # fmt: skip
def test_a_batch_is_memorised_or_not(make: Any, passes: bool) -> None:
    torch.manual_seed(0)
    x, y = separable(32)
    net = make()
    before = copy.deepcopy(net.state_dict())
    task = kit.Task(net, nn.CrossEntropyLoss(), [(x, y)])
    for found in (kit.overfit_one_batch(task, samples=8), kit.two_example_check(task)):
        assert (found.result == "pass") is passes and (found.answer["final"] < 0.1) is passes
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_weight_statistics_are_those_of_torch(net: nn.Module) -> None:
    seen: dict[str, float] = {}

    class Kept:
        def log(self, numbers: dict[str, float], step: int) -> None:
            seen.update(numbers)

        def finish(self) -> None: ...

    with kit.TrainingLogger(wandb=Kept()) as logger:
        logger.statistics(net, 0)
    for name, p in net.named_parameters():
        assert seen[f"weight_norm/{name}"] == pytest.approx(float(p.detach().norm()), rel=1e-4)
        assert seen[f"weight_std/{name}"] == pytest.approx(float(p.detach().std()), rel=1e-4)
