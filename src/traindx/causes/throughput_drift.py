"""Something in the loop grows and slows every step."""

from traindx.cause import Cause

throughput_drift = Cause(
    name="throughput-drift",
    title="something in the loop grows and slows it down",
    likely={
        "PERF007": 0.95,
        "PERF002": 0.2,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure=(
        "Compare a profile of early and late steps. Look for growing lists, hooks registered again, and torch.cat "
        "onto a history."
    ),
    refutes=("PERF002:graph",),
    witness=("PERF007",),
)
