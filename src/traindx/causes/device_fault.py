"""A device computes wrongly."""

from traindx.cause import Cause

device_fault = Cause(
    name="device-fault",
    title="one device computes wrong numbers",
    likely={
        "DIST007": 0.97,
        "NUMR001": 0.2,
    },
    prior=0.1,
    verdict="fix-and-resume",
    cure="Repeat the step with the same batch on another device. If it is fine there, take the node out of service.",
    witness=("DIST007",),
    settle="determinism",
    cost_steps=6,
    regimes=(
        "world_size",
        "distributed",
    ),
)
