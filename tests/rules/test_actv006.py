"""ACTV006: attention looks at one place and its logits run away."""

from __future__ import annotations

import numpy as np

from runs import a_run, steady
from traindx.finding import Severity, Status
from traindx.rules.actv006_attention_collapse import attention_collapse as rule
from traindx.run import Run


def head(entropy: np.ndarray, logit: np.ndarray) -> Run:
    return a_run({"attn_entropy/module": {"attn": entropy}, "attn_logit_max/module": {"attn": logit}})


def test_names_the_layer() -> None:
    [found] = rule.findings(head(np.geomspace(0.4, 0.01, 20), np.geomspace(10, 5000, 20)))
    assert found.where == ("attn",) and found.severity is Severity.WARNING and "5000" in found.message


def test_sharp_heads_with_modest_logits_are_skill() -> None:
    assert rule.outcome(head(steady(20, 0.03), steady(20, 40.0))).status is Status.CLEAR


def test_large_logits_with_open_heads_are_not_collapse() -> None:
    assert not list(rule.findings(head(steady(20, 0.3), np.geomspace(10, 5000, 20))))


def test_logits_must_still_rise() -> None:
    assert not list(rule.findings(head(steady(20, 0.02), steady(20, 300.0))))


def test_the_limits() -> None:
    run = head(np.full(20, 0.08), np.linspace(20, 90, 20))
    assert not list(rule.findings(run))
    assert list(rule.findings(run, entropy=0.1, logit=50.0))
