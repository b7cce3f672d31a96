"""Metrics the script computes itself: compared with what its predictions and losses say."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from probes.watched import watched
from traindx.probes.attach import PATCHES
from traindx.probes.evaluation import Evaluations


def train(evaluate, epochs: int = 3) -> None:
    torch.manual_seed(2)
    x = torch.randn(62, 6)
    y = x[:, :4].argmax(1)
    model = nn.Linear(6, 4)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(epochs):
        for at in torch.arange(40).split(8):
            optimizer.zero_grad()
            F.cross_entropy(model(x[at]), y[at]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            evaluate(model, list(zip(x[40:].split(4), y[40:].split(4))))
        model.train()


def by_item(axis: int):
    def evaluate(model, batches):
        for x, y in batches[:5]:  # four rows, four classes: a wrong axis runs
            out = model(x)
            F.cross_entropy(out, y)
            (out.argmax(axis) == y).float().mean().item()

    return evaluate


def by_count(model, batches):
    correct = 0
    for x, y in batches:
        out = model(x)
        F.cross_entropy(out, y)
        correct += out.argmax(1).eq(y).sum().item()


def by_total(model, batches):
    correct = torch.zeros(())
    for x, y in batches:
        out = model(x)
        F.cross_entropy(out, y)
        correct += torch.eq(out.argmax(1), y).sum()
    float(100 * correct / 22)


def test_an_accuracy_over_the_wrong_axis_is_not_what_the_predictions_give():
    said, real = watched(lambda: train(by_item(0)), Evaluations()).fact("eval.metric_recomputed")["accuracy"]
    assert real - said > 0.2


@pytest.mark.parametrize("evaluate", [by_item(1), by_count, by_total])
def test_an_accuracy_that_is_right_is_found_right(evaluate):
    run = watched(lambda: train(evaluate), Evaluations())
    said, real = run.fact("eval.metric_recomputed")["accuracy"]
    assert said == pytest.approx(real) and real > 0.5
    assert not PATCHES.comparing


def test_an_accuracy_alone_makes_an_evaluation():
    def evaluate(model, batches):
        for x, y in batches:
            (model(x).argmax(1) == y).sum().item()

    run = watched(lambda: train(evaluate), Evaluations())
    assert [e.data["samples"] for e in run.events_of("evaluation")] == [22] * 3
    assert "loss/val" not in run.signals  # a count of hits is no loss


def test_a_comparison_that_is_not_read_is_no_metric():
    def evaluate(model, batches):
        for x, y in batches:
            out = model(x)
            F.cross_entropy(out, y)
            ((out.argmax(1) == y) & (y != 0)).sum().item()

    told = watched(lambda: train(evaluate), Evaluations()).fact("eval.metric_recomputed") or {}
    assert "accuracy" not in told or told["accuracy"][0] == pytest.approx(told["accuracy"][1])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("text", [False, True])
def test_a_printed_mean_of_batch_means_is_told_from_the_mean_over_samples(weighted, text, capsys):
    def evaluate(model, batches):
        losses = [F.cross_entropy(model(x), y).item() * (len(y) if weighted else 1) for x, y in batches]
        mean = sum(losses) / (22 if weighted else len(losses))
        print(f"val {mean:.5f}" if text else mean)

    run = watched(lambda: train(evaluate), Evaluations())
    said, real = run.fact("eval.metric_recomputed")["loss"]
    assert (abs(said - real) < 1e-5) is weighted
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize("divisor", [22, 1])
def test_batch_means_divided_by_the_wrong_count_are_told_once_they_follow_the_loss(divisor, capsys):
    def evaluate(model, batches):
        print(f"val {sum(F.cross_entropy(model(x), y).item() for x, y in batches) / divisor:.6f}")

    run = watched(lambda: train(evaluate), Evaluations())
    said, real = run.fact("eval.metric_recomputed")["loss"]
    assert said / real == pytest.approx({22: 6 / 22, 1: 6.0}[divisor], rel=0.2)


@pytest.mark.parametrize(("reduction", "told"), [("mean", True), ("sum", False)])
def test_one_mean_over_all_that_is_divided_again_is_told_and_a_sum_that_is_divided_is_right(reduction, told, capsys):
    def evaluate(model, batches):
        x, y = (torch.cat(part) for part in zip(*batches, strict=True))
        print(f"val {F.cross_entropy(model(x), y, reduction=reduction).item() / len(y):.7f}")

    run = watched(lambda: train(evaluate), Evaluations())
    pair = (run.fact("eval.metric_recomputed") or {}).get("loss")
    if told:
        assert pair[0] / pair[1] == pytest.approx(1 / 22, rel=0.01)
    else:
        assert pair is None or pair[0] == pytest.approx(pair[1])
