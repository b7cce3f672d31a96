"""Noise schedule and target do not fit."""

from traindx.cause import Cause

diffusion_target_wrong = Cause(
    name="diffusion-target-wrong",
    title="noise schedule and prediction target do not fit",
    likely={
        "SPEC007": 0.97,
    },
    prior=0.2,
    verdict="restart",
    cure="Check ε- or v-target, the schedule and the weighting of time steps.",
    witness=("SPEC007",),
)
