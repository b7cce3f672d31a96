"""Loss curves from numbers alone: twenty of each shape, with noise, length and scale varied, judged by `diagnose`."""

from __future__ import annotations

import pytest

import traindx
from lessons.curves import SHAPES, Draw

# shape → the codes of which one must be found, and the verdicts that are right
RIGHT: dict[str, tuple[set[str], set[str]]] = {
    "exploding": ({"LOSS001"}, {"fix-and-resume", "restart"}),
    "stuck": ({"LOSS002", "LOSS013"}, {"restart"}),
    "overfit": ({"LOSS008"}, {"stop-keep-best"}),
    "overconfident": ({"LOSS008", "EVAL005"}, {"stop-keep-best"}),
    "oscillating": ({"LOSS005"}, {"cannot-tell", "fix-and-resume"}),
    "underfit": ({"LOSS009"}, {"cannot-tell", "restart"}),
    "crawling": ({"LOSS004", "LOSS013", "LOSS009"}, {"restart", "cannot-tell"}),
    "loss falls, accuracy stands": ({"EVAL010"}, {"cannot-tell"}),
    "accuracy rises, loss stands": ({"EVAL010"}, {"healthy", "wait"}),
    "spikes": ({"LOSS006", "LOSS007"}, {"healthy", "wait", "fix-and-resume"}),
}
COUNT = 20


@pytest.mark.parametrize("shape", RIGHT)
def test_a_shape_is_recognised_from_numbers_alone(shape: str) -> None:
    codes, verdicts = RIGHT[shape]
    for seed in range(COUNT):
        found = traindx.diagnose(SHAPES[shape](Draw(seed)))
        assert {f.code for f in found.findings} & codes and found.verdict in verdicts, (shape, seed, found.verdict)


def test_healthy_curves_are_quiet() -> None:
    for seed in range(COUNT):
        found = traindx.diagnose(SHAPES["healthy"](Draw(seed)))
        alarms = [f.code for f in found.findings if f.severity.value != "info"]
        assert found.verdict in ("healthy", "wait") and not alarms, (seed, found.verdict, alarms)
