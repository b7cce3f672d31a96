"""SPEC003: a latent code that carries nothing."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.spec003_vae_posterior_collapse import vae_posterior_collapse as rule


def test_nothing_left_is_a_warning() -> None:
    [found] = rule.findings(a_run(vae__kl_active=np.r_[np.full(100, 0.8), np.zeros(300)]))
    assert found.severity is Severity.WARNING and found.variant == ""


def test_a_generous_code_uses_few_dimensions() -> None:
    [found] = rule.findings(a_run(vae__kl_active=steady(400, 0.12)))
    assert found.severity is Severity.INFO


def test_a_used_code_is_clear_and_the_limit_decides() -> None:
    assert rule.outcome(a_run(vae__kl_active=steady(400, 0.5))).status is Status.CLEAR
    assert list(rule.findings(a_run(vae__kl_active=steady(400, 0.5)), few=0.7))


def test_what_annealing_does_early_does_not_count() -> None:
    assert not list(rule.findings(a_run(vae__kl_active=np.r_[np.zeros(100), steady(300, 0.6)])))


def logged(kl: np.ndarray, other: str = "recon"):
    return a_run({"loss/terms": {other: 94 + steady(60, 1.0), "kl": kl}, "loss/train": steady(60, 95.0)})


def test_the_kl_term_of_a_log_tells_it_too() -> None:
    epochs = np.arange(60)
    gone = 0.002 + 9 * np.exp(-epochs / 1.5)
    [found] = rule.findings(logged(gone))
    assert (found.variant, found.severity) == ("term", Severity.WARNING) and "9" in found.message
    assert found.steps is not None and found.steps[0] < 20, "since it happened, not since we are sure"
    for kl in (3.2 + 25 * np.exp(-epochs / 10), 3.2 * (1 - np.exp(-epochs / 5)), 1e-3 * gone + 5e-3, np.zeros(60)):
        assert rule.outcome(logged(kl)).status is Status.CLEAR, "annealed, growing, weighted low, never there"


def test_a_kl_term_without_reconstruction_is_another_thing() -> None:
    assert rule.outcome(logged(2 * np.exp(-np.arange(60) / 3.0), "ce")).status is Status.BLIND
