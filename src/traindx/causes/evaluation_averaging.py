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
    cure="Sum loss × samples, divide by the samples, reset for every evaluation.",
    witness=("EVAL008", "EVAL006:scale"),
)
