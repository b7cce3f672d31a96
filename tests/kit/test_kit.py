"""The single tools do what they say and give back what they change."""

from __future__ import annotations

import doctest
import importlib
import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import traindx
from traindx import kit
from traindx.errors import EnvironmentFault, UsageError


@pytest.mark.parametrize("name", kit.__all__)
def test_every_tool_has_an_example_that_runs(name: str) -> None:
    torch.manual_seed(0)  # the examples draw data of their own
    tool = getattr(kit, name)
    module = importlib.import_module(tool.__module__)
    found = doctest.DocTestFinder(recurse=True).find(tool, name, module=module, globs=vars(module).copy())
    runner = doctest.DocTestRunner()
    for one in found:
        runner.run(one)
    assert not runner.failures
    if not isinstance(tool, type):
        assert runner.tries, "a function without an example"


def test_every_public_tool_says_what_one_gets() -> None:
    assert sorted(kit.__all__) == kit.__all__
    assert all((getattr(kit, name).__doc__ or "").strip() for name in kit.__all__)


# -- gradients


def test_the_gradient_table_has_norms_and_names_what_has_none() -> None:
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    model(torch.tensor([[3.0, 4.0]])).sum().backward()
    table = kit.gradient_table(model)
    assert table["weight"].grad == pytest.approx(5.0) == table.total
    assert table["weight"].ratio == pytest.approx(5.0 / table["weight"].weight)
    assert table["bias"].grad is None and table["bias"].ratio is None and table["bias"].status == "frozen"
    assert "frozen" in str(table) and len(str(table).splitlines()) == 4
    assert table.summary == "min 5 (weight), max 5 (weight), mean 5, together 5: 1 frozen"


def tower(layers: int, squash: type[nn.Module], scale: float = 1.0) -> nn.Sequential:
    torch.manual_seed(0)
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [nn.Linear(16, 16), squash()]
    net = nn.Sequential(*parts, nn.Linear(16, 4))
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(scale)
    nn.functional.cross_entropy(net(torch.randn(64, 16)), torch.randint(0, 4, (64,))).backward()
    return net


def test_without_absolute_limits_the_status_is_the_same_whatever_the_scale_of_the_loss() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
    for scale in (1e-6, 1.0, 1e6):
        model.zero_grad()
        (model(torch.randn(8, 4)).sum() * scale).backward()
        assert {row.status for row in kit.gradient_table(model, vanish=None, explode=None)} == {"ok"}


def test_a_healthy_tower_is_ok_and_in_a_vanishing_one_the_starved_layers_are_named_not_the_head() -> None:
    assert {r.status for r in kit.gradient_table(tower(4, nn.ReLU))} == {"ok"}
    sick = kit.gradient_table(tower(12, nn.Sigmoid), vanish=None)
    assert sick["0.weight"].status == "vanishing" == sick["2.weight"].status and "times below" in sick["0.weight"].note
    assert sick["24.weight"].status == "ok" == sick["22.weight"].status
    assert "vanishing" in sick.summary and "(0.bias)" in sick.summary


def test_absolute_limits_are_the_users() -> None:
    net = tower(4, nn.ReLU)
    norm = kit.gradient_table(net)["0.weight"].grad
    assert kit.gradient_table(net, explode=norm / 2)["0.weight"].status == "exploding"
    assert kit.gradient_table(net, vanish=norm * 2)["0.weight"].status == "vanishing"
    assert kit.gradient_table(tower(12, nn.Sigmoid, 0.5))["0.weight"].note == "norm below 1e-06"


def test_zero_bad_and_missing_gradients_have_a_status_of_their_own() -> None:
    model = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(6)])
    for p, g in zip(model, (1.0, 1e-5, 0.0, float("nan"), 1.0, 1.0)):
        p.grad = torch.full((4,), g)
    model[4].grad = None
    told = [row.status for row in kit.gradient_table(model)]
    assert told == ["ok", "vanishing", "no gradient", "not finite", "no gradient", "ok"]


def test_statistics_call_no_bias_vanishing_that_a_norm_takes_away() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    nn.functional.cross_entropy(net(torch.randn(64, 8)), torch.arange(64) % 3).backward()
    found = kit.gradient_statistics(net)
    assert found["0.bias"]["mean_abs"] < 1e-6 and {row["status"] for row in found.values()} == {"ok"}


