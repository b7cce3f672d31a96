"""Units of a layer start equal and receive equal gradients for good."""

from traindx.cause import Cause

symmetric_initialisation = Cause(
    name="symmetric-initialisation",
    title="units start identical and stay identical",
    likely={
        "WGHT004": 0.95,
        "LOSS002": 0.4,
        "LOSS011": 0.4,
        "GRAD004": 0.4,
        "GRAD004:zero": 0.4,
        "LOSS009": 0.35,
        "ACTV005": 0.3,
        "EVAL004": 0.3,
        "LOSS003": 0.25,
        "ACTV009": 0.2,
        "OPTM001": 0.2,
        "GRAD001": 0.1,
    },
    prior=0.5,
    verdict="restart",
    cure=("Initialise[[ {where}]] at random (kaiming or xavier) and start again. A zero-initialised last layer alone is fine."),
    refutes=("OPTM002",),
    witness=("WGHT004",),
    settle="overfit",
    cost_steps=300,
    change={"init": "kaiming"},
)
