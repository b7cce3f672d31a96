"""The same weights are loaded again and again while training continues."""

from traindx.cause import Cause

weights_put_back = Cause(
    name="weights-put-back",
    title="the same weights are restored again and again",
    likely={
        "WIRE015:again": 0.95,
        "WIRE015:back": 0.95,
        "LOSS002": 0.4,
        "LOSS009": 0.3,
        "LOSS003": 0.2,
        "EVAL004": 0.2,
        "EVAL006": 0.1,
    },
    prior=0.3,
    verdict="restart",
    cure="Write the weights once, before the loop over epochs[[ (now at {where})]].",
    witness=("WIRE015:again", "WIRE015:back"),
)
