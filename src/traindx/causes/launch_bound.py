"""Tiny operations starve the device."""

from traindx.cause import Cause

launch_bound = Cause(
    name="launch-bound",
    title="many tiny operations keep the device waiting",
    likely={
        "PERF005": 0.95,
        "PERF004": 0.2,
        "PERF010": 0.2,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Use a larger batch, `torch.compile`, a fused optimizer or bfloat16.",
    refutes=("PERF001",),
    witness=("PERF005",),
)
