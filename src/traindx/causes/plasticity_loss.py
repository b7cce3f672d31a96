"""In long or changing runs units fall dormant and the network stops adapting."""

from traindx.cause import Cause

plasticity_loss = Cause(
    name="plasticity-loss",
    title="units went dormant: the network no longer adapts",
    likely={
        "ACTV002": 0.9,
        "LOSS003": 0.4,
        "ACTV001": 0.2,
    },
    prior=0.2,
    verdict="fix-and-resume",
    cure="Re-initialise dormant units from time to time, normalise layers, and use some weight decay.",
    refutes=("OPTM002",),
    witness=("ACTV002",),
    settle="fix",
    cost_steps=400,
)
