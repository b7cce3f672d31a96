"""Evaluation, checkpoints or logging eat the time."""

from traindx.cause import Cause

evaluation_overhead = Cause(
    name="evaluation-overhead",
    title="evaluation, checkpoints or logging eat the time",
    likely={
        "PERF008": 0.95,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Evaluate less often or on a fixed part, save only the last and the best, log every 50 steps.",
    witness=("PERF008",),
)
