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
    cure=(
        "Use no random transforms in validation, and draw new random numbers for each sample and worker. If training "
        "cannot fit, halve the strength."
    ),
    witness=("DATA009",),
    settle="regularisers-off",
    cost_steps=400,
)
