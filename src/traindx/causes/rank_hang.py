"""Ranks wait for one of them: for good, for long, or because it is gone."""

from traindx.cause import Cause

rank_hang = Cause(
    name="rank-hang",
    title="one rank held up the others, or was lost",
    likely={
        "DIST005": 0.97,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure=(
        "Fix what that rank ran into (read its output, check its machine). Give all ranks the same number of steps "
        "(`drop_last`, Join) and the same branches."
    ),
    witness=("DIST005",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
