"""Gradients of earlier steps are never cleared."""

from traindx.cause import Cause

zero_grad_missing = Cause(
    name="zero-grad-missing",
    title="gradients are never cleared (zero_grad is missing)",
    likely={
        "WIRE004": 0.97,
        "GRAD002": 0.5,
        "LOSS001": 0.45,
        "LOSS005": 0.35,
        "OPTM002": 0.3,
        "GRAD003": 0.3,
        "LOSS006": 0.3,
        "WGHT001": 0.25,
        "GRAD007": 0.2,
        "NUMR003": 0.2,
        "NUMR001": 0.2,
        "ACTV005": 0.2,
        "ACTV001": 0.2,
        "EVAL002": 0.2,
        "LOSS002": 0.15,
        "LOSS011": 0.15,
        "OPTM006": 0.15,
        "LOSS003": 0.15,
        "LOSS009": 0.15,
        "LOSS008": 0.15,
        "EVAL004": 0.15,
    },
    prior=1.0,
    verdict="restart",
    cure=(
        "Call `optimizer.zero_grad()` before every backward. The damage is in the weights: start again, or go back to"
        " before it."
    ),
    witness=("WIRE004",),
    poisons=True,
)
