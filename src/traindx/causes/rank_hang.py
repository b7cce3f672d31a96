"""Ranks wait for each other for ever."""

from traindx.cause import Cause

rank_hang = Cause(
    name="rank-hang",
    title="a collective never completes",
    likely={
        "DIST005": 0.97,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Equal numbers of steps (drop_last, Join), the same branches on all ranks.",
    witness=("DIST005",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
