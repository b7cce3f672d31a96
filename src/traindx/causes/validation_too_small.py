"""The validation set cannot resolve the differences that are read off it."""

from traindx.cause import Cause

validation_too_small = Cause(
    name="validation-too-small",
    title="the validation set is too small for these differences",
    likely={
        "EVAL002": 0.9,
        "EVAL002:few": 0.4,
        "LOSS003:val": 0.2,
        "LOSS006:coarse": 0.1,
    },
    prior=0.7,
    verdict="fix-evaluation",
    cure="The swings are larger than the gains: average the last 3–5 evaluations, or enlarge the validation set[[{samples}]].",
    refutes=("LOSS005", "DATA009", "EVAL009", "LOSS008"),
    witness=("EVAL002",),
)
