"""Fine-tuning destroys earlier abilities."""

from traindx.cause import Cause

forgetting = Cause(
    name="forgetting",
    title="fine-tuning makes the model forget what it could do",
    likely={
        "TUNE001": 0.97,
        "TUNE006": 0.4,
        "EVAL004:chance": 0.3,
        "EVAL004:common": 0.3,
        "LOSS008": 0.3,
        "LOSS001:excursion": 0.2,
        "LOSS006": 0.2,
        "DATA008": 0.3,  # the old task is evaluated next to the new one
        "EVAL003": 0.1,
    },
    prior=0.4,
    verdict="stop-keep-best",
    cure=(
        "Divide the learning rate by 3 to 10, train fewer epochs, use LoRA, mix in 5–20 % old data, or interpolate "
        "with the old weights (α = 0.5–0.8)."
    ),
    witness=("TUNE001",),
    settle="base-eval",
    cost_steps=1,
)
