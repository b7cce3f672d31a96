"""A sample's output depends on other samples of the batch."""

from traindx.cause import Cause

batch_mixing = Cause(
    name="batch-mixing",
    title="samples of a batch influence each other",
    likely={
        "WIRE009": 0.97,
        "EVAL007": 0.3,
        "LOSS008": 0.2,
        "LOSS009": 0.2,
        "EVAL002": 0.2,
        "EVAL004": 0.2,
        "LOSS010": 0.3,
        "LOSS002": 0.15,
        "LOSS011": 0.15,
        "WIRE007": 0.1,
    },
    prior=0.5,
    verdict="restart",
    cure=(
        "Check `dim=` of every softmax and norm, and every view, reshape and permute: the batch axis must stay the batch axis."
    ),
    witness=("WIRE009",),
    settle="dependency",
    cost_steps=2,
)
