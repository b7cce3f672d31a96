"""GRAD006: one term owns the gradient."""

from __future__ import annotations

import numpy as np

import zoo
from runs import a_run, noise
from traindx.finding import Confidence, Status
from traindx.rules.grad006_loss_term_imbalance import loss_term_imbalance


def the(run, **limits):
    return list(loss_term_imbalance.findings(run, **limits))


def two(weak: np.ndarray, gradients: tuple[float, float] | None = None, n: int = 300):
    signals = {"loss/terms": {"main": 100 * zoo.falling(n) + noise(n, 0.5), "aux": weak}}
    if gradients:
        signals["grad_terms/term"] = {"main": np.full(n, gradients[0]), "aux": np.full(n, gradients[1])}
    return a_run(signals)


def stuck(n: int = 300) -> np.ndarray:
    return 0.7 + noise(n, 0.02, 5)


def test_measured_gradients_make_it_certain() -> None:
    [found] = the(two(stuck(), (1.0, 0.01)))
    assert found.where == ("aux",) and found.facts["owner"] == "main" and found.confidence is Confidence.STRONG


def test_values_alone_are_a_hint() -> None:
    [found] = the(two(stuck()))
    assert (found.variant, found.confidence) == ("value", Confidence.SUGGESTIVE)


def test_euros_beside_nats_need_no_measurement() -> None:
    n = 300
    terms = {"segment": 1.1 - 0.2 * np.arange(n) / n + noise(n, 0.02), "spend": 1e6 * zoo.falling(n)}
    run = a_run({"loss/terms": terms, "loss/train": terms["segment"] + terms["spend"]})
    [found] = the(run)
    assert (found.variant, found.where, found.confidence) == ("scale", ("segment",), Confidence.STRONG)
    weighted = a_run({"loss/terms": terms, "loss/train": terms["segment"] + 1e-6 * terms["spend"]})
    assert not [f for f in the(weighted) if f.variant == "scale"]


def test_a_term_that_falls_too_is_fine() -> None:
    assert the(two(zoo.falling(300, 0.7, 0.1) + noise(300, 0.01), (1.0, 0.01))) == []


def test_balanced_gradients_are_fine() -> None:
    assert the(two(stuck(), (1.0, 0.5))) == []


def test_one_term_is_no_imbalance() -> None:
    assert the(a_run({"loss/terms": {"main": zoo.falling(300)}})) == []


def test_too_few_steps_are_unsure() -> None:
    assert loss_term_imbalance.outcome(two(stuck(30), n=30)).status is Status.UNSURE


def test_its_limit_is_the_share() -> None:
    assert the(two(stuck(), (1.0, 0.01)), share=0.999) == []
