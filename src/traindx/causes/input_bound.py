"""Training waits for data."""

from traindx.cause import Cause

input_bound = Cause(
    name="input-bound",
    title="training waits for data",
    likely={
        "PERF001": 0.95,
        "PERF005": 0.02,
    },
    prior=1.2,
    verdict="fix-and-resume",
    cure=(
        "Raise `num_workers`[[ (now {workers})]] until the wait is below 5 % of a step, decode each sample once, and "
        "set `persistent_workers=True`."
    ),
    witness=("PERF001",),
    settle="cached-batch",
    cost_steps=40,
    not_yet=("Fix wrong results first: do not tune the speed of a broken run.",),
)
