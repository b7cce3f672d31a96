"""Noise schedule and target do not fit."""

from traindx.cause import Cause

diffusion_target_wrong = Cause(
    name="diffusion-target-wrong",
    title="the noise schedule does not match the prediction target",
    likely={
        "SPEC007": 0.97,
    },
    prior=0.2,
    verdict="restart",
    cure="Check whether the target is ε, v or x, the direction of the schedule, and the weights of the time steps.",
    witness=("SPEC007",),
)