def test_a_bias_that_a_norm_takes_away_is_no_vanishing_layer() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    nn.functional.cross_entropy(net(torch.randn(64, 8)), torch.randint(0, 2, (64,))).backward()
    row = kit.gradient_table(net)["0.bias"]
    assert row.grad < 1e-6 and row.status == "ok" and "no effect" in row.note


def test_the_table_has_colours_in_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table = kit.gradient_table(tower(12, nn.Sigmoid))
    table.show()
    assert "\x1b[" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    table.show()
    out = capsys.readouterr().out
    assert "\x1b[33m" in out and "vanishing" in out


def test_a_model_without_parameters_or_gradients_is_refused_clearly() -> None:
    with pytest.raises(UsageError, match="no parameters"):
        kit.gradient_table(nn.ReLU())
    assert "after backward()" in kit.gradient_table(nn.Linear(2, 2)).summary
    for call in (kit.gradient_statistics, lambda m: kit.GradientFlow(m).picture()):
        with pytest.raises(UsageError, match="backward"):
            call(nn.Linear(2, 2))


def test_statistics_count_zeros_and_leave_bad_entries_out() -> None:
    model = nn.Linear(4, 1, bias=False)
    model.weight.grad = torch.tensor([[0.0, 2.0, -4.0, float("inf")]])
    s = kit.gradient_statistics(model)["weight"]
    assert s["zeros"] == 0.25 and s["nonfinite"] == 1 and s["max_abs"] == 4.0 and s["mean"] == pytest.approx(-2 / 3)
    assert s["min_abs"] == 0.0 and s["status"] == "not finite"


def test_statistics_agree_with_torch_and_the_limit_for_tiny_entries_is_settable() -> None:
    net = tower(12, nn.Sigmoid)
    for name, s in kit.gradient_statistics(net, tiny=1e-5).items():
        g = net.get_parameter(name).grad
        assert s["mean_abs"] == pytest.approx(float(g.abs().mean())) and s["std"] == pytest.approx(float(g.std()), rel=1e-4)
        assert s["min_abs"] == pytest.approx(float(g.abs().min())) and s["max_abs"] == pytest.approx(float(g.abs().max()))
        assert s["tiny"] == pytest.approx(float((g.abs() < 1e-5).float().mean()))
    assert kit.gradient_statistics(net)["0.weight"]["status"] == "vanishing"
    assert {s["status"] for s in kit.gradient_statistics(tower(4, nn.ReLU)).values()} == {"ok"}


def test_the_flow_shows_the_largest_with_the_limits_and_no_parameter_without_a_gradient(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(10)))
    model[0].requires_grad_(False)
    flow = kit.GradientFlow(model)
    for step in range(3):
        model.zero_grad()
        (model(torch.ones(1, 2)).sum() * 10).backward()
        flow.record(step)
    means = {n: float(np.mean(v)) for n, v in flow.norms.items()}
    largest = sorted((n for n in means if means[n] == means[n]), key=lambda n: -means[n])[:4]
    picture = flow.picture(top_k=4)
    assert [line.name for line in picture.lines] == largest and "0.weight" not in largest
    assert [level for level, _ in picture.levels] == [1e-6, 10.0]
    figure = flow.plot(tmp_path / "flow.html", top_k=4)
    assert [d.name for d in figure.data] == largest and len(figure.layout.shapes) == 2
    assert "https://cdn" not in (tmp_path / "flow.html").read_text(encoding="utf-8")[:2000]
    flow.plot(tmp_path / "flow.png")
    flow.plot(tmp_path / "flow.svg")
    assert (tmp_path / "flow.png").read_bytes()[:4] == b"\x89PNG" and "vanishing below" in (tmp_path / "flow.svg").read_text()
    with pytest.raises(UsageError, match=r"\.svg"):
        flow.plot(tmp_path / "flow.jpeg2000")


def test_a_burst_of_gradients_stays_in_the_picture(tmp_path: Path) -> None:
    model = nn.Linear(1, 1, bias=False)
    flow = kit.GradientFlow(model)
    for step in range(30):
        model.weight.grad = torch.tensor([[1.0 if step < 25 else 1e4]])
        flow.record(step)
    flow.plot(tmp_path / "flow.svg")
    drawn = (tmp_path / "flow.svg").read_text()
    points = drawn.split('points="')[1].split('"')[0].split()
    assert len(points) == 30


