"""The single tools do what they say and give back what they change."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from traindx import kit
from traindx.errors import UsageError
from traindx.trials.task import Task


def test_the_gradient_table_has_norms_and_names_what_has_none() -> None:
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    model(torch.tensor([[3.0, 4.0]])).sum().backward()
    weight, bias = kit.gradient_table(model)
    assert weight["name"] == "weight" and weight["grad"] == pytest.approx(5.0)
    assert weight["ratio"] == pytest.approx(5.0 / weight["weight"])
    assert bias["grad"] is None and bias["ratio"] is None


def test_nonfinite_weights_gradients_and_buffers_are_named() -> None:
    model = nn.BatchNorm1d(2)
    assert kit.find_nonfinite(model) == []
    model.weight.grad = torch.tensor([1.0, float("nan")])
    model.running_var[0] = float("inf")
    assert kit.find_nonfinite(model) == ["weight.grad", "running_var"]


def test_a_batch_is_validated_in_words() -> None:
    assert kit.validate_batch({"x": torch.randn(4, 3), "y": torch.arange(4)}) == []
    wrong = kit.validate_batch((torch.ones(4, 3), torch.tensor([1.0, float("nan")])))
    assert len(wrong) == 3 and "the same" in wrong[0] and "1 values" in wrong[1] and "[2, 4]" in wrong[2]


def test_warm_up_rises_to_the_rate_and_the_cosine_ends_at_the_floor() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = kit.warmup_cosine(optimizer, 4, 12, floor=0.1)
    rates = []
    for _ in range(13):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates[:5] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0])
    assert rates[12] == pytest.approx(0.1) and rates == sorted(rates[:5]) + sorted(rates[5:], reverse=True)
    with pytest.raises(UsageError, match="warm-up"):
        kit.warmup_cosine(optimizer, 12, 12)


def test_seeds_hold_inside_the_block_and_are_undone_after_it() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    with kit.seeded(3):
        first = draw()
        assert torch.are_deterministic_algorithms_enabled()
    state = random.getstate(), torch.get_rng_state()
    with kit.seeded(3):
        assert draw() == first
    assert random.getstate() == state[0] and torch.equal(torch.get_rng_state(), state[1])
    assert not torch.are_deterministic_algorithms_enabled()


def test_seeding_without_a_block_gives_the_way_back() -> None:
    state = torch.get_rng_state()
    undo = kit.seed_everything(5, deterministic=False)
    assert not torch.equal(torch.get_rng_state(), state)
    undo()
    assert torch.equal(torch.get_rng_state(), state)


def test_one_batch_and_the_rate_are_tried_on_a_twin() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    batches = [(x, x.sum(1, keepdim=True)) for x in torch.randn(4, 256, 4)]
    task = Task(model, nn.functional.mse_loss, batches, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    before = model.weight.detach().clone()
    assert kit.overfit_one_batch(task, samples=8).result == "pass"
    found = kit.lr_finder(task)
    assert found.result == "done" and 1e-3 < found.answer["start_lr"] < 2.0
    assert torch.equal(model.weight, before)
