"""Units no longer fire for any input.

When the first steps were large, the rate killed them; when they were dead from the start, the initialisation did.
"""

from traindx.cause import Cause

dead_units = Cause(
    name="dead-units",
    title="most units of a layer are dead",
    likely={
        "ACTV001": 0.9,
        "GRAD004:zero": 0.4,
        "GRAD004:dead": 0.4,
        "ACTV005": 0.3,
        "GRAD004": 0.3,
        "LOSS002": 0.3,
        "LOSS003": 0.3,
        "LOSS009": 0.3,
        "ACTV002": 0.3,
        "LOSS011": 0.25,
        "GRAD001": 0.2,
        "OPTM001": 0.15,
        "EVAL004": 0.15,
        "LOSS013:": 0.2,
    },
    prior=0.8,
    verdict="restart",
    cure=(
        "Lower the learning rate and start again, or re-initialise the units[[ of {where}]]. LeakyReLU or GELU, zero "
        "biases and a norm before the activation keep units alive."
    ),
    refutes=("WGHT004", "WIRE003"),
    witness=("ACTV001", "GRAD004:dead"),
    settle="overfit",
    cost_steps=300,
    poisons=True,
    change={"init": "kaiming", "lr": 0.3},
)
