"""Training continues in eval mode."""

from traindx.cause import Cause

training_in_eval_mode = Cause(
    name="training-in-eval-mode",
    title="training runs in eval mode",
    likely={
        "WIRE005": 0.95,
        "ACTV008:eval": 0.3,
        "LOSS008": 0.25,
        "ACTV008": 0.2,
        "EVAL006": 0.15,
        "EVAL007": 0.05,
        "EVAL004": 0.05,
    },
    prior=0.9,
    verdict="fix-and-resume",
    cure="Call `model.train()` at the start of every epoch, after the evaluation.",
    witness=("WIRE005",),
    change={"mode": "train"},
)
