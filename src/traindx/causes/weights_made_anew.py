"""The weights are initialised again and again."""

from traindx.cause import Cause

weights_made_anew = Cause(
    name="weights-made-anew",
    title="the weights are created again in every epoch",
    likely={
        "LOSS012:anew": 0.97,
        "LOSS006": 0.5,
        "LOSS002": 0.3,
        "LOSS005": 0.3,
        "LOSS009": 0.2,
        "EVAL006": 0.2,
    },
    prior=0.4,
    verdict="restart",
    cure="Create and initialise the model once, before the loop over epochs[[; now it happens every {per} steps]].",
    witness=("LOSS012:anew",),
)
