"""Replicas hold different weights."""

from traindx.cause import Cause

rank_drift = Cause(
    name="rank-drift",
    title="the ranks' weights have drifted apart",
    likely={
        "DIST001": 0.97,
        "DIST003": 0.5,
        "DIST006": 0.1,
    },
    prior=0.4,
    verdict="restart",
    cure="Wrap the model, broadcast at the start, forward through the wrapper, the same rates on all; restart from rank 0's "
    "weights.",
    witness=("DIST001",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
