"""Metrics the script computes itself: compared with what its predictions and losses say."""

from __future__ import annotations

import copy
import itertools
import logging
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from probes.watched import watched
from traindx.probes.drive.patches import PATCHES
from traindx.probes.read.data.data import Data
from traindx.probes.read.loss.validation import Evaluations


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


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize(("sick", "formula"), [(True, "so far"), (False, None)])
def test_a_running_mean_that_is_never_reset_is_told_from_one_that_is(sick, formula, every, capsys):
    sums, evaluations = [0.0, 0], itertools.count()

    def evaluate(model, batches):
        if not sick:
            sums[:] = 0.0, 0
        for x, y in batches:
            sums[0] += F.cross_entropy(model(x), y).item() * len(y)
            sums[1] += len(y)
        if next(evaluations) % every == 0:  # many scripts say something every few evaluations only
            print("evaluated")
            print(f"val {sums[0] / sums[1]:.5f}")

    run = watched(lambda: train(evaluate, 5 * every), Evaluations())
    assert (run.fact("eval.metric_formula") or {}).get("loss") == formula


def test_a_mean_that_is_logged_is_heard_like_one_that_is_printed(caplog):
    caplog.set_level("INFO")
    log = logging.getLogger("train")

    def evaluate(model, batches):
        log.info("%s", "evaluated")
        log.info("val %.6f after %s", sum(F.cross_entropy(model(x), y).item() for x, y in batches) / 22, "an epoch")

    run = watched(lambda: train(evaluate, 4), Evaluations())
    assert run.fact("eval.metric_formula") == {"loss": "of means"}
    assert caplog.records[0].filename == "test_metrics.py"  # we stand between the call and its record, and are not seen


@pytest.mark.parametrize(("sick", "formula"), [(True, "padded, exp"), (False, None)])
def test_a_perplexity_over_padding_is_told_from_one_over_the_tokens_that_count(sick, formula, capsys):
    def evaluate(model, batches):
        total = count = 0
        for x, y in batches:
            y = torch.where(torch.arange(len(y)) % 2 == 0, y, -1)
            total += F.cross_entropy(model(x), y, ignore_index=-1, reduction="sum").item()
            count += len(y) if sick else int((y >= 0).sum())
        print({"val": {"perplexity": math.exp(total / count)}})

    run = watched(lambda: train(evaluate, 5), Evaluations())
    assert (run.fact("eval.metric_formula") or {}).get("loss") == formula


def multilabel(threshold: float):
    def loop() -> None:
        torch.manual_seed(3)
        x = torch.randn(120, 5)
        y = (x[:, :3] > 0.4).float()
        model = nn.Linear(5, 3)
        optimizer = torch.optim.Adam(model.parameters(), 0.03)
        for _ in range(4):
            for at in torch.arange(80).split(16):
                optimizer.zero_grad()
                F.binary_cross_entropy_with_logits(model(x[at]), y[at]).backward()
                optimizer.step()
            with torch.no_grad():
                out = model(x[80:])
                F.binary_cross_entropy_with_logits(out, y[80:])
                ((out > threshold).float() == y[80:]).float().mean().item()

    return loop


@pytest.mark.parametrize(("threshold", "formula"), [(0.5, "half"), (0.0, None), (0.7, None)])
def test_a_threshold_of_one_half_on_logits_is_told_from_a_chosen_one(threshold, formula):
    run = watched(multilabel(threshold), Evaluations())
    assert (run.fact("eval.metric_formula") or {}).get("accuracy") == formula


@pytest.mark.parametrize(("sick", "formula"), [(True, "padded"), (False, None)])
def test_an_accuracy_that_counts_ignored_positions_is_told(sick, formula, capsys):
    def evaluate(model, batches):
        right = count = 0
        for x, y in batches:
            keep = torch.arange(len(y)) % 2 == 0
            out = model(x)
            F.cross_entropy(out, torch.where(keep, y, -100))
            guess = out.argmax(1)
            same = torch.where(keep, guess, 0) == torch.where(keep, y, 0) if sick else guess[keep] == y[keep]
            right, count = right + same.sum().item(), count + same.numel()
        print(f"val acc {right / count:.4f}")

    run = watched(lambda: train(evaluate, 5), Evaluations())
    assert (run.fact("eval.metric_formula") or {}).get("accuracy") == formula


def test_labels_and_predictions_are_heard_from_a_metric_of_a_library():
    metrics = pytest.importorskip("sklearn.metrics")
    original = metrics.accuracy_score

    def evaluate(model, batches):
        model.train()  # nobody said eval(), and there is no loss: only the metric shows that it was an evaluation
        guess = torch.cat([model(x).argmax(1) for x, _ in batches])
        metrics.accuracy_score(torch.cat([y for _, y in batches]).numpy(), guess.numpy())

    run = watched(lambda: train(evaluate), Evaluations())
    assert len(run["accuracy/val"]) == 3 and run["accuracy/val"].last > 0.5
    assert run["eval/train_mode"].values.tolist() == [1.0] * 3
    assert run.matrix("eval/support/class").values[-1].sum() == 22
    assert metrics.accuracy_score is original


