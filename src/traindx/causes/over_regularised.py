"""Dropout, decay, augmentation or smoothing keep training from fitting."""

from traindx.cause import Cause

over_regularised = Cause(
    name="over-regularised",
    title="regularisation keeps the model from fitting",
    likely={
        "LOSS009": 0.7,
        "EVAL006": 0.5,
        "LOSS003": 0.3,
        "LOSS002": 0.25,
        "LOSS011": 0.2,
        "OPTM009:strong": 0.2,
        "OPTM009:horizon": 0.2,
        "WGHT002": 0.15,
        "EVAL004:chance": 0.15,
        "EVAL004:common": 0.15,
    },
    prior=0.7,
    verdict="fix-and-resume",
    cure=(
        "Fork the run for 200 steps with dropout, weight decay, augmentation and smoothing off, one at a time. Weaken"
        " the one whose absence lowers the loss clearly."
    ),
    refutes=("OPTM001", "OPTM002", "WIRE006", "WIRE008", "DATA004", "DATA006", "WIRE016", "EVAL006:scale"),
    settle="regularisers-off",
    cost_steps=400,
    change={"regularisers": "off"},
)
