"""Losses are averaged over ranks with unequal tokens."""

from traindx.cause import Cause

rank_normalisation = Cause(
    name="rank-normalisation",
    title="losses are averaged over ranks with different token counts",
    likely={
        "DIST006": 0.97,
        "EVAL008": 0.2,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Sum losses and counts over all ranks and divide once.",
    witness=("DIST006",),
    regimes=(
        "world_size",
        "distributed",
    ),
)
