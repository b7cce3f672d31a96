"""Gradients are not reduced across ranks."""

from traindx.cause import Cause

gradients_not_synced = Cause(
    name="gradients-not-synced",
    title="gradients are not synchronised between ranks",
    likely={
        "DIST003": 0.97,
        "DIST001": 0.7,
    },
    prior=0.4,
    verdict="restart",
    cure="Call the DDP wrapper, not .module; no_sync only on all but the last micro-batch.",
    witness=("DIST003",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
