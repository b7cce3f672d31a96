"""A class counts for nothing in the loss."""

from traindx.cause import Cause

class_without_weight = Cause(
    name="class-without-weight",
    title="a class has no weight in the loss",
    likely={
        "EVAL004": 0.95,
        "EVAL004:weightless": 0.95,
        "DATA011": 0.1,
        "LOSS003": 0.1,
    },
    prior=0.05,
    verdict="fix-and-resume",
    cure="Give the class a weight above zero in the loss. If it should not be learned, remove it from the metric too.",
    witness=("EVAL004:weightless",),
)
