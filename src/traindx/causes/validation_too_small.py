"""The validation set cannot resolve the differences that are read off it."""

from traindx.cause import Cause

validation_too_small = Cause(
    name="validation-too-small",
    title="the validation set is too small for the differences looked at",
    likely={
        "EVAL002": 0.9,
        "EVAL002:few": 0.4,
        "LOSS003:val": 0.2,
        "LOSS006:coarse": 0.1,
    },
    prior=0.7,
    verdict="fix-evaluation",
    cure="Use[[ {samples}]] samples for a resolution of 1 %, or compare checkpoints sample by sample; smooth over "
    "three evaluations.",
    refutes=("LOSS005", "DATA009", "EVAL009", "LOSS008"),
    witness=("EVAL002",),
)