def test_a_png_without_matplotlib_is_refused_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = kit.GradientFlow(tower(2, nn.ReLU))
    flow.record(0)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(EnvironmentFault, match="matplotlib"):
        flow.plot(tmp_path / "flow.png")
    flow.plot(tmp_path / "flow.html")


def test_clipping_agrees_with_torch_and_says_what_it_did() -> None:
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    for model in (ours, theirs):
        (model(torch.ones(4, 3)).sum() * 10).backward()
    said: list[str] = []
    done = kit.clip_and_log(ours, 1.0, log=said.append)
    assert done.norm == pytest.approx(float(nn.utils.clip_grad_norm_(theirs.parameters(), 1.0)))
    assert done.clipped and done.finite and "clipped to 1" in said[0]
    for a, b in zip(ours.parameters(), theirs.parameters()):
        assert torch.allclose(a.grad, b.grad, atol=1e-6)
    assert not kit.clip_and_log(ours, 100.0).clipped


def test_clipping_does_not_spread_a_nan() -> None:
    model = nn.Linear(2, 2)
    model.weight.grad, model.bias.grad = torch.full((2, 2), float("nan")), torch.ones(2)
    done = kit.clip_and_log(model, 0.1)
    assert not done.finite and not done.clipped
    assert model.bias.grad.tolist() == [1.0, 1.0]


# -- non-finite values


def test_nonfinite_weights_gradients_and_buffers_are_named() -> None:
    model = nn.BatchNorm1d(2)
    assert kit.find_nonfinite(model) == {}
    model.weight.grad = torch.tensor([1.0, float("nan")])
    model.running_var[0] = float("inf")
    assert kit.find_nonfinite(model) == {"weight.grad": "1 NaN of 2 values", "running_var": "1 infinity of 2 values"}


def test_a_bad_loss_is_traced_to_inputs_weights_or_this_step() -> None:
    model, x = nn.Linear(2, 1), torch.ones(3, 2)
    bad, said = torch.tensor(float("nan")), []
    assert kit.check_loss(torch.tensor(1.5, requires_grad=True), model, x) == 1.5
    with pytest.raises(FloatingPointError, match="at step 3; weights and buffers are finite, so this step made it"):
        kit.check_loss(bad, model, x, step=3)
    kit.check_loss(bad, model, x * float("inf"), found=said.append)
    with torch.no_grad():
        model.bias.fill_(float("nan"))
    kit.check_loss(bad, model, x, found=said.append)
    assert "input 0 holds 6 infinities" in said[0] and "already in the weights: bias (1 NaN of 1 values)" in said[1]


class Wrapped(nn.Module):
    """Gives what `make` makes of the input, in the container it is told."""

    def __init__(self, make: object, container: type) -> None:
        super().__init__()
        self.make, self.container = make, container

    def forward(self, x: torch.Tensor) -> object:
        out = self.make(x)  # type: ignore[operator]
        return {"out": out} if self.container is dict else self.container([x, out])


@pytest.mark.parametrize("container", [tuple, list, dict])
def test_hooks_look_into_containers_and_find_infinities(container: type) -> None:
    net = Wrapped(lambda x: x * float("inf"), container)
    with pytest.raises(FloatingPointError, match="3 infinities of 3 values; its inputs were finite"):
        with kit.nan_hooks(net):
            net(torch.ones(3))
    assert not net._forward_hooks


def test_hooks_let_masks_of_minus_infinity_pass_unless_told() -> None:
    net = nn.Sequential(Wrapped(lambda x: x.masked_fill(x > 0, float("-inf")), tuple))
    with kit.nan_hooks(net):
        net(torch.ones(3))
    with pytest.raises(FloatingPointError):
        with kit.nan_hooks(net, minus_infinity=True):
            net(torch.ones(3))


def test_hooks_find_what_only_the_backward_pass_breaks() -> None:
    net = nn.Linear(2, 1)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    with pytest.raises(FloatingPointError, match=r"the gradient of '(weight|bias)' holds"):
        with kit.nan_hooks(net):
            torch.sqrt(net(torch.zeros(1, 2)).square()).sum().backward()  # 0/0 in the derivative


def test_hooks_that_only_tell_say_each_sentence_once_and_are_gone_afterwards() -> None:
    net, said = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []
    with torch.no_grad():
        net[0].weight[0, 0] = float("nan")
    with kit.nan_hooks(net, found=said.append):
        for _ in range(2):
            net(torch.ones(1, 2))
    assert len(said) == 3 and said[0].startswith("the output of '0' (Linear) holds 1 NaN of 2") and "held" in said[1]
    assert not any(m._forward_hooks for m in net.modules()) and not net[0].weight._backward_hooks


