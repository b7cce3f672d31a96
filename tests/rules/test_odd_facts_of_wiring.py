"""Rules on wiring, numerics, activations, weights, ranks and special regimes survive facts and events of any shape."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from runs import learning
from traindx import signals
from traindx.finding import Status
from traindx.rule import Rule, catalogue
from traindx.run import Event, Matrix, Run, Series

MINE = [r for r in catalogue().values() if r.family in ("WIRE", "NUMR", "ACTV", "WGHT", "DIST", "SPEC")]
ODD: list[Any] = [
    None,
    True,
    -1,
    3,
    float("nan"),
    float("inf"),
    "",
    "text",
    [],
    [1, "a", None],
    [[1, 2], ["b"]],
    {},
    {"n": "x"},
]
KEYS = ("kind", "module", "range", "op", "phase", "blame", "ratio", "missing", "unexpected", "class", "count", "shape", "none")
NESTED: list[Any] = [dict.fromkeys(KEYS, v) for v in (None, 1, "x", [0, 1], {"a": 1})]
# what `regime` reads is tested there; these mute or are documented as numbers
NOT_OURS = ("watched", "blind", "loss.classes", "loss.smoothing", "data.steps_per_epoch", "log_interval", "data.class_counts")
SHARED = ("model.param_shapes", "model.outline", "origin", "world_size")  # read by what the rules share


def everything(n: int = 120) -> dict[str, Series | Matrix]:
    rng = np.random.default_rng(1)
    steps = np.arange(n) * 10
    out: dict[str, Series | Matrix] = {}
    for name, spec in signals.SIGNALS.items():
        if name.endswith("/*"):
            continue
        values = np.abs(rng.normal(size=(n, 3)))
        out[name] = Series(steps, values[:, 0]) if spec.per == "step" else Matrix(steps, ("a", "b.c", "0"), values)
    return out | {"loss/train": Series(steps, learning(n))}


SIGNALS = everything()


@pytest.mark.parametrize("rule", MINE, ids=[r.code for r in MINE])
def test_facts_of_any_shape(rule: Rule) -> None:
    source = inspect.getsource(inspect.getmodule(rule.look))  # type: ignore[arg-type]
    for key in (k for k in (*signals.FACTS, *SHARED) if k not in NOT_OURS and (k in SHARED or f'"{k}"' in source)):
        for value in (*ODD, *NESTED):
            outcome = rule.outcome(Run(SIGNALS, {key: value}))
            assert outcome.status is not Status.BROKEN, f"{key}={value!r}: {outcome.reason}"


@pytest.mark.parametrize("rule", MINE, ids=[r.code for r in MINE])
@pytest.mark.parametrize(
    "data", [{}, {"count": "many", "names": 3, "what": "loss", "rank": "x", "k": None}, {"what": None, "names": None}]
)
def test_events_of_any_shape(rule: Rule, data: dict[str, Any]) -> None:
    events = tuple(Event(50, kind, data) for kind in signals.EVENTS)
    outcome = rule.outcome(Run(SIGNALS, {}, events))
    assert outcome.status is not Status.BROKEN, outcome.reason