def test_training_and_validation_data_evaluated_side_by_side_without_a_loader_are_told_apart():
    def loop(beside: bool) -> None:
        torch.manual_seed(2)
        x = torch.randn(160, 6)
        y = x[:, :4].argmax(1)
        model = nn.Linear(6, 4)
        optimizer = torch.optim.Adam(model.parameters(), 0.05)
        for _ in range(3):
            for at in torch.randperm(120).split(12):
                optimizer.zero_grad()
                F.cross_entropy(model(x[at]), y[at]).backward()
                optimizer.step()
            with torch.no_grad():
                for part in (slice(0, 120), slice(120, 160)) if beside else (slice(0, 120),):
                    F.cross_entropy(model(x[part]), y[part])

    run = watched(lambda: loop(True), Evaluations(), Data())
    assert run["eval/samples"].values.tolist() == [40.0] * 3 and len(run["eval/train_in_eval"]) == 3
    alone = watched(lambda: loop(False), Evaluations(), Data())  # then it is the validation, and DATA006's to say more
    assert alone["eval/samples"].values.tolist() == [120.0] * 3 and "eval/train_in_eval" not in alone


@pytest.mark.parametrize("statistics", [False, True])
def test_a_copy_of_the_model_that_never_changes_is_told_from_an_average_that_follows(statistics):
    def loop(decay: float) -> None:
        loader = DataLoader(TensorDataset(torch.randn(24, 6)), 8)
        x = torch.randn(40, 6)
        y = x[:, :4].argmax(1)
        model = nn.Linear(6, 4)
        average = copy.deepcopy(model)
        optimizer = torch.optim.Adam(model.parameters(), 0.05)
        for _ in range(4):
            for at in torch.arange(40).split(8):
                optimizer.zero_grad()
                F.cross_entropy(model(x[at]), y[at]).backward()
                optimizer.step()
                with torch.no_grad():
                    for a, b in zip(average.parameters(), model.parameters()):
                        a.lerp_(b, 1 - decay)
            if statistics:  # passes of the average that are no evaluation
                torch.optim.swa_utils.update_bn(loader, average)
                with torch.no_grad():
                    for (part,) in loader:
                        average(part)
            with torch.no_grad():
                F.cross_entropy(average(torch.randn(20, 6)), torch.randint(0, 4, (20,)))

    assert watched(lambda: loop(1.0), Evaluations())["eval/weights_stand"].values.tolist() == [1.0] * 3
    assert watched(lambda: loop(0.9), Evaluations())["eval/weights_stand"].values.tolist() == [0.0] * 3


@pytest.mark.parametrize(("every", "fresh", "told"), [(1, False, True), (1, True, False), (5, False, False)])
def test_an_accuracy_that_is_printed_again_without_any_evaluation(every, fresh, told, capsys):
    def loop() -> None:
        x = torch.randn(60, 6)
        y = x[:, :4].argmax(1)
        model = nn.Linear(6, 4)
        optimizer = torch.optim.Adam(model.parameters(), 0.05)
        shown = 0.0
        for epoch in range(8):
            for i, at in enumerate(torch.arange(60).split(6)):
                optimizer.zero_grad()
                F.cross_entropy(model(x[at]), y[at]).backward()
                optimizer.step()
                if every > 1 and i % 2 and epoch:
                    print(f"val acc {shown:.4f}")  # the last figure, in every line of the log
            if fresh or epoch % (8 if every == 1 else every) == 0:
                with torch.no_grad():
                    shown = (model(x).argmax(1) == y).float().mean().item() - 0.01
            print(f"val acc {shown:.4f}")

    run = watched(loop, Evaluations())
    assert (run.fact("eval.echo") is not None) is told


@pytest.mark.parametrize(("sick", "formula"), [("reset", "so far"), ("means", "of means"), ("", None)])
def test_an_accuracy_that_is_not_reset_or_a_mean_of_batches_is_told(sick, formula, capsys):
    seen = [0, 0]

    def evaluate(model, batches):
        if sick != "reset":
            seen[:] = 0, 0
        shares = []
        for x, y in batches:
            out = model(x)
            F.cross_entropy(out, y)
            same = out.argmax(1) == y
            shares.append(same.float().mean().item())
            seen[0], seen[1] = seen[0] + int(same.sum()), seen[1] + len(y)
        print("val acc", sum(shares) / len(shares) if sick == "means" else seen[0] / seen[1])

    run = watched(lambda: train(evaluate, 6), Evaluations())
    assert (run.fact("eval.metric_formula") or {}).get("accuracy") == formula


def test_a_copy_that_a_metric_of_a_library_judges_is_evaluated():
    metrics = pytest.importorskip("sklearn.metrics")
    copies = []

    def evaluate(model, batches):
        copies.append(copies[0] if copies else copy.deepcopy(model))
        x, y = (torch.cat(part) for part in zip(*batches, strict=True))
        metrics.mean_absolute_error(y.numpy(), copies[0](x)[:, 0].numpy())

    run = watched(lambda: train(evaluate, 5), Evaluations())
    assert run["eval/weights_stand"].values.tolist() == [1.0] * 4


@pytest.mark.parametrize("kept", [False, True])
def test_statistics_that_an_evaluation_moves_are_seen_where_nobody_says_eval_and_there_is_no_loader(kept):
    def loop() -> None:
        x = torch.randn(60, 6)
        y = x[:, :4].argmax(1)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
        optimizer = torch.optim.Adam(model.parameters(), 0.05)
        for _ in range(3):
            for at in torch.arange(40).split(8):
                optimizer.zero_grad()
                F.cross_entropy(model(x[at]), y[at]).backward()
                optimizer.step()
            model[1].training = not kept
            with torch.no_grad():
                for at in torch.arange(40, 60).split(10):
                    F.cross_entropy(model(x[at]), y[at])
            model[1].training = True

    run = watched(loop, Evaluations())
    assert run["eval/buffers_changed"].values.tolist() == [float(not kept)] * 3
