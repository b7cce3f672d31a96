"""Weight decay shrinks the weights faster than gradients rebuild them, or is applied where it hurts."""

from traindx.cause import Cause

weight_decay_misapplied = Cause(
    name="weight-decay-misapplied",
    title="weight decay is too strong or applied in the wrong place",
    likely={
        "OPTM009": 0.9,
        "WGHT002": 0.7,
        "ACTV005": 0.35,
        "LOSS009": 0.35,
        "LOSS002": 0.2,
        "LOSS011": 0.2,
        "LOSS003": 0.2,
        "WGHT003": 0.2,
        "GRAD001": 0.15,
        "EVAL004": 0.15,
        "LOSS001": 0.1,
    },
    prior=0.6,
    verdict="restart",
    cure=(
        "Divide the weight decay by 10 (AdamW: 0.01 to 0.1), leave norm gains and biases out, and check that it is "
        "not applied twice."
    ),
    refutes=("WIRE004",),
    witness=("OPTM009",),
    settle="regularisers-off",
    cost_steps=400,
    poisons=True,
    change={"weight_decay": 0.1},
)
