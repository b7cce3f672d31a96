"""The single tools do what they say and give back what they change."""

from __future__ import annotations

import doctest
import importlib
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import traindx
from traindx import kit
from traindx.errors import UsageError


@pytest.mark.parametrize("name", ["batches", "experiments", "gradients", "nonfinite", "schedules", "seeds"])
def test_the_examples_in_the_documentation_run(name: str) -> None:
    done = doctest.testmod(importlib.import_module(f"traindx.kit.{name}"))
    assert done.attempted and not done.failed


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
    assert table["bias"].grad is None and table["bias"].ratio is None and table["bias"].note == "frozen"
    assert "frozen" in str(table) and len(str(table).splitlines()) == 4


def test_the_gradient_table_is_the_same_whatever_the_scale_of_the_loss() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1))
    notes = []
    for scale in (1e-6, 1.0, 1e6):
        model.zero_grad()
        (model(torch.randn(8, 4)).sum() * scale).backward()
        notes.append([row.note for row in kit.gradient_table(model)])
    assert notes == [[""] * 6] * 3


def test_a_layer_far_below_the_others_zero_and_bad_gradients_are_noted() -> None:
    model = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(5)])
    for p, g in zip(model, (1.0, 1.0, 1e-5, 0.0, float("nan"))):
        p.grad = torch.full((4,), g)
    notes = [row.note for row in kit.gradient_table(model)]
    assert notes == ["", "", "100000 times below the median", "zero", "not finite"]


def test_statistics_count_zeros_and_leave_bad_entries_out() -> None:
    model = nn.Linear(4, 1, bias=False)
    model.weight.grad = torch.tensor([[0.0, 2.0, -4.0, float("inf")]])
    s = kit.gradient_statistics(model)["weight"]
    assert s["zeros"] == 0.25 and s["nonfinite"] == 1 and s["max_abs"] == 4.0 and s["mean"] == pytest.approx(-2 / 3)


def test_the_flow_is_drawn_with_a_line_per_parameter(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(10)))
    flow = kit.GradientFlow(model)
    for step in range(3):
        model.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        flow.record(step)
    figure = flow.plot(tmp_path / "flow.html", most=5)
    assert figure.data[0].name == "0.weight" and len(figure.data) == 5
    assert "https://cdn" not in (tmp_path / "flow.html").read_text(encoding="utf-8")[:2000]
    with pytest.raises(UsageError, match=r"\.html"):
        flow.plot(tmp_path / "flow.png")


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
    assert kit.find_nonfinite(model) == []
    model.weight.grad = torch.tensor([1.0, float("nan")])
    model.running_var[0] = float("inf")
    assert kit.find_nonfinite(model) == ["weight.grad", "running_var"]


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
    assert len(wrong) == 3 and "the same" in wrong[0] and "1 values" in wrong[1] and "[2, 4]" in wrong[2]
    assert kit.validate_batch([]) == ["there is no tensor in it"] and kit.validate_batch(torch.empty(0)) == [
        "the tensor is empty"
    ]


def test_large_ids_and_raw_features_are_no_outliers_but_a_marker_is() -> None:
    torch.manual_seed(0)
    ids, raw = torch.randint(0, 50_000, (16, 8)), 1e5 * torch.randn(16, 8)
    assert kit.validate_batch({"ids": ids, "raw": raw}) == []
    raw[0, 0] = 1e12
    (said,) = kit.validate_batch({"ids": ids, "raw": raw})
    assert said.startswith("'raw' holds 1e+12")


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


def test_warm_up_rises_to_the_rate_and_the_cosine_ends_at_the_floor() -> None:
    seen = rates(kit.warmup_cosine(sgd(), 4, 12, floor=0.1), 13)
    assert seen[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert seen[12] == pytest.approx(0.1) and seen == sorted(seen[:5]) + sorted(seen[5:], reverse=True)
    with pytest.raises(UsageError, match="warm-up"):
        kit.warmup_cosine(sgd(), 12, 12)


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


def test_the_price_of_determinism_is_measured_without_touching_generators_or_modes() -> None:
    waits = {True: 0.004, False: 0.001}
    with traindx.seed_everything(2) as seeds:
        state = torch.get_rng_state()

        def step() -> None:
            torch.rand(3)
            time.sleep(waits[torch.are_deterministic_algorithms_enabled()])

        price = seeds.price(step, times=6)
        assert torch.equal(torch.get_rng_state(), state) and torch.are_deterministic_algorithms_enabled()
    assert 1.5 < price.ratio < 8 and "without determinism (+" in str(price)
    assert not torch.are_deterministic_algorithms_enabled() and "CUBLAS_WORKSPACE_CONFIG" not in os.environ


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
