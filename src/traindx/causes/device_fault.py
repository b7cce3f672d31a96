"""A device computes wrongly."""

from traindx.cause import Cause

device_fault = Cause(
    name="device-fault",
    title="one device computes wrongly",
    likely={
        "DIST007": 0.97,
        "NUMR001": 0.2,
    },
    prior=0.1,
    verdict="fix-and-resume",
    cure="Repeat the step on another device; drain the node.",
    witness=("DIST007",),
    settle="determinism",
    cost_steps=6,
    regimes=(
        "world_size",
        "distributed",
    ),
)