# -- batches


def test_a_batch_is_validated_in_words() -> None:
    assert kit.validate_batch({"x": torch.randn(4, 3), "y": torch.arange(4)}) == []
    wrong = kit.validate_batch((torch.ones(4, 3), torch.tensor([1.0, float("nan")])))
    assert len(wrong) == 3 and "the same" in wrong[0] and "1 NaN" in wrong[1] and "[2, 4]" in wrong[2]
    assert kit.validate_batch((np.full((4, 3), np.nan), np.zeros(4))) == ["tensor 0 holds 12 NaN"]
    assert kit.validate_batch([]) == ["there is no tensor in it"] and kit.validate_batch(torch.empty(0)) == [
        "the tensor is empty"
    ]


def test_inputs_of_the_wrong_scale_are_named_and_the_limits_are_the_users() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64, 3, 8, 8), torch.randint(0, 10, (64,))
    for fine in (x, torch.rand(64, 1, 28, 28), 0.2 * x + 0.5, 5 * x):
        assert kit.validate_batch((fine, y)) == []
    one = x.clone()
    one[3, 1, 2, 2] = 150
    assert kit.validate_batch((one, y)) == ["tensor 0 holds 150; 100 is the limit for inputs"]
    assert kit.validate_batch((one, y), largest=200) == []
    (pixels,) = kit.validate_batch((255 * torch.rand(64, 1, 28, 28), y))
    assert "raw pixels" in pixels
    assert "raw pixels" in kit.validate_batch((torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8), y[:4]))[0]
    assert "limit" in kit.validate_batch((1e4 * x, y))[0]
    assert kit.validate_batch((1e4 * x, y), largest=None, std=None, mean=None) == []
    assert "centred" in kit.validate_batch((x + 40, y))[0] and "scaled" in kit.validate_batch((1e-5 * x, y))[0]
    assert "outside 0 … 1" in kit.validate_batch((x, y), within=(0, 1))[0]
    one[0, 0, 0, 0], one[0, 0, 0, 1] = float("nan"), float("inf")
    assert kit.validate_batch((one, y)) == ["tensor 0 holds 1 NaN", "tensor 0 holds 1 infinity"]
    with pytest.raises(ValueError, match="1 NaN; tensor 0 holds 1 infinity"):
        kit.validate_batch((one, y), raises=True)
    assert kit.validate_batch((torch.randn(32, 13), 2e5 + 1e5 * torch.rand(32))) == []  # a target may have any scale


def test_inputs_that_were_divided_twice_are_named_and_small_ones_pass() -> None:
    torch.manual_seed(0)
    pictures, y = torch.rand(32, 3, 16, 16), torch.randint(0, 10, (32,))
    assert "divided by 255 twice" in kit.validate_batch((pictures / 255, y))[0]
    assert "hardly differ" in kit.validate_batch(((pictures / 255 - 0.45) / 0.225, y))[0]
    for fine in ((pictures - 0.45) / 0.225, 0.005 * torch.randn(32, 1, 400), torch.eye(100)[torch.randint(0, 100, (32,))]):
        assert kit.validate_batch((fine, y)) == []


def test_large_ids_are_no_outliers_but_a_marker_is() -> None:
    torch.manual_seed(0)
    ids, raw = torch.randint(0, 50_000, (16, 8)), 1e5 * torch.randn(16, 8)
    assert kit.validate_batch({"ids": ids, "labels": raw}) == []
    raw[0, 0] = 1e12
    (said,) = kit.validate_batch({"ids": ids, "labels": raw})
    assert said.startswith("'labels' holds 1e+12")


def test_labels_are_checked_against_the_number_of_classes() -> None:
    x = torch.randn(3, 2)
    assert kit.validate_batch((x, torch.tensor([0, 1, -100])), classes=2) == []
    assert kit.validate_batch((x, torch.tensor([0, 1, -1])), classes=2) == ["tensor 1 holds the label -1; there are 2 classes"]


# -- schedules


def rates(schedule: torch.optim.lr_scheduler.LRScheduler, steps: int) -> list[float]:
    seen = []
    for _ in range(steps):
        seen.append(schedule.optimizer.param_groups[0]["lr"])
        schedule.optimizer.step()
        schedule.step()
    return seen


