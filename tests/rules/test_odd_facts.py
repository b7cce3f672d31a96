"""Rules on data, evaluation, speed, reproducibility and fine-tuning survive facts of any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from runs import learning
from traindx import signals
from traindx.finding import Status
from traindx.rule import Rule, catalogue
from traindx.run import Event, Matrix, Run, Series

MINE = [r for r in catalogue().values() if r.family in ("DATA", "EVAL", "PERF", "REPR", "TUNE")]
ODD: list[Any] = [
    None,
    True,
    -1,
    3,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "text",
    [],
    [1, "a", None],
    [[1, 2], [3]],
    {},
    {"n": "x"},
    {"a": {}},
]
# regimes that mute, and numbers that `regime` reads (its own tests are their place)
NOT_OURS = (
    "rl",
    "adversarial",
    "curriculum",
    "blind",
    "watched",
    "data.steps_per_epoch",
    "log_interval",
    "loss.classes",
    "loss.smoothing",
)
DETAILED = (
    "mean",
    "std",
    "min",
    "max",
    "n",
    "score",
    "null_mean",
    "null_sd",
    "z",
    "offset",
    "offset_z",
    "repeats",
    "checked",
    "augmented",
    "raw",
    "share",
    "val",
    "train",
    "batches",
    "length",
    "sampler",
    "busy",
    "median_kernel_us",
    "ops_per_step",
    "copy_share",
    "h2d_share",
    "eval",
    "checkpoint",
    "logging",
    "traindx",
    "data",
    "steps",
    "equal",
    "step",
    "op",
    "field",
    "sigma",
    "windows",
    "missing",
    "unexpected",
    "unloaded_share",
    "vocab",
    "max_id",
    "unk_share",
    "double_bos",
    "loss",
)


def _signals() -> dict[str, Series | Matrix]:
    steps, values = np.arange(400), learning(400)
    return {
        name.replace("/*", "/accuracy"): Series(steps, values)
        if spec.per == "step"
        else Matrix(steps, ("0", "1"), np.column_stack([values, values]))
        for name, spec in signals.SIGNALS.items()
    }


TABLE = _signals()


def _everything(odd: Any) -> Run:
    facts = {key: odd for key in signals.FACTS if key not in NOT_OURS}
    events = [
        Event(5, kind, odd if isinstance(odd, dict) else {"count": odd, "missing": odd, "keys": odd}) for kind in signals.EVENTS
    ]
    return Run(TABLE, facts, tuple(events))


@pytest.mark.parametrize("rule", MINE, ids=[r.code for r in MINE])
def test_never_breaks_on_odd_facts(rule: Rule) -> None:
    nested = [dict.fromkeys(DETAILED, odd) for odd in ODD]
    for odd in [*ODD, *nested, *[[n] for n in nested]]:
        outcome = rule.outcome(_everything(odd))
        assert outcome.status is not Status.BROKEN, f"{odd!r}: {outcome.reason}"
