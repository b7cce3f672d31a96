"""Ranks wait for one of them: for ever, for long, or because it is gone."""

from traindx.cause import Cause

rank_hang = Cause(
    name="rank-hang",
    title="one rank held up the others, or was lost",
    likely={
        "DIST005": 0.97,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Mend what that rank ran into (its output, its machine); equal steps (drop_last, Join) and branches on all ranks.",
    witness=("DIST005",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
