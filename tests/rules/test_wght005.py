"""WGHT005: a first scale nobody can train with."""

from __future__ import annotations

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.wght005_init_scale import init_scale as rule
from traindx.run import Run

LAYERS = ["l0", "l1", "l2", "l3", "head"]
OUTLINE = [{"name": n, "class": "Linear", "params": 9, "order": i} for i, n in enumerate(LAYERS)]
SHAPES = {f"{n}.weight": [32, 32] for n in LAYERS}


def net(gain: float, step: float = 1.0, first_loss: float = 2.4, **facts: object) -> Run:
    table = {
        "model.init_gain": {f"{n}.weight": gain for n in LAYERS},
        "model.outline": OUTLINE,
        "model.param_shapes": SHAPES,
        "loss.kind": "ce",
        "loss.classes": 10,
        "finetune": False,
        **facts,
    }
    return a_run({"act_rms/module": {n: [step**i] for i, n in enumerate(LAYERS)}, "loss/train": [first_loss]}, facts=table)


def test_large_weights_with_a_large_first_loss() -> None:
    [found] = rule.findings(net(11.0, 8.0, first_loss=735.0))
    assert found.variant == "large" and found.severity is Severity.WARNING
    assert set(found.where) == {f"l{i}.weight" for i in range(4)}


def test_small_weights_with_a_signal_that_dies() -> None:
    [found] = rule.findings(net(0.05, 0.05))
    assert found.variant == "small"


def test_norm_layers_bring_a_signal_back_that_fades() -> None:
    norms = [{"name": f"n{i}", "class": "LlamaRMSNorm", "params": 32, "order": i + 0.5} for i in range(2)]
    assert rule.outcome(net(0.05, 0.05, **{"model.outline": [*OUTLINE, *norms]})).status is Status.CLEAR


def test_without_a_consequence_the_scale_does_not_matter() -> None:
    assert rule.outcome(net(11.0)).status is Status.CLEAR
    assert rule.outcome(net(0.1)).status is Status.CLEAR


def test_the_default_of_torch_and_he_are_fine() -> None:
    assert not list(rule.findings(net(0.577, 0.4)))
    assert not list(rule.findings(net(1.41, 1.0)))


def test_the_limit() -> None:
    assert list(rule.findings(net(4.0, 3.0, first_loss=8.0), factor=2.0))
    assert not list(rule.findings(net(4.0, 3.0, first_loss=8.0)))


def test_pretrained_weights_are_not_judged() -> None:
    run = net(11.0, 8.0, finetune=True).with_(a_run({"loss/train": steady(5)}).signals)
    assert rule.outcome(run).status is Status.MUTED


def test_tanh_layers_at_their_limits_are_a_consequence() -> None:
    run = net(6.0, 1.0).with_(
        a_run({"act_rms/module": {"l0": [4.0], "t0": [0.93]}}).signals, {"model.activations": {"t0": "tanh"}}
    )
    [found] = rule.findings(run)
    assert found.variant == "large" and "t0" in found.message


def test_a_shallow_net_whose_signal_never_came_up() -> None:
    def shallow(late: float) -> Run:
        rows = {"l0": [0.01, late], "l1": [1e-4, late], "head": [1e-6, 1.0]}
        facts = {
            "model.init_gain": {f"{n}.weight": 0.01 for n in rows},
            "model.outline": [{"name": n, "class": "Linear", "params": 9, "order": i} for i, n in enumerate(rows)],
            "model.param_shapes": {f"{n}.weight": [32, 32] for n in rows},
            "data.input_stats": {"std": 1.0},
            "finetune": False,
        }
        return a_run({"act_rms/module": rows}, facts=facts)

    assert [f.variant for f in rule.findings(shallow(0.002))] == ["small"]
    assert rule.outcome(shallow(0.7)).status is Status.CLEAR


def test_a_first_squared_error_far_above_that_of_the_mean_is_a_consequence() -> None:
    def run(first: float) -> Run:
        told = net(11.0, first_loss=first, **{"loss.kind": "mse", "loss.reduction": "mean"})
        return told.with_(a_run({"batch/label_std": steady(20, 1.0), "batch/label_mean": steady(20, 0.0)}).signals)

    [found] = rule.findings(run(1e5))
    assert found.variant == "large" and "answering the mean" in found.message
    assert rule.outcome(run(3.0)).status is Status.CLEAR
