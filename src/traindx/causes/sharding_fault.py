"""Ranks read the same data."""

from traindx.cause import Cause

sharding_fault = Cause(
    name="sharding-fault",
    title="all ranks read the same data",
    likely={
        "DIST002": 0.97,
        "OPTM011": 0.1,
        "DATA005": 0.1,
    },
    prior=0.4,
    verdict="fix-and-resume",
    cure="Use a DistributedSampler and call `set_epoch`; split streams by rank and worker.",
    witness=("DIST002",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
