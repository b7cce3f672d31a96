"""Evaluation, checkpoints or logging eat the time."""

from traindx.cause import Cause

evaluation_overhead = Cause(
    name="evaluation-overhead",
    title="evaluation, checkpoints or logging take much of the time",
    likely={
        "PERF008": 0.95,
        "PERF008:eval": 0.3,
        "PERF008:checkpoint": 0.2,
        "PERF008:logging": 0.05,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Evaluate less often or on a fixed part, save only the last and the best checkpoint, and log every 50 steps.",
    witness=("PERF008:eval", "PERF008:checkpoint", "PERF008:logging"),  # not our own cost, which is a remark to us
)
