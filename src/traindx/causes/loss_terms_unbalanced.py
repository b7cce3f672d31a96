"""One term of a summed loss owns the gradient."""

from traindx.cause import Cause

loss_terms_unbalanced = Cause(
    name="loss-terms-unbalanced",
    title="one loss term dominates the gradient",
    likely={
        "GRAD006": 0.9,
        "LOSS010": 0.3,
        "LOSS009": 0.2,
        "LOSS003": 0.2,
        "EVAL004": 0.4,
        "EVAL007": 0.2,
        "DATA011:harm": 0.2,
        "WIRE007:sum": 0.1,
    },
    prior=0.5,
    verdict="restart",
    cure=(
        "Weight the terms until their gradients on the shared layers are comparable[[ ({where} gets too little)]], or"
        " standardise the targets of the large one."
    ),
    witness=("GRAD006",),
    settle="fix",
    cost_steps=400,
    not_yet=("Leave auxiliary terms small if they are meant to be small.",),
)
