"""A compiled model is compiled again for every shape."""

from traindx.cause import Cause

recompilation = Cause(
    name="recompilation",
    title="the model is recompiled again and again",
    likely={
        "PERF006": 0.95,
        "PERF007": 0.1,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Pad or bucket inputs to a few shapes, or compile with `dynamic=True`.",
    witness=("PERF006",),
)
