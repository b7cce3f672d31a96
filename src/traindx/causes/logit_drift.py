"""Output logits and their partition function drift."""

from traindx.cause import Cause

logit_drift = Cause(
    name="logit-drift",
    title="output logits keep growing",
    likely={
        "LOSS008": 0.3,
        "EVAL005": 0.3,
        "ACTV007": 0.9,
        "NUMR004": 0.3,
        "LOSS006": 0.3,
        "LOSS005": 0.1,
    },
    prior=0.3,
    verdict="fix-and-resume",
    cure="Add a z-loss of 1e-4, compute logits and loss in float32, and apply weight decay to the output layer.",
    witness=("ACTV007",),
    settle="precision",
    cost_steps=4,
)
