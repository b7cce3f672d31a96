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
    cure="Call the DDP wrapper, not its `.module`. Use `no_sync` on all micro-batches but the last.",
    witness=("DIST003",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
