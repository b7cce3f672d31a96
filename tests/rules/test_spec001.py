"""SPEC001: the discriminator wins."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Confidence, Severity, Status
from traindx.rules.spec001_gan_discriminator_wins import gan_discriminator_wins as rule

WON = np.r_[np.linspace(0.6, 0.99, 200), np.full(800, 0.995)]


def test_a_perfect_discriminator_and_a_generator_without_gradient() -> None:
    [found] = rule.findings(a_run(gan__d_accuracy=WON, gan__g_grad_norm=np.geomspace(1, 1e-3, 1000)))
    assert found.severity is Severity.WARNING and found.steps == (499, 999)


def test_a_strong_discriminator_whose_gradients_still_teach_is_fine() -> None:
    assert rule.outcome(a_run(gan__d_accuracy=WON, gan__g_grad_norm=steady(1000))).status is Status.CLEAR


def test_without_the_generators_norm_it_is_a_hint() -> None:
    [found] = rule.findings(a_run(gan__d_accuracy=WON))
    assert found.confidence is Confidence.SUGGESTIVE


def test_probabilities_serve_too_but_a_critic_is_not_judged() -> None:
    norm = np.geomspace(1, 1e-3, 1000)
    assert list(rule.findings(a_run(gan__d_real=WON, gan__d_fake=1 - WON, gan__g_grad_norm=norm)))
    assert not list(rule.findings(a_run(gan__d_real=WON * 50, gan__d_fake=-WON * 50, gan__g_grad_norm=norm)))


def test_a_short_stretch_says_nothing_and_the_limit_decides() -> None:
    run = a_run(gan__d_accuracy=np.full(300, 0.999), gan__g_grad_norm=np.geomspace(1, 1e-3, 300))
    assert not list(rule.findings(run))
    assert list(rule.findings(run, steps=200))


def test_an_even_game_is_clear() -> None:
    assert rule.outcome(a_run(gan__d_accuracy=steady(1000, 0.7))).status is Status.CLEAR


def test_few_looks_far_apart_are_enough() -> None:
    at = np.array([40, 80, 160, 320, 640, 1280, 2560])
    fading = {"gan/d_accuracy": [1.0] * 7, "gan/g_grad_norm": [1e-3, 4e-4, 2e-4, 5e-5, 1e-6, 5e-7, 1e-7]}
    assert [f.variant for f in rule.findings(a_run(fading, steps=at))] == [""]
    fading["gan/g_grad_norm"] = [1e-3, 2e-3, 1e-3, 5e-4, 1e-3, 8e-4, 1e-3]
    assert not list(rule.findings(a_run(fading, steps=at)))


def test_in_a_log_the_losses_of_both_players_tell_it() -> None:
    at = np.arange(2000)
    d, g = 0.69 * np.exp(-at / 80) + 1e-4, 0.7 + 9 * (1 - np.exp(-at / 150))
    [found] = rule.findings(a_run(gan__d_loss=d, gan__g_loss=g))
    assert found.severity is Severity.WARNING and "discriminator's loss fell" in found.message
    for usual in ({"gan__d_loss": d + 0.3, "gan__g_loss": 0.7 + g / 3}, {"gan__d_loss": d, "gan__g_loss": 0.7 + g / 9}):
        assert rule.outcome(a_run(**usual)).status is Status.CLEAR
    assert not list(rule.findings(a_run(gan__d_loss=d - 1, gan__g_loss=g)))  # a critic's
