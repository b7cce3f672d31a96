"""Bounded activations sit in their flat tails."""

from traindx.cause import Cause

saturated_units = Cause(
    name="saturated-units",
    title="units are saturated: their activation is flat",
    likely={
        "ACTV003": 0.9,
        "WGHT005": 0.5,
        "GRAD001": 0.4,
        "ACTV004": 0.3,
        "LOSS010": 0.3,
        "LOSS002": 0.2,
        "LOSS009": 0.2,
        "DATA002": 0.2,
    },
    prior=0.5,
    verdict="restart",
    cure="Initialise with Xavier (gain 5/3 for tanh), scale the inputs, or normalise before the activation.",
    refutes=("OPTM002",),
    witness=("ACTV003",),
    settle="loss-at-init",
    cost_steps=15,
    change={"init": "xavier"},
)
