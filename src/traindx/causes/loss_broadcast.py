"""Predictions and targets are broadcast against each other."""

from traindx.cause import Cause

loss_broadcast = Cause(
    name="loss-broadcast",
    title="predictions and targets are broadcast against each other",
    likely={
        "WIRE008": 0.97,
        "LOSS011": 0.5,
        "LOSS009": 0.35,
        "LOSS003": 0.35,
        "ACTV005": 0.35,
        "LOSS002": 0.25,
        "EVAL003": 0.1,
        "LOSS008": 0.1,
    },
    prior=0.8,
    verdict="restart",
    cure="Give both the same shape: squeeze the predictions or unsqueeze the targets.",
    witness=("WIRE008",),
)
