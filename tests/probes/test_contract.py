"""The loss call's contract: sick calls, their healed twins, and what only looks like them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from probes.watched import fit, watched
from traindx import regime
from traindx.probe import LossCall
from traindx.probes.read.common import graph, losses
from traindx.probes.read.loss.contract import Contract
from traindx.run import Run

X = torch.randn(160, 8, generator=torch.Generator().manual_seed(3))
Y = torch.randint(0, 5, (160,), generator=torch.Generator().manual_seed(4))


def mlp(out: int = 5, *tail: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, out), *tail)


def ce(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out, y)  # looked up when called: what was bound before watching began stays unseen


def nll(out: Tensor, y: Tensor) -> Tensor:
    return F.nll_loss(out, y)


def bce(out: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(out, y)


def contract(model: nn.Module, loss: Any, y: Tensor = Y, x: Tensor = X, **options: Any) -> Run:
    return watched(lambda: fit(model, loss, x, y, **options), Contract())


# -- what a healthy call says


def test_a_plain_cross_entropy_is_described():
    run = contract(mlp(), ce)
    assert run.fact("loss.kind") == "ce"
    assert run.fact("loss.classes") == 5
    assert run.fact("loss.reduction") == "mean"
    assert run.fact("loss.checked_batches") == 6
    assert not run.fact("loss.probabilities")
    assert not run.fact("loss.broadcast")
    assert run.fact("loss.target_range") == [0.0, 4.0]
    assert run.fact("loss.target_unique") == 5
    assert "model.head_activation" not in run.facts
    assert run.fact("loss.site").split("/")[-1].startswith("test_contract.py:")


def test_modules_and_functions_say_the_same():
    module = nn.CrossEntropyLoss(label_smoothing=0.1, reduction="sum", ignore_index=7, weight=torch.ones(5))
    run = contract(mlp(), module)
    assert run.fact("loss.smoothing") == pytest.approx(0.1)
    assert run.fact("loss.reduction") == "sum"
    assert run.fact("loss.ignore_index") == 7
    assert run.fact("loss.weighted") is True


def test_a_sum_that_is_divided_is_told_from_one_that_is_not():
    summed = nn.CrossEntropyLoss(reduction="sum")
    run = contract(mlp(), lambda out, y: summed(out, y) / len(y))
    assert run.fact("loss.divided") is True
    assert run["loss/token_mean"].values == pytest.approx(run["loss/train"].values, rel=1e-5)
    assert run.fact("loss.reduction") == "sum" and regime.averaged(run)
    assert contract(mlp(), summed).fact("loss.divided") is None


@pytest.mark.parametrize(
    ("loss", "y", "kind"),
    [
        (nn.MSELoss(), torch.randn(160, 1), "mse"),
        (nn.L1Loss(), torch.randn(160, 1), "l1"),
        (nn.SmoothL1Loss(), torch.randn(160, 1), "huber"),
        (nn.HuberLoss(), torch.randn(160, 1), "huber"),
        (nn.BCEWithLogitsLoss(), torch.rand(160, 1).round(), "bce_logits"),
        (nn.SoftMarginLoss(), torch.rand(160, 1).round() * 2 - 1, "margin"),
        (nn.KLDivLoss(reduction="batchmean"), torch.rand(160, 1), "kl"),
        (nn.PoissonNLLLoss(), torch.rand(160, 1), "unknown"),
    ],
)
def test_every_kind_of_loss_is_named(loss, y, kind):
    assert contract(mlp(1), loss, y).fact("loss.kind") == kind


def test_signals_equal_a_slow_twin():
    seen: list[tuple[Tensor, Tensor]] = []

    def loss(out: Tensor, y: Tensor) -> Tensor:
        seen.append((out.detach(), y))
        return F.cross_entropy(out, y)

    run = contract(mlp(), loss)
    for i, (out, y) in enumerate(seen):
        p = out.softmax(1)
        assert run["accuracy/train"].values[i] == pytest.approx(float((out.argmax(1) == y).float().mean()))
        assert run["confidence/train"].values[i] == pytest.approx(float(p.max(1).values.mean()), rel=1e-5)
        assert run["logz_mean"].values[i] == pytest.approx(float(out.logsumexp(1).mean()), rel=1e-5)
        assert run["logit_maxabs"].values[i] == pytest.approx(float(out.abs().max()), rel=1e-6)
        assert run["output_std"].values[i] == pytest.approx(float(out.std(0).mean()), rel=1e-5)
        each = F.cross_entropy(out, y, reduction="none")
        assert run["loss/sample_var"].values[i] == pytest.approx(float(each.var()), rel=1e-4)
        assert run["batch/labels/class"].values[i].tolist() == torch.bincount(y, minlength=5).tolist()
        top = torch.bincount(out.argmax(1)).max() / len(y)
        assert run["output_top_share"].values[i] == pytest.approx(float(top))


# -- probabilities


def test_softmax_before_cross_entropy_is_seen():
    run = contract(mlp(5, nn.Softmax(1)), ce)
    assert run.fact("loss.probabilities") is True
    assert run.fact("model.head_activation")["kind"] == "softmax"
    assert run.fact("model.head_activation")["dim"] == 1


def test_a_functional_softmax_is_seen_too():
    run = contract(mlp(), lambda out, y: F.cross_entropy(F.softmax(out, dim=-1), y))
    assert run.fact("loss.probabilities") is True
    assert run.fact("model.head_activation")["dim"] == 1


def test_softmax_over_the_batch_is_not_softmax_over_classes():
    run = contract(mlp(5, nn.Softmax(0)), ce)
    assert run.fact("loss.probabilities") is False
    assert run.fact("loss.column_probabilities") is True


def test_log_softmax_is_told_apart_from_softmax():
    run = contract(mlp(5, nn.LogSoftmax(1)), nll)
    assert run.fact("loss.kind") == "nll"
    assert run.fact("loss.log_probabilities") is True
    assert run.fact("loss.probabilities") is False


def test_probabilities_in_nll_are_seen():
    run = contract(mlp(5, nn.Softmax(1)), nll)
    assert run.fact("loss.probabilities") is True
    assert run.fact("loss.may_be_negative") is True


def test_two_batches_are_not_enough_to_speak_of_probabilities():
    run = contract(mlp(5, nn.Softmax(1)), ce, steps=2)
    assert "loss.probabilities" not in run.facts


def test_logits_that_begin_inside_the_unit_interval_are_cleared_later():
    model = mlp(1)
    with torch.no_grad():
        model[2].weight.mul_(1e-3)
        model[2].bias.fill_(0.5)
    y = torch.zeros(160, 1)
    early = contract(model, bce, y, steps=3, lr=1e-6)
    assert early.fact("loss.unit_interval") is True
    assert "model.head_activation" not in early.facts  # the graph knows better
    late = contract(model, bce, y, steps=20, lr=1.0)
    assert late.fact("loss.unit_interval") is False


def test_sigmoid_before_a_logits_loss_is_seen_from_the_graph():
    run = contract(mlp(1, nn.Sigmoid()), bce, torch.rand(160, 1).round())
    assert run.fact("loss.unit_interval") is True
    assert run.fact("model.head_activation")["kind"] == "sigmoid"


# -- shapes


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_broadcast_of_a_column_against_a_row_is_seen():
    run = contract(mlp(1), nn.MSELoss(), torch.randn(160))
    assert run.fact("loss.broadcast") is True
    assert (run.fact("loss.input_shape"), run.fact("loss.target_shape")) == ([16, 1], [16])


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_single_number_as_target_is_meant_so():
    run = contract(mlp(1), lambda out, y: F.mse_loss(out, torch.ones(1)), torch.randn(160))
    assert run.fact("loss.broadcast") is False


def test_broadcast_inside_a_hand_written_loss_is_seen():
    run = contract(mlp(1), lambda out, y: ((out - y) ** 2).mean(), torch.randn(160))
    assert run.fact("loss.kind") == "unknown"
    assert run.fact("loss.broadcast") is True


@pytest.mark.parametrize(
    "loss",
    [
        lambda out, y: ((out[:, 0] - y) ** 2).mean(),
        lambda out, y: (out.squeeze(1) - y).abs().mean(),
        lambda out, y: ((out.unsqueeze(1) - torch.randn(7, 1)) ** 2).sum(-1).mean(),  # distances to seven centres
    ],
)
def test_differences_that_grow_on_purpose_are_left_alone(loss):
    assert "loss.broadcast" not in contract(mlp(1), loss, torch.randn(160)).facts


class Sequences(nn.Module):
    """(N, 6) tokens to (N, 6, 4) logits, laid out for the loss by `last`."""

    def __init__(self, last: Any, classes: int = 4) -> None:
        super().__init__()
        self.embed, self.head, self.last = nn.Embedding(9, 8), nn.Linear(8, classes), last

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.head(self.embed(x)))


TOKENS = torch.randint(0, 9, (160, 6))
TAGS = torch.randint(0, 4, (160, 6))


def test_classes_viewed_into_place_instead_of_transposed_are_seen():
    run = contract(Sequences(lambda h: h.view(len(h), 4, 6)), ce, TAGS, TOKENS)
    assert run.fact("loss.wrong_class_axis") == {"shape": [16, 4, 6], "classes": 4}


def test_as_many_positions_as_classes_hide_a_wrong_axis_from_torch_but_not_from_us():
    tags = torch.randint(0, 6, (160, 6))
    run = contract(Sequences(lambda h: h, 6), ce, tags, TOKENS)
    assert run.fact("loss.wrong_class_axis")["classes"] == 6


@pytest.mark.parametrize("last", [lambda h: h.transpose(1, 2), lambda h: h.permute(0, 2, 1).contiguous()])
def test_transposed_classes_are_right(last):
    assert "loss.wrong_class_axis" not in contract(Sequences(last), ce, TAGS, TOKENS).facts


def test_one_layer_that_gives_all_positions_at_once_is_right():
    model = nn.Sequential(nn.Linear(8, 4 * 6), nn.Unflatten(1, (4, 6)))
    assert "loss.wrong_class_axis" not in contract(model, ce, TAGS).facts


# -- targets


def test_targets_beyond_the_head_are_counted():
    run = contract(mlp(1, nn.Tanh()), nn.MSELoss(), torch.linspace(-2, 2, 160)[torch.randperm(160)][:, None])
    assert run.fact("model.head_activation")["range"] == [-1.0, 1.0]
    assert run.fact("loss.unreachable_share") == pytest.approx(0.5, abs=0.15)


def test_a_scaled_head_reaches_further():
    run = contract(mlp(1, nn.Tanh()), lambda out, y: F.mse_loss(3 * out, y), torch.randn(160, 1))
    assert "loss.unreachable_share" not in run.facts


def test_a_relu_head_cannot_reach_negative_targets():
    run = contract(mlp(1, nn.ReLU()), nn.L1Loss(), torch.full((160, 1), -1.0))
    assert run.fact("loss.unreachable_share") == 1.0


def test_class_ids_in_a_regression_loss_are_seen():
    run = contract(mlp(1), nn.MSELoss(), Y.float()[:, None])
    assert run.fact("loss.target_integral") is True
    assert run.fact("loss.target_unique") == 5
    assert contract(mlp(1), nn.MSELoss(), torch.randn(160, 1)).fact("loss.target_integral") is False


def test_labels_of_minus_one_and_one_are_out_of_reach_for_a_binary_loss():
    run = contract(mlp(1), bce, torch.rand(160, 1).round() * 2 - 1)
    assert run.fact("loss.unreachable_share") > 0.2


def test_multi_hot_targets_of_a_cross_entropy_show_in_their_row_sums():
    run = contract(mlp(), ce, (torch.rand(160, 5) > 0.5).float())
    assert run.fact("loss.target_row_sum")[1] > 1
    assert run.fact("loss.target_one_hot") is False
    healthy = contract(mlp(), ce, F.one_hot(Y, 5).float())
    assert healthy.fact("loss.target_row_sum") == [1.0, 1.0]
    assert healthy.fact("loss.target_one_hot") is True


def test_a_batch_without_any_target_is_an_event():
    y = Y.clone()
    y[16:32] = -100
    run = contract(mlp(), ce, y)
    assert [e.step for e in run.events_of("empty_targets")] == [1]
    assert run["batch/valid_targets"].values.tolist() == [1, 0, 1, 1, 1, 1]


def test_a_label_outside_the_classes_is_named_before_the_crash():
    run = watched(lambda: fit(mlp(), ce, X, Y + 1), Contract(), raises=IndexError)
    [event] = run.events_of("label_out_of_range")
    assert (event.data["max"], event.data["classes"]) == (5, 5)


def test_rows_matched_to_columns_are_contrastive():
    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(x) @ self.b(x + 0.1).T

    run = contract(Pairs(), lambda out, y: F.cross_entropy(out, torch.arange(len(out))))
    assert run.fact("loss.kind") == "contrastive"
    assert contract(mlp(16), ce).fact("loss.kind") == "ce"


def test_a_loss_that_falls_below_zero_is_remembered():
    assert contract(mlp(1), lambda out, y: -out.mean()).fact("loss.may_be_negative") in (True, None)
    run = contract(mlp(1), lambda out, y: F.mse_loss(out, y) - 100, torch.randn(160, 1))
    assert run.fact("loss.may_be_negative") is True


def test_the_terms_of_a_sum_are_recorded_apart():
    def loss(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out, y) + 0.1 * F.mse_loss(out, torch.zeros_like(out))

    run = contract(mlp(), loss)
    assert len(run["loss/terms"].names) == 2
    assert run.fact("loss.kind") == "ce"


def test_evaluation_calls_do_not_touch_the_contract():
    def loop() -> None:
        model = mlp()
        fit(model, ce, X, Y, steps=3)
        with torch.no_grad():
            F.cross_entropy(torch.softmax(model(X), 1), Y)

    run = watched(loop, Contract())
    assert run.fact("loss.checked_batches") == 3
    assert run.fact("loss.probabilities") is False


# -- pure functions


def test_the_variance_of_sequences_is_that_of_their_means():
    rng = np.random.default_rng(0)
    between, within = 0.7, 1.5
    level = rng.normal(0, between, (400, 1))
    every = torch.tensor(level + rng.normal(0, within, (400, 64)))
    whole = losses.ratio_variance(every, torch.ones_like(every), 64)
    assert float(whole) == pytest.approx(between**2 + within**2 / 64, rel=0.2)
    thin = losses.ratio_variance(every[:, ::8], torch.ones(400, 8, dtype=torch.float64), 64)
    assert float(thin) == pytest.approx(float(whole), rel=0.25)


def test_a_flattened_language_model_call_is_put_back_into_sequences():
    call = LossCall(1, "cross_entropy", (torch.randn(40, 7), torch.randint(0, 7, (40,))), {}, None, "train", "", 1, True)
    said = losses.read(call)
    assert said is not None
    table = losses.rows(said, samples=8)
    assert table is not None
    assert (table.groups, table.each, table.length) == (8, 5, 5)


def test_large_vocabularies_are_thinned_evenly():
    call = LossCall(
        1, "cross_entropy", (torch.randn(512, 4096), torch.randint(0, 4096, (512,))), {}, None, "train", "", 1, True
    )
    said = losses.read(call)
    assert said is not None
    table = losses.rows(said, samples=4)
    assert table is not None
    assert table.groups == 4
    assert 32 <= len(table.targets) <= 64


@pytest.mark.parametrize(
    ("head", "kind", "reach"),
    [
        (torch.sigmoid, "sigmoid", [0.0, 1.0]),
        (lambda t: torch.relu(t).squeeze(-1), "relu", [0.0, None]),
        (F.relu6, "hardtanh", [0.0, 6.0]),
        (lambda t: t.clamp(min=0), "clamp", [0.0, None]),
        (F.softplus, "softplus", [0.0, None]),
    ],
)
def test_the_last_activation_is_read_off_the_graph(head, kind, reach):
    found = graph.head_activation(head(nn.Linear(3, 1)(torch.randn(4, 3))))
    assert found is not None
    assert (found["kind"], found["range"]) == (kind, reach)


@pytest.mark.parametrize(
    "value", [torch.empty(0, 3), torch.zeros(3, 3).to_sparse(), torch.zeros(2, 3, device="meta"), None, 3.0]
)
def test_what_cannot_be_read_is_passed_over(value):
    assert losses.read(LossCall(1, "mse_loss", (value, torch.zeros(2)), {}, None, "train", "", 1, True)) is None
