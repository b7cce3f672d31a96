"""Augmentation is applied to validation, frozen or too strong."""

from traindx.cause import Cause

augmentation_fault = Cause(
    name="augmentation-fault",
    title="augmentation is set up wrongly",
    likely={
        "DATA009": 0.95,
        "EVAL002": 0.4,
        "REPR002": 0.2,
        "LOSS009": 0.15,
    },
    prior=0.5,
    verdict="fix-evaluation",
    cure="Validation without random transforms; random numbers drawn per call and per worker; half the strength if "
    "training cannot fit.",
    witness=("DATA009",),
    settle="regularisers-off",
    cost_steps=400,
)
