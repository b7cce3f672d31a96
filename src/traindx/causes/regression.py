"""A change made the run worse than its reference."""

from traindx.cause import Cause

regression = Cause(
    name="regression",
    title="a change made this run worse than its reference",
    likely={
        "REPR004": 0.95,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Run three seeds of both before concluding; `traindx bisect` finds the change.",
    refutes=("REPR001",),
    witness=("REPR004",),
)
