"""Small real examples, sick and healthy: each computes a lesson's figure (`references`) beside ours and compares."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lessons import references
from traindx import kit

CE = nn.CrossEntropyLoss()


def separable(samples: int = 256) -> tuple[Tensor, Tensor]:
    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(0))
    return x, (x @ torch.randn(8, 3, generator=torch.Generator().manual_seed(1))).argmax(1)


def net(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "vanishing":
        return nn.Sequential(*[m for _ in range(10) for m in (nn.Linear(8, 8), nn.Sigmoid())], nn.Linear(8, 3))
    made = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    if kind == "exploding":
        made = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
        with torch.no_grad():
            for p in made.parameters():
                p.mul_(8)
    return made


def with_gradients(kind: str) -> nn.Module:
    made, (x, y) = net(kind), separable()
    CE(made(x), y).backward()
    return made


def trained(made: nn.Module, x: Tensor, y: Tensor, steps: int) -> nn.Module:
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        CE(made(x), y).backward()
        optimizer.step()
    return made


def untouched(made: nn.Module, call: Callable[[], Any]) -> Any:
    """What the call gives; the model is afterwards as it was, to the bit and in its mode."""
    before, modes, state = copy.deepcopy(made.state_dict()), [m.training for m in made.modules()], torch.get_rng_state()
    found = call()
    assert all(torch.equal(v, before[k]) for k, v in made.state_dict().items())
    assert modes == [m.training for m in made.modules()] and torch.equal(torch.get_rng_state(), state)
    return found


def gradients(kind: str, tmp: Path) -> None:
    made = with_gradients(kind)
    table, figures = kit.gradient_table(made), kit.gradient_statistics(made)
    for name, norm in references.norms(made).items():
        row, grad = table[name], made.get_parameter(name).grad
        assert grad is not None and math.isclose(row.grad or 0.0, norm, rel_tol=1e-4)
        word = references.status(norm)
        assert row.status == word or word == "ok" or "no effect" in row.note  # we may see more, never less
        for figure, value in references.statistics(grad).items():
            assert math.isclose(figures[name][figure], value, rel_tol=1e-4, abs_tol=1e-12)
    told = {row.status for row in table}
    assert told == {"ok"} if kind == "healthy" else kind in told and kind in str(table)


def flow(kind: str, tmp: Path) -> None:
    made = net(kind)
    kept, history = kit.GradientFlow(made), []
    for step in range(3):
        made.zero_grad()
        x, y = separable()
        CE(made(x) * (step + 1), y).backward()
        kept.record(step)
        history.append(references.norms(made))
    means = {n: float(np.mean([h[n] for h in history])) for n in history[0]}
    picture = kept.picture(top_k=4)
    assert [line.name for line in picture.lines] == sorted(means, key=lambda n: -means[n])[:4]
    assert all(np.allclose(kept.norms[n], [h[n] for h in history], rtol=1e-4) for n in means)
    assert [level for level, _ in picture.levels] == [1e-6, 10.0]
    kept.plot(tmp / "flow.svg")
    assert "exploding above" in (tmp / "flow.svg").read_text(encoding="utf-8")


def sharpness(kind: str, tmp: Path) -> None:
    made, (x, y) = net("healthy"), separable()
    if kind == "noise":
        made = nn.Sequential(nn.Linear(8, 256), nn.ReLU(), nn.Linear(256, 3))
        y = torch.randint(0, 3, (256,), generator=torch.Generator().manual_seed(5))
    if kind != "fresh":
        trained(made, x, y, 200 if kind == "trained" else 800)
    base, mean, scatter = references.rise(made, CE, x, y)
    answer = untouched(made, lambda: kit.sharpness(kit.Task(made, CE, [(x, y)]), draws=40)).answer
    low, high = answer["interval"]
    assert math.isclose(answer["loss"], base, rel_tol=1e-4) and low < answer["ratio"] < high
    assert abs(answer["ratio"] - mean) <= 0.6 * scatter + 1e-4  # two draws of forty
    by_ratio = "flat" if high < 0.1 else "sharp" if low > 0.1 else "between flat and sharp"
    assert answer["word"] == ("not at a minimum" if kind == "fresh" else by_ratio)


def rate(kind: str, tmp: Path) -> None:
    made: nn.Module = net("healthy") if kind == "net" else nn.Linear(8, 3)
    x, y = separable(512)
    loss: Any = CE
    if kind == "regression":
        made, y, loss = nn.Linear(8, 1), x.sum(1, keepdim=True), nn.functional.mse_loss
    sgd = torch.optim.SGD(made.parameters(), lr=0.1)
    task = kit.Task(made, loss, [(x[i::8], y[i::8]) for i in range(8)], optimizer=sgd)
    found = untouched(made, lambda: kit.lr_finder(task))
    sweep = [found.run.series(name).finite() for name in ("trial/lr", "trial/loss")]
    low, high = found.answer["interval"]
    assert found.result == "done" and low <= found.answer["start_lr"] <= high and found.reason
    n = min(map(len, sweep))
    usual = references.steepest(sweep[0].values[:n], sweep[1].values[:n])
    ends = [after(made, x, y, loss, r) for r in (found.answer["start_lr"], usual)]
    assert ends[0] < 0.6 * float(loss(made(x), y).detach()) and not ends[0] > 2 * ends[1] + 0.2


def after(made: nn.Module, x: Tensor, y: Tensor, loss: Any, lr: float, steps: int = 100) -> float:
    made = copy.deepcopy(made)
    optimizer = torch.optim.SGD(made.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(made(x), y).backward()
        optimizer.step()
    return float(loss(made(x), y).detach())


def picture(suffix: str, tmp: Path) -> None:
    made, (x, y) = net("healthy"), separable(512)
    sgd = torch.optim.SGD(made.parameters(), lr=0.1)
    found = kit.lr_finder(kit.Task(made, CE, [(x[i::8], y[i::8]) for i in range(8)], optimizer=sgd))
    figure = kit.plot_lr_finder(found, tmp / f"lr.{suffix}")
    marks = [s.x0 for s in figure.layout.shapes]
    assert any(math.isclose(m, found.answer["start_lr"], rel_tol=0.02) for m in marks) and (tmp / f"lr.{suffix}").stat().st_size


def cosine(warmup: int, total: int, floor: float, tmp: Path) -> None:
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.3, 0.01)]
    schedule = kit.warmup_cosine(torch.optim.SGD(groups), warmup, total, floor=floor)
    for step in range(total + 10):
        share = (step + 1) / warmup if step < warmup else references.cosine(step, warmup, total, floor)
        assert np.allclose([g["lr"] for g in schedule.optimizer.param_groups], [0.3 * share, 0.01 * share])
        schedule.optimizer.step()
        schedule.step()


def cycle(total: int, tmp: Path) -> None:
    ours, usual = (torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9) for _ in range(2))
    a, b = kit.one_cycle(ours, 2.0, total), torch.optim.lr_scheduler.OneCycleLR(usual, max_lr=2.0, total_steps=total)
    for _ in range(total - 1):
        assert math.isclose(ours.param_groups[0]["lr"], usual.param_groups[0]["lr"], rel_tol=1e-9)
        for thing in (ours, usual, a, b):
            thing.step()


def clip(kind: str, tmp: Path) -> None:
    made = with_gradients("healthy" if kind == "NaN" else kind)
    if kind == "NaN":
        p = next(made.parameters())
        assert p.grad is not None
        p.grad.view(-1)[0] = math.nan
        assert not kit.clip_and_log(made, 0.1).finite
        assert sum(int(q.grad.isnan().sum()) for q in made.parameters() if q.grad is not None) == 1
        return
    total, scaled = references.clipped(made, 0.01)
    done = kit.clip_and_log(made, 0.01)
    assert math.isclose(done.norm, total, rel_tol=1e-4) and done.clipped is (total > 0.01)
    assert all(torch.allclose(made.get_parameter(n).grad, g, rtol=1e-4, atol=1e-9) for n, g in scaled.items())


def nonfinite(what: str, tmp: Path) -> None:
    made = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    with torch.no_grad():
        if what == "NaN weight":
            made[0].weight[0, 0] = math.nan
        elif what == "infinite bias":
            made[0].bias[1] = math.inf
        elif what == "infinite buffer":
            made[1].running_var[0] = math.inf
    found = set(kit.find_nonfinite(made))
    assert references.holding_nan(made) <= found and bool(found) is (what != "finite net")


class Made(nn.Module):
    """Gives what a function makes of the input."""

    def __init__(self, make: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.make = make

    def forward(self, x: Tensor) -> Any:
        return self.make(x)


def hooks(make: Callable[[Tensor], Any] | None, backward: bool, tmp: Path) -> None:
    made: nn.Module = nn.Linear(2, 2) if make is None else nn.Sequential(nn.Linear(2, 2), Made(make))
    said: list[str] = []
    with kit.nan_hooks(made, found=said.append):
        out = made(torch.ones(3, 2))
        if backward:
            out.sum().backward()
    assert bool(said) is (make is not None) and not any(m._forward_hooks for m in made.modules())
    assert make is None or backward or "its inputs were finite" in said[0]


def batches(kind: str, tmp: Path) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64, 3, 8, 8), torch.randint(0, 10, (64,))
    one = x.clone()
    one[3, 1, 2, 2] = 150
    held = {
        "healthy": [x, torch.rand(64, 1, 28, 28), 5 * x, 0.05 * x, torch.eye(10)[y]],
        "sick": [x.index_fill(0, y[:1], math.nan), x.index_fill(0, y[:1], math.inf), 255 * x.sigmoid(), 1e4 * x, one],
        "missed": [x.sigmoid() / 255, x + 40, 1e-5 * x, torch.ones(64, 4)],
    }[kind]
    for batch in held:
        assert references.batch_is_bad(batch, y) is (kind == "sick")
        assert bool(kit.validate_batch((batch, y))) is (kind != "healthy")


def loss_value(kind: str, tmp: Path) -> None:
    made, x, said = nn.Linear(2, 1), torch.ones(3, 2), []
    value = {"fine": 0.5, "infinite": math.inf}.get(kind, math.nan)
    if kind == "bad input":
        x[0, 0] = math.nan
    if kind == "bad weight":
        with torch.no_grad():
            made.bias.fill_(math.nan)
    kit.check_loss(torch.tensor(value), made, x, found=said.append)
    told = {"fine": "", "infinite": "this step made it", "bad input": "look at the data", "bad weight": "in the weights"}[kind]
    assert bool(said) is not math.isfinite(value) and told in "".join(said)


def fits(kind: str, tmp: Path) -> None:
    x, y = separable(32)
    made: nn.Module = {
        "net": lambda: net("healthy"),
        "linear": lambda: nn.Linear(8, 3),
        "cut": lambda: nn.Sequential(nn.Linear(8, 3), Made(Tensor.detach)),
        "softmax": lambda: nn.Sequential(net("healthy"), nn.Softmax(-1)),
        "blind": lambda: nn.Sequential(Made(torch.zeros_like), nn.Linear(8, 3)),
    }[kind]()
    task = kit.Task(made, CE, [(x, y)])
    able = kind in ("net", "linear")
    for found in (untouched(made, lambda: kit.overfit_one_batch(task, samples=8)), kit.two_example_check(task)):
        assert (found.result == "pass") is able and (found.answer["final"] < 0.1) is able
    assert able or not references.memorises(made, CE, x[:8], y[:8])  # the usual test agrees where something is wrong


def logger(kind: str, tmp: Path) -> None:
    seen: dict[str, float] = {}

    class Kept:
        def log(self, numbers: dict[str, float], step: int) -> None:
            seen.update(numbers)

        def finish(self) -> None: ...

    made = with_gradients(kind)
    with kit.TrainingLogger(wandb=Kept()) as log:
        log.gradients(made, 0)
        log.statistics(made, 0)
    for name, norm in references.norms(made).items():
        weight = made.get_parameter(name).detach()
        assert math.isclose(seen[f"grad_norm/{name}"], norm, rel_tol=1e-4)
        assert math.isclose(seen[f"weight_std/{name}"], float(weight.std()), rel_tol=1e-4)
        assert math.isclose(seen[f"weight_norm/{name}"], float(weight.norm()), rel_tol=1e-4)
    total = math.sqrt(sum(v * v for v in references.norms(made).values()))
    assert math.isclose(seen["grad_norm/total"], total, rel_tol=1e-4)


def logits(size: float, tmp: Path) -> None:
    x, y = separable(64)
    out = size * x[:, :3]
    by_hand = -references.log_softmax(out)[torch.arange(64), y].mean()
    assert math.isclose(float(CE(out, y)), float(by_hand), rel_tol=1e-5) and math.isfinite(float(by_hand))
    assert math.isfinite(float(-torch.log(out.exp() / out.exp().sum(-1, keepdim=True)).mean())) is (size == 1)


def softmax(classes: int, tmp: Path) -> None:
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(20, classes), nn.Softmax(-1))
    found = kit.two_example_check(kit.Task(made, CE, [(x, torch.arange(64) % classes)]))
    floor = references.double_softmax(classes)
    assert found.result == "fail" and f"double softmax ({floor:.4g})" in found.reason


def threshold(kind: str, tmp: Path) -> None:
    torch.manual_seed(0)
    made: nn.Module = nn.Linear(8, 3) if kind == "linear" else net("healthy")
    x, y = separable(640)
    pairs = [(x[i::20], y[i::20]) for i in range(20)]
    task = kit.Task(made, CE, pairs, optimizer=torch.optim.SGD(made.parameters(), lr=1e6 if kind == "runaway" else 0.1))
    found = untouched(made, lambda: kit.clip_threshold(task))
    if kind == "runaway":
        assert found.result == "refused" and "run away" in found.reason
        return
    seen, copied = [], copy.deepcopy(made)
    optimizer = torch.optim.SGD(copied.parameters(), lr=0.1)
    for step in range(400):
        optimizer.zero_grad()
        a, b = pairs[step % 20]
        CE(copied(a), b).backward()
        seen += [references.clipped(copied, 1.0)[0]] if step >= 100 else []
        optimizer.step()
    assert math.isclose(found.answer["threshold"], references.percentile(seen), rel_tol=0.15)


def seed(number: int, tmp: Path) -> None:
    draws = []
    for _ in range(2):
        with kit.seed_everything(number, warn_only=True):
            draws.append((float(torch.rand(())), float(np.random.rand())))
    torch.manual_seed(number)
    assert draws[0] == draws[1] and draws[0][0] == float(torch.rand(()))
    assert not torch.are_deterministic_algorithms_enabled()


def rank(values: list[Any], tmp: Path) -> None:
    held = torch.tensor(values)
    fine = [v for v in values if math.isfinite(v)]
    line = kit.log_per_rank("x", held, log=lambda _: None)
    assert f"mean {np.mean(fine):.4g}, std {np.std(fine, ddof=1):.4g}" in line
    assert ("not finite" in line) is (len(fine) < len(values)) and kit.ranks_differ(held.float()) is None


KINDS = ("healthy", "vanishing", "exploding")
EXAMPLES: dict[str, Callable[[Path], None]] = {
    **{f"{k} net": partial(gradients, k) for k in KINDS}, **{f"flow: {k}": partial(flow, k) for k in KINDS},
    **{f"logger: {k}": partial(logger, k) for k in KINDS}, **{f"clip: {k}": partial(clip, k) for k in (*KINDS, "NaN")},
    "sharpness: fresh": partial(sharpness, "fresh"), "sharpness: trained": partial(sharpness, "trained"),
    "sharpness: memorised noise": partial(sharpness, "noise"),
    **{f"rate: {k}": partial(rate, k) for k in ("net", "linear", "regression")},
    **{f"picture: {k}": partial(picture, k) for k in ("html", "svg", "png")},
    "cosine: warm-up": partial(cosine, 5, 50, 0.1), "cosine: none": partial(cosine, 0, 20, 0.0),
    "cosine: late": partial(cosine, 10, 11, 0.5), **{f"cycle: {n}": partial(cycle, n) for n in (20, 100, 300)},
    **{k: partial(nonfinite, k) for k in ("finite net", "NaN weight", "infinite bias", "infinite buffer")},
    "hooks: sound": partial(hooks, None, True), "hooks: NaN": partial(hooks, lambda x: x * math.nan, False),
    "hooks: infinity in a tuple": partial(hooks, lambda x: (x, x * math.inf), False),
    "hooks: backward": partial(hooks, lambda x: torch.sqrt((x - x).abs()), True),
    "batches: healthy": partial(batches, "healthy"), "batches: sick": partial(batches, "sick"),
    "batches: sick there, missed by the reference": partial(batches, "missed"),
    **{f"loss: {k}": partial(loss_value, k) for k in ("fine", "bad input", "bad weight", "infinite")},
    "fits: net": partial(fits, "net"), "fits: linear": partial(fits, "linear"), "cut graph": partial(fits, "cut"),
    "double softmax": partial(fits, "softmax"), "blind net": partial(fits, "blind"),
    "logits: usual": partial(logits, 1), "logits: large": partial(logits, 60), "logits: huge": partial(logits, 1000),
    "softmax: 3": partial(softmax, 3), "softmax: 10": partial(softmax, 10),
    **{f"threshold: {k}": partial(threshold, k) for k in ("net", "linear", "runaway")},
    **{f"seed: {n}": partial(seed, n) for n in (0, 1, 7)},
    "rank: fine": partial(rank, [1.0, 2.0, 4.0]), "rank: NaN": partial(rank, [1.0, math.nan, 3.0]),
    "rank: whole numbers": partial(rank, [1, 2, 3]),
}  # fmt: skip
