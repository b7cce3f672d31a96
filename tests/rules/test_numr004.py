"""NUMR004: half precision near its limit."""

from __future__ import annotations

import numpy as np
import pytest

from runs import a_run
from traindx.finding import Confidence, Severity, Status
from traindx.rules.numr004_fp16_overflow import fp16_overflow as rule
from traindx.run import Run


def limits(*values: float, autocast: object = "torch.float16") -> Run:
    return a_run({"act_limit/module": {"attn": list(values), "mlp": [0.01] * len(values)}}, facts={"amp.autocast": autocast})


def test_names_the_module_and_how_near_it_is() -> None:
    [found] = rule.findings(limits(0.2, 0.3, 0.4, 0.5))
    assert found.where == ("attn",) and "50%" in found.message and found.severity is Severity.WARNING


def test_two_looks_are_not_enough() -> None:
    assert rule.outcome(limits(0.1, 0.1, 0.1, 0.3, 0.4)).status is Status.CLEAR


def test_the_limit() -> None:
    assert not list(rule.findings(limits(0.1, 0.1, 0.1)))
    assert list(rule.findings(limits(0.1, 0.1, 0.1), share=0.05))


@pytest.mark.parametrize("autocast", ["bfloat16", None])
def test_other_types_have_room(autocast: object) -> None:
    assert not list(rule.findings(limits(0.9, 0.9, 0.9, autocast=autocast)))


def test_infinite_mask_values_are_not_counted() -> None:
    assert not list(rule.findings(limits(np.inf, np.inf, np.inf)))


def test_a_replay_that_is_finite_in_float32_is_a_fact() -> None:
    origin = {"op": "matmul", "phase": "forward", "blame": "precision", "module": "attn", "file": "m.py", "line": 3}
    [found] = rule.findings(a_run(loss__train=[1.0], facts={"origin": origin}))
    assert found.confidence is Confidence.EXACT and found.severity is Severity.CRITICAL and found.where == ("m.py:3", "attn")


def test_the_step_at_which_it_broke_is_told() -> None:
    origin = {"op": "matmul", "phase": "forward", "blame": "precision", "module": "attn", "file": "m.py", "line": 3}
    losses = [1.0] * 279 + [float("nan")] * 121
    [found] = rule.findings(a_run(loss__train=losses, facts={"origin": origin}))
    assert found.steps == (279, 279) and "step 279" in found.message
