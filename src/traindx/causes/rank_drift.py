"""Replicas hold different weights."""

from traindx.cause import Cause

rank_drift = Cause(
    name="rank-drift",
    title="the ranks hold different weights",
    likely={
        "DIST001": 0.97,
        "DIST003": 0.5,
        "DIST006": 0.1,
    },
    prior=0.4,
    verdict="restart",
    cure=(
        "Wrap the model in DistributedDataParallel, call the wrapper in every forward, and use the same learning rate"
        " on all ranks. Restart from rank 0's weights."
    ),
    witness=("DIST001",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
