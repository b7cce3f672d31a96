"""The validation loss is averaged wrongly."""

from traindx.cause import Cause

evaluation_averaging = Cause(
    name="evaluation-averaging",
    title="the validation loss is averaged wrongly",
    likely={
        "EVAL008": 0.95,
        "EVAL006:scale": 0.9,
        "EVAL006": 0.15,
    },
    prior=0.4,
    verdict="fix-evaluation",
    cure=("Sum loss × samples over the evaluation and divide by the number of samples. Reset the sums before each evaluation."),
    witness=("EVAL008", "EVAL006:scale"),
)