def sgd(momentum: float = 0.0) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0, momentum=momentum)


def test_warm_up_rises_to_the_rate_and_the_cosine_ends_at_the_floor_and_stays() -> None:
    seen = rates(kit.warmup_cosine(sgd(), 4, 12, floor=0.1), 30)
    assert seen[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert seen[12] == pytest.approx(0.1) and seen == sorted(seen[:5]) + sorted(seen[5:], reverse=True)
    assert seen[12:] == pytest.approx([0.1] * 18)
    for wrong in ({"warmup": 12}, {"warmup": -1}, {"floor": 1.5}):
        with pytest.raises(UsageError, match=r"warm-up|share"):
            kit.warmup_cosine(sgd(), **{"warmup": 2, "total": 12, **wrong})


def test_the_floor_is_a_share_of_each_groups_own_rate() -> None:
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (1.0, 0.01)]
    schedule = kit.warmup_cosine(torch.optim.SGD(groups), 2, 10, floor=0.1)
    seen = []
    for _ in range(15):
        seen.append([g["lr"] for g in schedule.optimizer.param_groups])
        schedule.optimizer.step()
        schedule.step()
    assert seen[-1] == pytest.approx([0.1, 0.001]) and max(r for _, r in seen) == pytest.approx(0.01)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_one_cycle_goes_up_and_down_with_and_without_momentum(momentum: float) -> None:
    seen = rates(kit.one_cycle(sgd(momentum), 2.0, 20), 20)
    top = seen.index(max(seen))
    assert max(seen) == pytest.approx(2.0) and 4 <= top <= 6 and seen[-1] < 1e-4
    assert seen == sorted(seen[: top + 1]) + sorted(seen[top + 1 :], reverse=True)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_cyclical_rate_turns_where_it_should(momentum: float) -> None:
    seen = rates(kit.cyclical(sgd(momentum), 0.1, 0.5, half=4), 17)
    assert [round(seen[i], 6) for i in (0, 4, 8, 12, 16)] == [0.1, 0.5, 0.1, 0.5, 0.1]
    assert rates(kit.cyclical(sgd(), 0.1, 0.5, half=4, shrink=True), 13)[12] == pytest.approx(0.3)
    with pytest.raises(UsageError, match="low < high"):
        kit.cyclical(sgd(), 0.5, 0.1, half=4)


def test_warm_restarts_start_again_at_the_top_and_last_longer() -> None:
    seen = rates(kit.warm_restarts(sgd(), 3), 10)
    assert [i for i, r in enumerate(seen) if r == 1.0] == [0, 3, 9]


# -- seeds and modes


def test_seeds_hold_inside_the_block_and_are_undone_after_it() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    with kit.seeded(3):
        first = draw()
        assert torch.are_deterministic_algorithms_enabled() and torch.backends.cudnn.deterministic
    state = random.getstate(), torch.get_rng_state()
    with kit.seeded(3):
        assert draw() == first
    assert random.getstate() == state[0] and torch.equal(torch.get_rng_state(), state[1])
    assert not torch.are_deterministic_algorithms_enabled() and not torch.backends.cudnn.deterministic


def test_seeding_without_a_block_gives_the_way_back() -> None:
    state = torch.get_rng_state()
    undo = kit.seed_everything(5, deterministic=False)
    assert not torch.equal(torch.get_rng_state(), state)
    undo()
    assert torch.equal(torch.get_rng_state(), state)


def test_the_price_of_determinism_is_measured_without_touching_generators_or_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits = [0.0], {True: 0.004, False: 0.001}
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    with traindx.seed_everything(2) as seeds:
        state = torch.get_rng_state()

        def step() -> None:
            torch.rand(3)
            now[0] += waits[torch.are_deterministic_algorithms_enabled()]

        price = seeds.price(step, times=6)
        assert torch.equal(torch.get_rng_state(), state) and torch.are_deterministic_algorithms_enabled()
    assert price.ratio == pytest.approx(4) and "without determinism (+" in str(price)
    assert not torch.are_deterministic_algorithms_enabled() and "CUBLAS_WORKSPACE_CONFIG" not in os.environ


