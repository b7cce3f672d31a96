"""GRAD001: gradients that vanish along the depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import zoo
from runs import a_run, noise, steady
from traindx.finding import Severity, Status
from traindx.rules.grad001_vanishing_gradients import vanishing_gradients

LAYERS = [f"block{i}.weight" for i in range(8)]


def the(run, **limits):
    return list(vanishing_gradients.findings(run, **limits))


def deep(shrink: float, moves: float, optimizer: str = "SGD", loss: np.ndarray | None = None, **more):
    n = 100
    sizes = np.geomspace(shrink, 1.0, 8)
    grads = {k: s * np.exp(noise(n, 0.2, i)) for i, (k, s) in enumerate(zip(LAYERS, sizes))}
    ratios = {k: np.full(n, moves if i < 2 else 1e-3) for i, k in enumerate(LAYERS)}
    facts = {"optimizer.name": optimizer, "model.param_shapes": {k: [32, 32] for k in LAYERS}, **more}
    loss = zoo.falling(n) if loss is None else loss
    return a_run({"grad_norm/param": grads, "update_ratio/param": ratios, "loss/train": loss}, facts=facts)


def test_sgd_with_still_early_layers_is_found_and_names_them() -> None:
    [found] = the(deep(1e-6, 1e-9))
    assert found.where == ("block0.weight", "block1.weight") and found.severity is Severity.WARNING
    assert found.facts["ratio"] < 1e-3


def test_a_healthy_depth_is_clear() -> None:
    assert the(deep(0.1, 1e-3)) == []


def test_adam_hides_it_unless_nothing_is_learned() -> None:
    [harmless] = the(deep(1e-6, 8e-3, "Adam"))
    assert (harmless.variant, harmless.severity) == ("harmless", Severity.INFO)
    [hidden] = the(deep(1e-6, 8e-3, "Adam", loss=2.3 + noise(100, 0.02), **zoo.CE10))
    assert (hidden.variant, hidden.severity) == ("hidden", Severity.WARNING)


def test_two_players_are_not_the_first_and_last_layers_of_one_network() -> None:
    flat = 2.3 + noise(100, 0.02)
    assert the(deep(1e-6, 8e-3, "Adam", loss=flat, adversarial=True)) == []  # eight networks of a layer each
    one = [f"critic.{k}" for k in LAYERS]
    run = deep(1e-6, 8e-3, "Adam", loss=flat, adversarial=True)
    grads = run.matrix("grad_norm/param")
    shapes = {"model.param_shapes": {k: [32, 32] for k in one}}
    within = run.with_({"grad_norm/param": replace(grads, names=tuple(one))}, facts=shapes)
    assert [(f.variant, f.severity) for f in the(within)] == [("harmless", Severity.INFO)]  # whose loss tells no progress


def test_adam_with_moments_below_epsilon_is_found() -> None:
    run = deep(1e-6, 8e-3, "Adam")
    damped = a_run({"adam_small_v/param": {k: np.full(100, 0.9 if i < 2 else 0.0) for i, k in enumerate(LAYERS)}})
    assert [f.severity for f in the(run.with_(damped.signals))] == [Severity.WARNING]


def test_a_step_size_too_small_for_every_layer_is_another_story() -> None:
    run = deep(1e-6, 1e-9, "AdamW", loss=0.693 + noise(100, 0.002))
    crawling = a_run({"update_ratio/param": {k: np.full(100, 2e-7) for k in LAYERS}})
    assert [f.severity for f in the(run.with_(crawling.signals))] == [Severity.INFO]


def test_frozen_stems_embeddings_and_biases_do_not_count() -> None:
    frozen = deep(1e-6, 1e-9, **{"model.frozen": LAYERS[:4]})
    assert the(frozen) == [] or the(frozen)[0].facts["ratio"] > 1e-4
    assert the(deep(1e-6, 1e-9, **{"model.embeddings": LAYERS[:2], "model.frozen": LAYERS[2:6]})) == []


def test_exact_zeros_are_another_rule() -> None:
    run = deep(0.5, 1e-3)
    table = run["grad_norm/param"]
    values = table.values.copy()
    values[:, 0] = 0.0
    assert the(run.with_({"grad_norm/param": type(table)(table.steps, table.names, values)})) == []


def test_too_few_steps_are_unsure() -> None:
    assert vanishing_gradients.outcome(deep(1e-6, 1e-9).between(hi=30)).status is Status.UNSURE


@pytest.mark.parametrize("ratio", [1e-8, 1e-3])
def test_its_limit_is_the_ratio(ratio: float) -> None:
    assert bool(the(deep(1e-5, 1e-9), ratio=ratio)) is (ratio == 1e-3)


def recurrent(keep: float, kind: str = "LSTM", loss: float = 2.08, z: float | None = None, moves: float = 5e-3):
    facts = {"loss.kind": "ce", "loss.classes": 8, "model.recall": {"rnn": {"kind": kind, "length": 30, "keep": keep}}}
    if z is not None:
        facts["data.label_probe"] = {"score": 0.2 + 0.01 * z, "null_mean": 0.2, "null_sd": 0.01, "n": 1000}
    signals = {"grad_norm/param": {"rnn.weight_hh_l0": steady(400), "out.weight": steady(400)}}
    signals |= {"loss/train": loss + noise(400, 0.01), "update_ratio": steady(400, moves)}
    return a_run(signals, facts=facts)


def test_a_recurrent_layer_that_forgets_while_nothing_is_learned() -> None:
    [found] = the(recurrent(0.02))
    assert (found.variant, found.severity, found.where) == ("time", Severity.WARNING, ("rnn",))
    assert the(recurrent(0.55, z=30))[0].severity is Severity.WARNING
    assert the(recurrent(0.55))[0].severity is Severity.INFO, "gates as torch starts them, and nothing known of the labels"
    for quiet in (recurrent(0.02, z=0), recurrent(0.02, loss=0.3), recurrent(0.9), recurrent(0.02, moves=1e-7)):
        assert not the(quiet)


def test_it_says_whether_the_network_was_born_that_way() -> None:
    [born] = the(deep(1e-6, 1e-9, "SGD"))
    assert born.variant == "start" and "from the first step on" in born.message
