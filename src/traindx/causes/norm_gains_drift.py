"""Gains of normalisation layers fade or run away."""

from traindx.cause import Cause

norm_gains_drift = Cause(
    name="norm-gains-drift",
    title="normalisation gains have drifted",
    likely={
        "WGHT003": 0.9,
        "OPTM009:gains": 0.5,
        "ACTV001": 0.2,
        "LOSS003": 0.2,
        "ACTV004": 0.2,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Leave norm gains out of weight decay and give them a tenth of the learning rate[[ ({where})]].",
    witness=("WGHT003",),
    settle="regularisers-off",
    cost_steps=400,
    change={"weight_decay": "off-gains"},
)