def test_determinism_may_only_warn_and_the_hash_seed_is_set_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    with kit.seed_everything(5, warn_only=True):
        assert torch.is_deterministic_algorithms_warn_only_enabled() and os.environ["PYTHONHASHSEED"] == "5"
    assert "PYTHONHASHSEED" not in os.environ and not torch.are_deterministic_algorithms_enabled()
    code = "from traindx import kit; print(kit.seed_everything(5).hash_note)"
    for seed, said in ((None, "start it with PYTHONHASHSEED=5"), ("5", "")):
        env = {**os.environ, **({"PYTHONHASHSEED": seed} if seed else {})}
        told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.strip()
        assert (said in told) if said else not told


class Jittered(torch.utils.data.Dataset[tuple[int, float, float]]):
    """Draws from a generator of its own and from numpy's."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> tuple[int, float, float]:
        return i, float(self.rng.random()), float(np.random.rand())


@pytest.mark.parametrize("init", [None, traindx.seed_worker])
def test_workers_follow_the_seed_and_with_seed_worker_their_own_generators_differ(init: Any) -> None:
    def epoch() -> tuple[list[float], list[float]]:
        with traindx.seed_everything(7, deterministic=False):
            data = torch.utils.data.Subset(Jittered(), range(8))
            loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2, worker_init_fn=init)
            own, common = zip(*((b[1].tolist(), b[2].tolist()) for b in loader), strict=True)
        return list(own), list(common)

    first, again = epoch(), epoch()
    assert first == again
    own, common = first
    assert common[0] != common[1]
    assert (own[0] == own[1]) is (init is None)


def test_workers_of_one_seed_draw_alike_with_every_generator() -> None:
    with kit.seeded(1, deterministic=False):
        draws = []
        for _ in range(2):
            torch.manual_seed(11)
            kit.seed_worker(0)
            draws.append((random.random(), float(np.random.rand())))
    assert draws[0] == draws[1]


def test_modes_are_set_and_put_back_module_by_module_also_after_an_error() -> None:
    model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2))
    model[1].eval()  # frozen on purpose
    with kit.evaluating(model):
        assert not model[0].training and not torch.is_grad_enabled()
    with pytest.raises(ZeroDivisionError), torch.no_grad(), kit.training(model):
        assert model[1].training and torch.is_grad_enabled()
        raise ZeroDivisionError
    assert model.training and model[0].training and not model[1].training and torch.is_grad_enabled()


# -- experiments


@pytest.fixture
def task() -> kit.Task:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    batches = [(x, x.sum(1, keepdim=True)) for x in torch.randn(4, 256, 4)]
    return kit.Task(model, nn.functional.mse_loss, batches, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))


def test_experiments_leave_the_task_as_it_was(task: kit.Task, tmp_path: Path) -> None:
    before = task.model.weight.detach().clone()
    assert kit.overfit_one_batch(task, samples=8).result == "pass"
    assert kit.two_example_check(task).result == "pass"
    assert kit.sharpness(task).answer["lambda_max"] == pytest.approx(2.0, rel=0.5)  # Hessian of a mean square: 2·E[xxᵀ]
    assert kit.clip_threshold(task).answer["n"] == 300
    assert kit.check_determinism(task).result == "pass"
    assert torch.equal(task.model.weight, before) and task.model.training


def test_the_rate_is_found_and_drawn(task: kit.Task, tmp_path: Path) -> None:
    found = kit.lr_finder(task)
    assert found.result == "done" and 1e-3 < found.answer["start_lr"] < 2.0
    figure = kit.plot_lr_finder(found, tmp_path / "lr.html")
    assert (
        len(figure.data[0].x) == len(found.run.series("trial/lr")) <= found.steps
        and (tmp_path / "lr.html").stat().st_size > 1000
    )
    with pytest.raises(UsageError, match="lr_finder"):
        kit.plot_lr_finder(kit.two_example_check(task))


def test_two_examples_that_a_cut_model_cannot_learn_fail(task: kit.Task) -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x).detach()

    assert kit.two_example_check(kit.Task(Cut(), nn.functional.mse_loss, task.train)).result == "fail"


# -- two examples: a floor is named only where it fits and its cause is there


class Tanh(nn.Module):
    """Answers held within ±`reach`: the loss of ten classes stops near a level that belongs to another fault."""

    def __init__(self, reach: float) -> None:
        super().__init__()
        self.inner, self.reach = nn.Linear(20, 10), reach

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.inner(x)) * self.reach


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.answer, self.unused = nn.Parameter(torch.zeros(10)), nn.Linear(20, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.answer + 0 * self.unused(x)


def two(model: nn.Module) -> Any:
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(0))
    return kit.two_example_check(kit.Task(model, nn.CrossEntropyLoss(), [(x, torch.arange(64) % 10)]))


def test_a_double_softmax_is_named_where_there_is_a_softmax_only() -> None:
    torch.manual_seed(0)
    body = nn.Linear(20, 10)
    assert two(body).result == "pass"
    assert "double softmax (1.461)" in two(nn.Sequential(body, nn.Softmax(-1))).reason
    for reach in (0.5, 1.2):  # 1.46, within the tolerance of 1.461, and below it
        found = two(Tanh(reach))
        assert found.result == "fail" and "softmax" not in found.reason and "entropy" not in found.reason


def test_constant_answers_cannot_fall_below_the_entropy_of_two_labels() -> None:
    assert "the entropy of the labels, ln 2 (0.6931)" in two(Constant()).reason


@pytest.mark.parametrize("labels", [[7] * 60 + [0, 1, 2, 3], [7] * 64])
def test_what_a_constant_answer_learns_proves_nothing(labels: list[int]) -> None:
    """A bias alone memorises two samples of one class: another class is looked for; without one nothing is proven."""
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(0))
    for model in (Constant(), nn.Linear(20, 10)):
        found = kit.two_example_check(kit.Task(model, nn.CrossEntropyLoss(), [(x, torch.tensor(labels))]))
        able = "pass" if isinstance(model, nn.Linear) else "fail"
        assert found.result == (able if len(set(labels)) > 1 else "undecided")
    assert "one target" in found.reason or len(set(labels)) > 1


def test_what_cannot_be_tried_is_refused_clearly() -> None:
    x, y = torch.randn(8, 4), torch.arange(8) % 2
    model = nn.Linear(4, 2)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for tool in (kit.lr_finder, kit.overfit_one_batch, kit.sharpness, kit.clip_threshold):
        with pytest.raises(UsageError, match="no train data"):
            tool(kit.Task(model, nn.CrossEntropyLoss(), [], optimizer=sgd))
        with pytest.raises(UsageError, match="not Linear"):
            tool(model)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"one number; this one has the shape \(8, 2\)"):
        kit.overfit_one_batch(kit.Task(model, lambda out, target: out, [(x, y)]))
    still = nn.Linear(4, 2).requires_grad_(False)
    for tool in (kit.clip_threshold, kit.check_determinism):
        with pytest.raises(UsageError, match="the loss has no gradient"):
            tool(kit.Task(still, nn.CrossEntropyLoss(), [(x, y)]))
    for tool in (kit.clip_threshold, kit.check_determinism, kit.lr_finder, kit.sharpness):
        with pytest.raises(UsageError, match="the loss has no gradient"):
            tool(kit.Task(model, lambda out, target: out.detach().mean(), [(x, y)], optimizer=sgd))
    with pytest.raises(UsageError, match=r"no parameter has a gradient: call this after backward"):
        kit.clip_and_log(nn.Linear(4, 2), 1.0)


def test_the_kit_is_there_without_an_import_of_its_own() -> None:
    code = "import sys, traindx; assert 'torch' not in sys.modules; print(traindx.kit.gradient_table.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "gradient_table", done.stderr


# -- flat and sharp


def test_sharpness_says_flat_sharp_or_not_at_a_minimum_with_the_ratio() -> None:
    torch.manual_seed(0)
    x = torch.randn(256, 8)
    y = (x @ torch.randn(8, 3)).argmax(1)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    task = kit.Task(model, nn.CrossEntropyLoss(), [(x, y)])
    fresh = kit.sharpness(task)
    assert fresh.answer["word"] == "not at a minimum" and "saddle" not in fresh.reason
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    trained = kit.sharpness(task)
    low, high = trained.answer["interval"]
    assert low < trained.answer["ratio"] < high and trained.answer["word"] == "flat" and "λ_max" in trained.reason
    assert kit.sharpness(task, epsilon=1.0).answer["word"] == "sharp"
    frozen = nn.Linear(8, 3).requires_grad_(False)
    with pytest.raises(UsageError, match="trainable"):
        kit.sharpness(kit.Task(frozen, nn.CrossEntropyLoss(), [(x, y)]))
    with pytest.raises(UsageError, match="no train data"):
        kit.sharpness(kit.Task(model, nn.CrossEntropyLoss(), []))


def test_the_clip_threshold_clips_about_a_twentieth_of_real_steps() -> None:
    torch.manual_seed(0)
    x = torch.randn(40, 32, 8)
    batches = [(b, (b[:, 0] > 0).long()) for b in x]
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    found = kit.clip_threshold(kit.Task(model, nn.CrossEntropyLoss(), batches, optimizer=optimizer))
    low, high = found.answer["interval"]
    assert found.result == "done" and low <= found.answer["threshold"] <= high and found.answer["n"] == 300
    over = 0
    for step in range(400):
        optimizer.zero_grad()
        inputs, labels = batches[step % 40]
        nn.functional.cross_entropy(model(inputs), labels).backward()
        over += step >= 100 and float(nn.utils.get_total_norm([p.grad for p in model.parameters()])) > found.answer["threshold"]
        optimizer.step()
    assert over / 300 < 0.1
    hot = kit.Task(model, nn.CrossEntropyLoss(), batches, optimizer=torch.optim.SGD(model.parameters(), lr=1e6))
    refused = kit.clip_threshold(hot)
    assert refused.result == "refused" and "run away" in refused.reason


# -- ranks


def test_a_line_per_rank_and_agreement_without_a_group() -> None:
    said: list[str] = []
    kit.log_per_rank("x", torch.tensor([1.0, float("nan")]), log=said.append)
    kit.log_per_rank("n", torch.tensor([1, 2, 3]), log=said.append)
    kit.log_per_rank("none", torch.empty(0), log=said.append)
    kit.log_per_rank("lost", torch.tensor(float("inf")), log=said.append)
    assert said[0] == "[rank 0 of 1] x: mean 1, std 0, 1 … 1, 1 of 2 not finite" and said[3].endswith("all 1 not finite")
    assert "mean 2" in said[1] and "empty" in said[2]
    assert kit.ranks_differ(torch.tensor(1.0)) is None


def _ranked(rank: int, folder: str) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    same = kit.ranks_differ(torch.tensor(0.5), log=lambda _: None)
    other = kit.ranks_differ(torch.tensor(0.5 + rank), log=lambda _: None)
    bad = kit.ranks_differ(torch.tensor(float("nan") if rank else 1.0), log=lambda _: None)
    line = kit.log_per_rank("loss", torch.tensor([float(rank)]), log=lambda _: None)
    Path(folder, f"{rank}.txt").write_text(f"{same} {other} {bad is not None} {line}")
    torch.distributed.destroy_process_group()


def test_two_ranks_say_who_they_are_and_notice_a_difference(tmp_path: Path) -> None:
    torch.multiprocessing.start_processes(_ranked, args=(str(tmp_path),), nprocs=2, start_method="spawn")
    for rank in range(2):
        told = (tmp_path / f"{rank}.txt").read_text()
        assert told.startswith("None [0.5, 1.5] True") and f"[rank {rank} of 2] loss: mean {rank}" in told


# -- the logger


def test_the_loggers_own_call_is_silent_with_a_loss_that_has_a_graph(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).train()
    loss = nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 2, (8,)))
    loss.backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with kit.TrainingLogger(tmp_path) as logger:
            logger.scalars({"train/loss": loss}, 0)
            logger.gradients(model, 0)
            logger.statistics(model, 0)
            logger.weights(model, 0)
            logger.activations(model, torch.randn(8, 4), 0)
    assert model.training and not model[0]._forward_hooks
    run = traindx.load(tmp_path)[0]
    assert run.signals


READS = ("item", "tolist", "cpu", "numpy", "__float__", "__bool__", "__int__")  # each waits for a GPU


@pytest.mark.parametrize(
    "tool",
    [
        kit.gradient_table,
        kit.gradient_statistics,
        kit.find_nonfinite,
        lambda model: kit.clip_and_log(model, 1.0),
        lambda model: kit.GradientFlow(model).record(0),
    ],
)
def test_waits_for_the_device_do_not_grow_with_the_model(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in READS:
        own = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda t, *a, own=own, name=name, **k: (read.append(name), own(t, *a, **k))[1])
    waits = []
    for layers in (2, 12):
        model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(layers)])
        model(torch.ones(2, 4)).sum().backward()
        read.clear()
        tool(model)
        waits.append(len(read))
    assert waits[0] == waits[1] <= 2
